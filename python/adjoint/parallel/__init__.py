"""Executors for clusters, in the form of ``concurrent.futures``.

``external(..., workers=executor)`` takes any of them. Read next: _ray.py.
"""

from __future__ import annotations

from ._ray import RayExecutor

__all__ = ["RayExecutor"]
