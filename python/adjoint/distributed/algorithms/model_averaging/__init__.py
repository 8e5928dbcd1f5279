"""Parameters that are averaged now and then, in place of gradients. Read next: averagers.py."""

from __future__ import annotations

from . import averagers as averagers
