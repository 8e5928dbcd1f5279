"""`torch.package`: refused. Code belongs into Python's own packages."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing
from adjoint._refused import refused_class

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = ["PackageExporter", "PackageImporter"]

_WHY = "adjoint keeps no code in files of tensors"
_FIX = "torch.save(model.state_dict(), path), and the code in a package of Python's own"

PackageExporter = refused_class("package.PackageExporter", _WHY, _FIX)
PackageImporter = refused_class("package.PackageImporter", _WHY, _FIX)


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
