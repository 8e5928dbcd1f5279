"""Loops as things of their own: recorded once, run natively, with bounded memory.

Read next: _scan.py.
"""

from __future__ import annotations

from ._checkpoint_loop import checkpoint_loop
from ._map import map
from ._scan import scan
from ._while import while_loop

__all__ = ["checkpoint_loop", "map", "scan", "while_loop"]
