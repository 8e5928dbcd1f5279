"""Collective operations that autograd sees. Read next: functional.py."""

from __future__ import annotations

from . import functional as functional
from .functional import *  # noqa: F403
from .functional import __all__ as __all__
