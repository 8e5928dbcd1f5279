"""``torch._functorch.functional_call``: see ``func/_modules.py``."""

from __future__ import annotations

from adjoint.func import functional_call as functional_call
from adjoint.func import stack_module_state as stack_module_state
