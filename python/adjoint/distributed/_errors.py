"""What goes wrong between processes, in PyTorch's classes."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """Anything that went wrong between processes."""


class DistBackendError(DistError):
    """MPI reports an error, or another rank did not take part in time."""


class DistNetworkError(DistError):
    """A connection that a store needs."""


class DistStoreError(DistError):
    """A key that never came into a store."""


class QueueEmptyError(DistStoreError):
    """A queue of a store that holds nothing."""


for _class in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _class.__module__ = "adjoint.distributed"
