"""Named tuples that ops with several results return: ``adjoint.return_types.max`` and its like."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from adjoint import _missing as _names
from adjoint._core import Tensor
from adjoint._homes import move as _move
from adjoint._missing import missing as _missing

_types: dict[str, Any] = {}


def _make(name: str, fields: tuple[str, ...], values: tuple[Tensor, ...]) -> Any:
    """The results of an op under their names; called by the core."""
    kind = _types.get(name)
    if kind is None:
        kind = _new_type(name, fields)
    return kind._make(values)


def _fields() -> dict[str, tuple[str, ...]]:
    """The names of the results of all ops that name them, by the names of the classes."""
    from adjoint._core import op_table

    return {row["name"]: tuple(row["results"]) for row in op_table() if row["results"]}


def __getattr__(name: str) -> Any:
    """A class that no call has made yet."""
    found = None if name.startswith("__") else _fields().get(name)
    if found is None:
        raise _missing(__name__, name)
    return _new_type(name, found)


def __dir__() -> list[str]:
    return sorted({*globals(), *_fields()})


def _new_type(name: str, fields: tuple[str, ...]) -> Any:
    kind = namedtuple(name, fields)  # type: ignore[misc]

    def show(self: Any) -> str:
        rows = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{rows})"

    kind.__repr__ = show  # type: ignore[method-assign]
    kind.__module__ = __name__
    if _names.answers_as_torch:
        _move(kind, "torch.return_types")
    _types[name] = kind
    globals()[name] = kind
    return kind
