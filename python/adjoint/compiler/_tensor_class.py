"""What stands in the class `Tensor`: programs add methods to it, and replace those it has.

A recording notes what they put there as it notes other classes (`_walk`); the hundreds of
attributes that are adjoint's own lead nowhere, and are only compared.
"""

from __future__ import annotations

import types
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core

from ._guards import ABSENT, Kind, alike, is_value

__all__ = ["TensorTable", "table_of_tensor"]

_IN_C = frozenset(
    (
        types.BuiltinFunctionType,
        types.ClassMethodDescriptorType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
        type(ad.zeros),
    )
)


class TensorTable:
    """One copy for all recordings, until a program changes the class.

    Attributes
    ----------
    table : dict
        What stands in the class.
    innocent : frozenset
        The names of what leads nowhere.
    is_current : callable
        Whether the class is as it was.
    """

    def __init__(self) -> None:
        self.table = dict(vars(Tensor))
        self.innocent = frozenset(n for n, value in self.table.items() if _is_innocent(value))
        row = (Kind.CLASS, Tensor, self._is_the_same, None, False)
        self.is_current = _core._Guards([row], ABSENT, alike, None, []).hold

    def _is_the_same(self) -> bool:
        now = vars(Tensor)
        return len(now) == len(self.table) and all(
            now.get(name, ABSENT) is value for name, value in self.table.items()
        )


def _is_innocent(value: Any) -> bool:
    """Whether an attribute was put there by adjoint, or is a plain value."""
    if isinstance(value, property):
        return _is_innocent(value.fget)
    if isinstance(value, staticmethod | classmethod):
        return _is_innocent(value.__func__)
    if isinstance(value, types.FunctionType):
        return (value.__module__ or "").partition(".")[0] == "adjoint"
    return type(value) in _IN_C or is_value(type(value))


_table: TensorTable | None = None


def table_of_tensor() -> TensorTable:
    """The class as it is now."""
    global _table
    if _table is None or not _table.is_current():
        _table = TensorTable()
    return _table
