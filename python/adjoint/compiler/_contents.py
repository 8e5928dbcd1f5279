"""What is in containers, errors, arrays and other objects, whatever these say about it themselves.

Read next: `_notes`, which compares it.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections import OrderedDict, deque
from types import FunctionType
from typing import Any

from ._guards import ABSENT, Kind, Place, Row, same

__all__ = [
    "CONTAINERS",
    "content",
    "content_rows",
    "equal",
    "is_array",
    "object_rows",
    "parts",
    "parts_of_error",
    "parts_of_partial",
    "restore",
    "set_attribute",
]


CONTAINERS: tuple[type[Any], ...] = (list, tuple, dict, set, frozenset, deque)


def parts(value: Any) -> tuple[Any, ...]:
    """What is in a container, whatever a subclass says about it."""
    if isinstance(value, dict):
        return (*dict.keys(value), *dict.values(value))
    base = next(cls for cls in CONTAINERS if isinstance(value, cls))
    return tuple(base.__iter__(value))


def content_rows(value: Any, path: str) -> list[Row]:
    """What says that a container has the same in it; nothing for one that cannot change."""
    name = f"the content of `{path}`"
    if isinstance(value, list):
        return [Row(Kind.LIST, value, parts(value), None, False, name)]
    if isinstance(value, dict):
        rows = [Row(Kind.DICT, value, parts(value), None, False, name)]
        if (
            isinstance(value, OrderedDict) and dict.__len__(value) > 1
        ):  # which keeps its order apart
            order = tuple(OrderedDict.__iter__(value))
            rows.append(Row(Kind.ORDER, value, order, OrderedDict, False, name))
        return rows
    if isinstance(value, set | deque):
        base = set if isinstance(value, set) else deque
        return [Row(Kind.ORDER, value, parts(value), base, False, name)]
    return []


def set_attribute(thing: Any, name: str, value: Any) -> None:
    if value is ABSENT:
        delattr(thing, name)
    else:
        setattr(thing, name, value)


def restore(row: Row) -> None:
    """Make a container, or a cell, what it was."""
    holder, value = row.holder, row.value
    if row.kind is Kind.LIST:
        list.__setitem__(holder, slice(None), value)
    elif row.kind is Kind.DICT:
        half = len(value) // 2
        dict.clear(holder)
        dict.update(holder, zip(value[:half], value[half:], strict=True))
    elif row.kind is Kind.ORDER and row.extra in (set, deque):
        row.extra.clear(holder)
        (set.update if row.extra is set else deque.extend)(holder, value)
    elif row.kind is Kind.PLACE and row.extra is Place.CELL and value is not ABSENT:
        holder.cell_contents = value
    elif row.kind is Kind.PLACE and isinstance(row.extra, types.MemberDescriptorType):
        set_attribute(holder, row.extra.__name__, value)


def parts_of_error(value: BaseException) -> tuple[Any, ...]:
    stays = value.__traceback__, value.__suppress_context__
    return value.args, value.__cause__, value.__context__, *stays


def parts_of_partial(value: functools.partial[Any]) -> tuple[Any, ...]:
    return value.func, value.args, value.keywords


def object_rows(thing: Any, table: dict[str, Any], path: str) -> list[Row]:
    """An object is of its class, and its attributes are in that dict."""
    rows = [Row(Kind.PLACE, thing, table, Place.DICT, False, f"`{path}.__dict__`")]
    if type(thing) is not FunctionType:
        rows.append(
            Row(Kind.PLACE, thing, type(thing), Place.TYPE, False, f"the class of `{path}`")
        )
    return rows


def content(value: Any) -> list[Any]:
    if is_array(value):
        plain = sys.modules["numpy"].ndarray.view(value, sys.modules["numpy"].ndarray)
        return [plain.shape, plain.strides, plain.dtype, plain.flags.num, plain.tobytes()]
    view = memoryview(value)
    return [view.format, view.shape, view.readonly, view.tobytes()]


def equal(a: Any, b: Any) -> bool:
    """Whether two answers are the same: lists of plain data, tuples of objects, values."""
    if type(a) is list:
        return bool(a == b)
    if type(a) is tuple:
        return len(a) == len(b) and all(map(operator.is_, a, b))
    return same(a, b)


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
