"""``torch._functorch.apis``: see `adjoint.func`."""

from __future__ import annotations

from adjoint.func import grad as grad
from adjoint.func import grad_and_value as grad_and_value
from adjoint.func import vmap as vmap
from adjoint.functorch.experimental import chunk_vmap as chunk_vmap
