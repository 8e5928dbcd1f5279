"""Signal processing under the names of ``torch.signal``: its windows."""

from adjoint._missing import watch as _watch
from adjoint.signal import windows

__all__ = ["windows"]


_watch(__name__)
