"""Arrays as the bytes of files that programs read and write: npy, JSON, CSV, text.

JSON also has objects: dicts and dataclasses of arrays, numbers and texts.

Text is written with the digits that a float needs to be read back unchanged. Read next:
_command.py.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import _tree

__all__ = ["FORMATS"]


def _write_npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read_npy(data: bytes) -> Any:
    return np.load(io.BytesIO(data), allow_pickle=False)


def _write_json(value: Any) -> bytes:
    return json.dumps(value, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    """What stands for something that JSON has no word for."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if _tree.is_structure(value):
        children, entries = _tree.children(value)
        return dict(zip(map(str, entries), children, strict=True))
    raise TypeError(
        f"JSON has no {type(value).__name__}; give arrays, numbers, texts, and dicts, lists or "
        "dataclasses of them"
    )


def _read_json(data: bytes) -> Any:
    return _arrays(json.loads(data))


def _arrays(value: Any) -> Any:
    """Numbers and nested lists of numbers as arrays; objects, and lists of them, stay."""
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, list) and _mixed(value):
        return [_arrays(item) for item in value]
    # Whole numbers are floats that happened to be whole: 2 may be 2.5 at the next point.
    return np.asarray(value, float)


def _mixed(value: list[Any]) -> bool:
    """Whether there is something else than numbers in nested lists."""
    return any(
        _mixed(item) if isinstance(item, list) else isinstance(item, (dict, str)) for item in value
    )


def _rows(array: Any, between: str) -> bytes:
    if array.ndim > 2:
        raise ValueError(
            f"text has at most 2 axes, got shape {list(array.shape)}; fix: format='npy'"
        )
    table = array.reshape(-1, 1) if array.ndim < 2 else array
    lines = (between.join(repr(v) for v in row) for row in table.tolist())
    return "".join(line + "\n" for line in lines).encode()


def _read_rows(data: bytes, between: str | None) -> Any:
    lines = [line for line in data.decode().splitlines() if line.strip()]
    if not lines:
        raise ValueError("it is empty")
    table = np.array([[float(v) for v in line.split(between)] for line in lines])
    # One number is a number, one row or one column a vector.
    if table.size == 1:
        return table.reshape(())
    return table.reshape(-1) if 1 in table.shape else table


Format = tuple[Callable[[Any], bytes], Callable[[bytes], Any], str]

FORMATS: dict[str, Format] = {
    "npy": (_write_npy, _read_npy, ".npy"),
    "json": (_write_json, _read_json, ".json"),
    "csv": (lambda a: _rows(a, ","), lambda d: _read_rows(d, ","), ".csv"),
    "text": (lambda a: _rows(a, " "), lambda d: _read_rows(d, None), ".txt"),
}
