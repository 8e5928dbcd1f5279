"""Helpers for tests: compare values with tolerances that suit their dtype, make random inputs.

``assert_close`` is in ``_comparison``, ``make_tensor`` in ``_creation``. Derivatives are checked by
``adjoint.autograd.gradcheck``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

from ._comparison import assert_allclose as assert_allclose
from ._comparison import assert_close as assert_close
from ._creation import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)


_watch(__name__)
