"""The old name of `adjoint.func`: what ``import functorch`` finds when adjoint stands for torch.

As in PyTorch, the functions here say that they have moved.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from adjoint import func as _func
from adjoint._functorch import make_functional as _functional
from adjoint._missing import watch as _watch

from . import experimental as experimental


def _moved(function: Callable[..., Any], address: str) -> Callable[..., Any]:
    """``function``, with a warning that names its new address at each call."""
    name = function.__name__

    @functools.wraps(function)
    def deprecated(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`functorch.{name}` is deprecated. Please use `{address}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return deprecated


vmap = _moved(_func.vmap, "torch.vmap")
grad = _moved(_func.grad, "torch.func.grad")
grad_and_value = _moved(_func.grad_and_value, "torch.func.grad_and_value")
vjp = _moved(_func.vjp, "torch.func.vjp")
jvp = _moved(_func.jvp, "torch.func.jvp")
jacrev = _moved(_func.jacrev, "torch.func.jacrev")
jacfwd = _moved(_func.jacfwd, "torch.func.jacfwd")
hessian = _moved(_func.hessian, "torch.func.hessian")
functionalize = _moved(_func.functionalize, "torch.func.functionalize")
make_functional = _moved(_functional.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(
    _functional.make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = _moved(
    _functional.combine_state_for_ensemble, "torch.func.stack_module_state"
)


_watch(__name__)
