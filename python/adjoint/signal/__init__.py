"""Signal processing under the names of ``torch.signal``: its windows."""

from adjoint.signal import windows

__all__ = ["windows"]
