"""PyTorch's addresses of loops and branches."""

from __future__ import annotations

from .cond import cond
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["cond", "map", "scan", "while_loop"]
