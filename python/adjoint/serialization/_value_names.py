"""What pickles may name beside tensors and containers: NumPy's arrays, paths, ranges and the like.

Each is made by a function that checks its arguments: nothing that a file names is called.
Read next: `_torch_names`, whose table this is a part of.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

from adjoint.serialization._errors import LoadError, shown
from adjoint.serialization._formats import PATHS, numpy_dtype
from adjoint.serialization._pickle_machine import Machine, Name, Opaque, Wrapped, arguments_of
from adjoint.serialization._rebuild import is_special
from adjoint.serialization._source import elements

__all__ = ["attributes_of", "value_names"]


def attributes_of(state: Any, what: str) -> dict[str, Any]:
    """The attributes in a state, none of them special."""
    if type(state) is not dict or any(type(k) is not str or is_special(k) for k in state):
        raise LoadError(f"its pickle gives a {what} the attributes {shown(state)}")
    return state


# --- the standard library -------------------------------------------------------------------------
def _deque(m: Machine, items: Any = (), length: Any = None) -> deque[Any]:
    if type(items) not in (tuple, list) or (length is not None and type(length) is not int):
        raise LoadError(f"its pickle makes a deque of {shown((items, length))}")
    m.charge(8 * len(items))
    return deque(items, length)


def _range(m: Machine, *bounds: Any) -> range:
    if any(type(n) is not int for n in bounds):
        raise LoadError(f"its pickle makes a range of {shown(bounds)}")
    return range(*bounds)


def _slice(m: Machine, *bounds: Any) -> slice:
    return slice(*bounds)


def _namespace(m: Machine) -> Any:
    made = SimpleNamespace()
    return m.made(made, lambda state: vars(made).update(attributes_of(state, "namespace")))


def _path(name: str) -> Name:
    def build(m: Machine, *parts: Any) -> Any:
        if any(type(part) is not str for part in parts):
            raise LoadError(f"its pickle makes a path of {shown(parts)}")
        m.charge(sum(map(len, parts)))
        return PATHS[name](*parts)

    return Name(f"pathlib.{name}", build)


# --- NumPy ----------------------------------------------------------------------------------------
_ARRAY = Opaque("numpy.ndarray")


def _dtype(m: Machine, name: Any, align: Any = False, copy: Any = True) -> Any:
    """A dtype, whose order of bytes and unit of time follow."""
    made = Wrapped("numpy.dtype", numpy_dtype(name))

    def complete(state: Any) -> None:
        parts = arguments_of(state)
        if parts is None or len(parts) < 8 or parts[1] not in ("<", ">", "|", "="):
            raise LoadError(f"a dtype of NumPy in it has the state {shown(state)}")
        if parts[2] is not None or parts[3] is not None or parts[4] is not None:
            raise LoadError("it has records of NumPy, which are read with weights_only=False")
        unit = _unit(parts[8]) if len(parts) > 8 else ""
        made.value = numpy_dtype(f"{name}{unit}").newbyteorder(parts[1])

    return m.made(made, complete)


def _unit(metadata: Any) -> str:
    """``[25s]`` of the state of a dtype for dates."""
    parts = arguments_of(metadata)
    unit = arguments_of(parts[1]) if parts is not None and len(parts) == 2 else None
    if unit is None or len(unit) != 4 or type(unit[0]) is not bytes or type(unit[1]) is not int:
        raise LoadError(f"a date of NumPy in it has the unit {shown(metadata)}")
    number = "" if unit[1] == 1 else str(unit[1])
    return f"[{number}{unit[0].decode('ascii')}]" if unit[0] != b"generic" else ""


def _scalar(m: Machine, dtype: Any, data: Any = b"") -> Any:
    import numpy as np

    if not isinstance(dtype, np.dtype) or type(data) is not bytes or len(data) != dtype.itemsize:
        raise LoadError(f"a number of NumPy in it is {shown(data)} of {shown(str(dtype))}")
    if dtype.itemsize == 0:
        return dtype.type()
    return np.ndarray((), dtype, data)[()]


def _array(m: Machine, kind: Any, shape: Any, code: Any) -> Any:
    """An empty array, whose state follows."""
    import numpy as np

    if kind is not _ARRAY:
        raise LoadError(f"its pickle makes an array of the class {shown(kind)}")
    made: Any = np.empty(0)

    def complete(state: Any) -> None:
        parts = arguments_of(state)
        if parts is None or len(parts) != 5:
            raise LoadError(f"an array of NumPy in it has the state {shown(state)}")
        _, size, dtype, by_columns, data = parts
        _check_data(size, dtype, data)
        m.charge(len(data))
        made.__setstate__((1, size, dtype, by_columns is True, data))

    return m.made(made, complete)


def _of_buffer(m: Machine, data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    """An array as protocol 5 writes it."""
    import numpy as np

    _check_data(shape, dtype, bytes(data) if type(data) is bytearray else data)
    if order not in ("C", "F"):
        raise LoadError(f"an array of NumPy in it has the order {shown(order)}")
    m.charge(len(data))
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order=order)


def _check_data(shape: Any, dtype: Any, data: Any) -> None:
    import numpy as np

    if not isinstance(dtype, np.dtype) or type(shape) is not tuple or type(data) is not bytes:
        raise LoadError(f"an array of NumPy in it has the shape {shown(shape)} of {shown(data)}")
    size = elements(shape, dtype.itemsize, "an array in it")
    if len(data) != size:
        raise LoadError(
            f"an array of NumPy in it has {len(data)} bytes, and its shape {list(shape)} of "
            f"{dtype} wants {size}"
        )


def value_names() -> dict[tuple[str, str], Any]:
    """What pickles may name, (module, name) to a `Name` or to a value."""
    table: dict[tuple[str, str], Any] = {
        ("collections", "deque"): Name("collections.deque", _deque),
        ("types", "SimpleNamespace"): Name("types.SimpleNamespace", _namespace, _namespace),
        ("numpy", "dtype"): Name("numpy.dtype", _dtype),
        ("numpy", "ndarray"): _ARRAY,
    }
    for module in ("builtins", "__builtin__"):
        table[module, "range"] = table[module, "xrange"] = Name("builtins.range", _range)
        table[module, "slice"] = Name("builtins.slice", _slice)
        table[module, "Ellipsis"] = ...
    for module in ("numpy.core", "numpy._core"):
        table[f"{module}.multiarray", "scalar"] = Name("numpy scalar", _scalar)
        table[f"{module}.multiarray", "_reconstruct"] = Name("numpy array", _array)
        table[f"{module}.numeric", "_frombuffer"] = Name("numpy array", _of_buffer)
    for module in ("pathlib", "pathlib._local"):
        for name in PATHS:
            table[module, name] = _path(name)
    return table
