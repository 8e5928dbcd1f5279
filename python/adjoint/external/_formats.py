"""Arrays as the bytes of files that programs read and write: npy, JSON, CSV, text.

Text is written with the digits that a float needs to be read back unchanged. Read next:
_command.py.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["FORMATS"]


def _write_npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _read_npy(data: bytes) -> Any:
    return np.load(io.BytesIO(data), allow_pickle=False)


def _write_json(array: Any) -> bytes:
    return json.dumps(array.tolist()).encode() + b"\n"


def _read_json(data: bytes) -> Any:
    # Whole numbers are floats that happened to be whole: 2 may be 2.5 at the next point.
    return np.asarray(json.loads(data), float)


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
