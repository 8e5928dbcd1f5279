"""The old name of `adjoint.func`: what ``import functorch`` finds when adjoint stands for torch."""

from __future__ import annotations

from adjoint._functorch.make_functional import (
    combine_state_for_ensemble as combine_state_for_ensemble,
)
from adjoint._functorch.make_functional import make_functional as make_functional
from adjoint._functorch.make_functional import (
    make_functional_with_buffers as make_functional_with_buffers,
)
from adjoint.func import functionalize as functionalize
from adjoint.func import grad as grad
from adjoint.func import grad_and_value as grad_and_value
from adjoint.func import hessian as hessian
from adjoint.func import jacfwd as jacfwd
from adjoint.func import jacrev as jacrev
from adjoint.func import jvp as jvp
from adjoint.func import vjp as vjp
from adjoint.func import vmap as vmap

from . import experimental as experimental
