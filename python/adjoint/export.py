"""`torch.export`: refused. adjoint writes no programs for other runtimes."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._refused import refused, refused_class

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = ["Dim", "ExportedProgram", "export", "load", "save"]

_WHY = "adjoint writes no programs for other runtimes"
_FIX = (
    "save model.state_dict() with torch.save, load it into the same module under PyTorch, and "
    "export there; adjoint.compile(f) records f for speed in this process"
)

export = refused("export.export", _WHY, _FIX)
export_for_training = refused("export.export_for_training", _WHY, _FIX)
save = refused("export.save", _WHY, _FIX)
load = refused("export.load", _WHY, _FIX)
register_dataclass = refused("export.register_dataclass", _WHY, _FIX)
Dim = refused_class("export.Dim", _WHY, _FIX)
ExportedProgram = refused_class("export.ExportedProgram", _WHY, _FIX)


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
