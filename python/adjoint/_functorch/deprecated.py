"""``torch._functorch.deprecated``: see `adjoint.functorch`."""

from __future__ import annotations

from adjoint.functorch import combine_state_for_ensemble as combine_state_for_ensemble
from adjoint.functorch import functionalize as functionalize
from adjoint.functorch import grad as grad
from adjoint.functorch import grad_and_value as grad_and_value
from adjoint.functorch import hessian as hessian
from adjoint.functorch import jacfwd as jacfwd
from adjoint.functorch import jacrev as jacrev
from adjoint.functorch import jvp as jvp
from adjoint.functorch import make_functional as make_functional
from adjoint.functorch import make_functional_with_buffers as make_functional_with_buffers
from adjoint.functorch import vjp as vjp
from adjoint.functorch import vmap as vmap
