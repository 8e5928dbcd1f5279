"""Work on several processes and machines: `map`, and executors for clusters.

- `map` - a differentiable map over the members of an ensemble
- `halo_exchange` - borders of blocks on a Cartesian grid of MPI's
- `Processes`, `RayExecutor` - places to run; ``external(..., workers=executor)`` takes any executor

Read next: _map.py.
"""

from __future__ import annotations

from ._halo import halo_exchange
from ._map import map
from ._places import Processes
from ._ray import RayExecutor

__all__ = ["Processes", "RayExecutor", "halo_exchange", "map"]
