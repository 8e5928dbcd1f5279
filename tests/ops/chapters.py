"""The chapters of the table of samples: every `samples_<topic>.py` in this folder.

A chapter has `OPS`, a list of samples, and `REFERENCES`, what they must return by name of the op.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_paths = sorted(Path(__file__).parent.glob("samples_*.py"))
_modules = [import_module(f"tests.ops.{path.stem}") for path in _paths]
CHAPTERS: list[Any] = [module for module in _modules if hasattr(module, "OPS")]
