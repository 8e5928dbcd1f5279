"""The structure of a file again: the inverse of `_encode`.

Every kind of entry makes objects of one type, from builtins, tensors, or classes that `_classes`
finds; nothing that a file names is called.
"""

from __future__ import annotations

import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._pending import may_have_bits, signed
from adjoint._tensor.device import device
from adjoint._tensor.sparse import LAYOUTS, of_parts
from adjoint.serialization import _classes
from adjoint.serialization._errors import LoadError, as_damage
from adjoint.serialization._formats import DTYPES, FACTORIES, PATHS, numpy_dtype
from adjoint.serialization._keys import check_key
from adjoint.serialization._source import elements

__all__ = ["Decoder"]


class Decoder:
    """Turns entries into objects, with the tensors of the file at hand."""

    def __init__(self, tensors: dict[str, Tensor], classes: Collection[type]) -> None:
        self._tensors, self._classes = tensors, classes
        self._met: dict[int, Any] = {}

    def decode_all(self, entry: Any) -> Any:
        """The whole structure.

        Raises
        ------
        LoadError
            An entry is not as `_encode` writes it.
        """
        with as_damage(lambda e: f"its structure has a bad entry ({type(e).__name__}: {e})"):
            return self.decode(entry)

    def decode(self, entry: Any) -> Any:
        """The object of an entry."""
        if not isinstance(entry, dict):
            if isinstance(entry, list | float):
                raise LoadError(f"its structure has a bad entry: {entry!r}"[:200])
            return entry
        for kind, value in entry.items():
            make = _KINDS.get(kind)
            if make is None:
                break
            made = make(self, value, entry)
            if "id" in entry:
                self._met[entry["id"]] = made
            return made
        kinds = ", ".join(repr(kind) for kind in entry)
        raise LoadError(f"it has an entry of unknown kind {kinds}; is adjoint too old for it?")

    def items(self, value: Any) -> list[Any]:
        """The objects of a list of entries."""
        return [self.decode(v) for v in _listed(value)]

    def members(self, value: Any) -> list[Any]:
        """The objects of a list of entries, for a set."""
        return [check_key(self.decode(v), self._classes) for v in _listed(value)]

    def pairs(self, value: Any) -> list[Any]:
        """The items of a dict."""
        return [
            (check_key(self.decode(k), self._classes), self.decode(v)) for k, v in _listed(value)
        ]

    def again(self, value: Any, entry: dict[str, Any]) -> Any:
        """An object that was made before."""
        return self._met[value]

    def mapping(self, made: Any, entry: dict[str, Any]) -> Any:
        """An OrderedDict or a Counter with its attributes."""
        self._set_attributes(made, entry)
        return made

    def defaulting(self, value: Any, entry: dict[str, Any]) -> Any:
        """A defaultdict."""
        name, pairs = value
        return defaultdict(None if name is None else FACTORIES[name], self.pairs(pairs))

    def tensor(self, name: Any, row: dict[str, Any]) -> Tensor:
        """A tensor: an entry of the file, or a geometry on one."""
        t = self._tensors[name]
        if "offset" in row:
            dtype, size, stride = DTYPES[row["dtype"]], _ints(row["size"]), _ints(row["stride"])
            elements(size, dtype.itemsize, f"a tensor on {name!r}")
            t = _core._on_storage(t, dtype, size, stride, row["offset"])
        elif "stride" in row:
            t = _restrided(t, _ints(row["stride"]))
        else:  # a tensor of its own, on the memory of the entry
            t = _core._on_storage(t, t.dtype, tuple(t.shape), tuple(t.stride()), 0)
        return self._finished(t, row)

    def _finished(self, made: Tensor, row: dict[str, Any]) -> Tensor:
        conj, neg = bool(row.get("conj")), bool(row.get("neg"))
        if not may_have_bits(made, conj, neg):
            raise LoadError(f"it has a {made.dtype} tensor with a conjugate or negative bit")
        made = signed(made, conj, neg)
        if row.get("parameter"):
            from adjoint.nn.parameter import Parameter

            made = Parameter(made, bool(row.get("requires_grad")))
        elif row.get("requires_grad"):
            made.requires_grad_()
        self._set_attributes(made, row)
        return made

    def sparse(self, value: Any, row: dict[str, Any]) -> Tensor:
        """A sparse tensor; what indices say is checked where it is made."""
        layout, size, coalesced, entries = value
        parts = self.items(entries)
        if layout not in LAYOUTS or not all(isinstance(part, Tensor) for part in parts):
            raise LoadError(f"it has a sparse tensor with the layout {layout!r} and other parts")
        try:
            made = of_parts(layout, _ints(size), bool(coalesced), parts)
        except RuntimeError as error:
            raise LoadError(f"it has a sparse tensor that is damaged: {error}") from error
        return self._finished(made, row)

    def array(self, name: Any, row: dict[str, Any]) -> Any:
        """A NumPy array."""
        import numpy as np

        dtype, shape = numpy_dtype(row["numpy"]), _ints(row["size"])
        size = elements(shape, dtype.itemsize, f"the array {name!r}")
        t = self._tensors[name]
        if t.nbytes != size:
            raise LoadError(
                f"the array {name!r} has {t.nbytes} bytes in the file, and its shape "
                f"{list(shape)} of {dtype} wants {size}"
            )
        made = np.empty(shape, dtype, order="F" if row.get("order") == "F" else "C")
        if size:
            buffer: Any = _core._whole(t)
            made[...] = np.ndarray(shape, dtype, memoryview(buffer))
        made.flags.writeable = not row.get("readonly")
        return made

    def object(self, value: Any, entry: dict[str, Any]) -> Any:
        """An object of a class."""
        return _classes.decode(value, self.decode, self._classes)

    def enum(self, value: Any, entry: dict[str, Any]) -> Any:
        """A member of an enum."""
        return _classes.decode_enum(value, self._classes)

    def _set_attributes(self, made: Any, entry: dict[str, Any]) -> None:
        for name, value in entry.get("attributes", ()):
            if not isinstance(name, str) or (name.startswith("__") and name.endswith("__")):
                raise LoadError(f"it would set the attribute {name!r} of a {type(made).__name__}")
            made.__dict__[name] = self.decode(value)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r}"[:200])
    return value


def _ints(value: Any) -> tuple[int, ...]:
    if any(type(n) is not int for n in _listed(value)):
        raise TypeError(f"expected ints, got {value!r}"[:200])
    return tuple(value)


def _restrided(t: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The elements of ``t`` in another order in memory, which must have room for each once."""
    expected = 1
    if len(stride) != t.dim():
        raise LoadError(f"a tensor of {t.dim()} axes has the strides {stride}")
    for step, length in sorted(zip(stride, t.shape, strict=True)):
        if step < 0 or (length != 1 and step != expected):
            raise LoadError(f"a tensor of shape {list(t.shape)} has the strides {stride}")
        expected *= length
    made: Tensor = _core.empty_strided(t.shape, stride, dtype=t.dtype)
    return made.copy_(t)


def _float(text: Any) -> float:
    if text.startswith("nan:"):
        (value,) = struct.unpack(">d", bytes.fromhex(text[4:]))
        if not math.isnan(value):
            raise ValueError(f"{text!r} is not NaN")
        return float(value)
    return float.fromhex(text)


def _numpy(value: Any) -> Any:
    import numpy as np

    dtype, data = numpy_dtype(value[0]), bytes.fromhex(value[1])
    if len(data) != dtype.itemsize:
        raise ValueError(f"{len(data)} bytes for one {dtype}")
    return np.ndarray((), dtype, data)[()]


def _generator(state: Any) -> Any:
    if not isinstance(state, Tensor):
        raise TypeError(f"the state of a generator is a {type(state).__name__}")
    return _core.Generator().set_state(state)


def _int(value: Any) -> int:
    return int(value, 16 if value.lstrip("-").startswith("0x") else 10)


def _whole(entry: Any) -> int:
    return entry if type(entry) is int else _int(entry["int"])


Maker = Callable[[Decoder, Any, dict[str, Any]], Any]
_KINDS: dict[str, Maker] = {
    "again": Decoder.again,
    "tensor": Decoder.tensor,
    "sparse": Decoder.sparse,
    "array": Decoder.array,
    "object": Decoder.object,
    "enum": Decoder.enum,
    "dict": lambda d, v, _: dict(d.pairs(v)),
    "OrderedDict": lambda d, v, entry: d.mapping(OrderedDict(d.pairs(v)), entry),
    "Counter": lambda d, v, entry: d.mapping(Counter(dict(d.pairs(v))), entry),
    "defaultdict": Decoder.defaulting,
    "list": lambda d, v, _: d.items(v),
    "tuple": lambda d, v, _: tuple(d.items(v)),
    "Size": lambda d, v, _: _core.Size(d.items(v)),
    "deque": lambda d, v, _: deque(d.items(v[1]), v[0]),
    "set": lambda d, v, _: set(d.members(v)),
    "frozenset": lambda d, v, _: frozenset(d.members(v)),
    "slice": lambda d, v, _: slice(*(d.decode(part) for part in v)),
    "generator": lambda d, v, _: _generator(d.decode(v)),
    "int": lambda d, v, _: _int(v),
    "float": lambda d, v, _: _float(v),
    "complex": lambda d, v, _: complex(_float(v[0]), _float(v[1])),
    "bytes": lambda d, v, _: bytes.fromhex(v),
    "bytearray": lambda d, v, _: bytearray.fromhex(v),
    "range": lambda d, v, _: range(*(_whole(part) for part in v)),
    "ellipsis": lambda d, v, _: ...,
    "dtype": lambda d, v, _: DTYPES[v],
    "device": lambda d, v, _: device(v),
    "path": lambda d, v, _: PATHS[v[0]](v[1]),
    "numpy": lambda d, v, _: _numpy(v),
}
