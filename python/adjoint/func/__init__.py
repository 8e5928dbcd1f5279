"""Functions of functions: derivatives and batches, composable to any depth.

``grad``, ``vjp``, ``jvp``, ``jacrev``, ``jacfwd``, ``hessian`` and ``vmap`` with PyTorch's names
and results, on tensors and on structures of them; ``jacobian`` and ``sparsity`` for sparse ones.

Read ``_arguments`` first (what transforms share), then ``_reverse``, ``_forward`` and ``_vmap``;
``_jacobian`` is made of these three. Batched and dual tensors are native (``src/transforms``).
Sparse derivatives: ``_sparse``, with patterns from ``_dependencies``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

from ._batch_norm import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from ._forward import jvp as jvp
from ._forward import linearize as linearize
from ._functionalize import functionalize as functionalize
from ._hessian_products import hvp as hvp
from ._hessian_products import vhp as vhp
from ._jacobian import hessian as hessian
from ._jacobian import jacfwd as jacfwd
from ._jacobian import jacrev as jacrev
from ._modules import functional_call as functional_call
from ._modules import stack_module_state as stack_module_state
from ._reverse import grad as grad
from ._reverse import grad_and_value as grad_and_value
from ._reverse import value_and_grad as value_and_grad
from ._reverse import vjp as vjp
from ._sparse import jacobian as jacobian
from ._sparse import sparsity as sparsity
from ._vmap import vmap as vmap

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "sparsity",
    "stack_module_state",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)


_watch(__name__)
