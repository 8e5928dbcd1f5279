"""Helpers for tests: compare values with tolerances that suit their dtype, make random inputs.

``assert_close`` is in ``_comparison``, ``make_tensor`` in ``_creation``. Derivatives are checked by
``adjoint.autograd.gradcheck``.
"""

from __future__ import annotations

from ._comparison import assert_allclose as assert_allclose
from ._comparison import assert_close as assert_close
from ._creation import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
