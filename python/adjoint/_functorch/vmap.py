"""``torch._functorch.vmap``: see ``func/_vmap.py``."""

from __future__ import annotations

from adjoint.func import vmap as vmap
from adjoint.func._restore_vmap import restore_vmap as restore_vmap
