"""``torch._functorch.eager_transforms``: see `adjoint.func`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.func import functionalize as functionalize
from adjoint.func import grad as grad
from adjoint.func import grad_and_value as grad_and_value
from adjoint.func import hessian as hessian
from adjoint.func import jacfwd as jacfwd
from adjoint.func import jacrev as jacrev
from adjoint.func import jvp as jvp
from adjoint.func import linearize as linearize
from adjoint.func import vjp as vjp
from adjoint.func._arguments import Argnums, positions


def _slice_argnums(args: Sequence[Any], argnums: Argnums, as_tuple: bool = True) -> Any:
    """The chosen arguments: in a tuple, or alone if one is chosen by an int."""
    at = positions(argnums, len(args))
    if isinstance(argnums, int) and not as_tuple:
        return args[at[0]]
    return tuple(args[i] for i in at)
