"""What scripts ask about, and set on, backends that adjoint does not have: answered, and kept."""

from __future__ import annotations

from adjoint._missing import watch as _watch

from . import cuda as cuda
from . import cudnn as cudnn
from . import mkldnn as mkldnn
from . import mps as mps

__all__ = ["cuda", "cudnn", "mkldnn", "mps"]


_watch(__name__)
