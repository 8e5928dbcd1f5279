"""Named tuples that ops with several results return: ``adjoint.return_types.max`` and its like."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from adjoint._core import Tensor

_types: dict[str, Any] = {}


def _make(name: str, fields: tuple[str, ...], values: tuple[Tensor, ...]) -> Any:
    """The results of an op under their names; called by the core."""
    kind = _types.get(name)
    if kind is None:
        kind = _new_type(name, fields)
    return kind._make(values)


def _new_type(name: str, fields: tuple[str, ...]) -> Any:
    kind = namedtuple(name, fields)  # type: ignore[misc]

    def show(self: Any) -> str:
        rows = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{rows})"

    kind.__repr__ = show  # type: ignore[method-assign]
    kind.__module__ = __name__
    _types[name] = kind
    globals()[name] = kind
    return kind
