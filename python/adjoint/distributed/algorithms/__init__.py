"""`Join` for uneven inputs; hooks for the communication of gradients in `ddp_comm_hooks`."""

from __future__ import annotations

from .join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
