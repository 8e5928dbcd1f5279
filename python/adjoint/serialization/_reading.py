"""How a file is to be read: what `load` was told."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from adjoint._core import Tensor

__all__ = ["LEGACY_MAGIC", "Reading"]

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # with which files of PyTorch before 1.6 begin


@dataclass
class Reading:
    """What the readers of all formats need to know.

    Attributes
    ----------
    unpickler
        The module whose ``Unpickler`` runs the pickle of a file; None: it makes data alone.
    options
        For the unpickler.
    given
        What a file may name beside data, by module and name.
    classes
        The classes among them.
    restore
        Is asked about every storage, with the name of its place; None: nothing is.
    mapped
        The file in memory, if tensors are to use it there.
    without_values
        Whether tensors are to be on the device "meta".
    """

    unpickler: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    given: dict[tuple[str, str], Any] = field(default_factory=dict)
    classes: Collection[type] = ()
    restore: Callable[[Tensor, str], Tensor] | None = None
    mapped: Any = None
    without_values: bool = False
