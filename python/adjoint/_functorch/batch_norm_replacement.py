"""``torch._functorch.batch_norm_replacement``: see ``func/_batch_norm.py``."""

from __future__ import annotations

from adjoint.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
