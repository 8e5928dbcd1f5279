"""How the values in files are named: dtypes of tensors, NumPy's dtypes, factories, paths."""

from __future__ import annotations

import builtins
import pathlib
import re
from typing import Any

from adjoint import _core

# The codes of the safetensors format.
CODES = {
    "BOOL": _core.bool, "U8": _core.uint8, "I8": _core.int8, "I16": _core.int16,
    "U16": _core.uint16, "U32": _core.uint32, "U64": _core.uint64,
    "I32": _core.int32, "I64": _core.int64, "F16": _core.float16, "BF16": _core.bfloat16,
    "F32": _core.float32, "F64": _core.float64, "C64": _core.complex64, "C128": _core.complex128,
}  # fmt: skip
NAMES = {dtype: code for code, dtype in CODES.items()}
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in NAMES}
MAX_AXES = 64

# What a defaultdict may make of a missing key: calling one of these does nothing else.
FACTORIES: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in ("list", "dict", "set", "tuple", "int", "float", "complex", "str", "bytes", "bool")
}
PATHS = {
    cls.__name__: cls for cls in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath)
}

_SIMPLE_DTYPE = re.compile(r"[<>|=]?[biufcmMSU]\d{0,9}(\[\w{1,20}\])?|[?bBhHiIlLqQefdgFDG]")


def numpy_name(dtype: Any) -> str | None:
    """A string of which `numpy_dtype` makes this dtype again; None if there is no such string."""
    for name in (dtype.str, dtype.char):
        if _SIMPLE_DTYPE.fullmatch(name):
            made = numpy_dtype(name)
            if made == dtype and made.char == dtype.char and not dtype.metadata:
                return str(name)
    return None


def numpy_dtype(name: Any) -> Any:
    """The dtype of such a string. Anything else (records, objects) is a ValueError."""
    import numpy as np

    if not isinstance(name, str) or not _SIMPLE_DTYPE.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a NumPy dtype that files hold")
    try:
        return np.dtype(name)
    except TypeError as error:
        raise ValueError(str(error)) from None
