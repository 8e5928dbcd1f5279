"""``functorch.experimental``: names from before they moved to `adjoint.func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.func import functionalize as functionalize
from adjoint.func import hessian as hessian
from adjoint.func import jacfwd as jacfwd
from adjoint.func import jvp as jvp
from adjoint.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from adjoint.func import vmap


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """`adjoint.func.vmap` in so many chunks."""
    from adjoint import _tree
    from adjoint.func._vmap import _batch_size, _in_dims

    if chunks < 1:
        raise ValueError(f"vmap: chunks should be greater than 0. (got {chunks})")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        dims = _in_dims(func, in_dims, args)
        size = _batch_size(func, _tree.flatten(args)[0], dims, in_dims)
        each = max(1, -(-size // chunks))
        mapped = vmap(func, in_dims, out_dims, randomness, chunk_size=each)
        return mapped(*args, **kwargs)

    return wrapper
