"""``save`` and ``load``: files that hold data, not code.

A file is a safetensors file. Its tensors are the tensors of what was saved, one entry per distinct
memory and geometry; its metadata has one key, ``adjoint``, with the structure as JSON in which a
tensor is ``{"tensor": name, ...}``. Any safetensors reader sees the tensors; nothing is executed.

PyTorch's own files (zip archives with a pickle in them) are read by `_torch_files`, which knows how
to rebuild tensors and plain containers and refuses everything else.
"""

from __future__ import annotations

import io
import json
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from os import PathLike
from typing import IO, Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["load", "save"]

_CODES = {
    "BOOL": _core.bool, "U8": _core.uint8, "I8": _core.int8, "I16": _core.int16,
    "I32": _core.int32, "I64": _core.int64, "F16": _core.float16, "BF16": _core.bfloat16,
    "F32": _core.float32, "F64": _core.float64, "C64": _core.complex64, "C128": _core.complex128,
}  # fmt: skip
_NAMES = {dtype: code for code, dtype in _CODES.items()}
_BUILTIN = (dict, list, tuple, set, OrderedDict, defaultdict, _core.Size)
_FACTORIES: dict[str, Any] = {
    cls.__name__: cls for cls in (list, dict, set, tuple, int, float, complex, str, bytes, bool)
}

Target = str | PathLike[str] | IO[bytes]


def save(obj: Any, f: Target, **_: Any) -> None:
    """Write a structure of tensors, containers, numbers and strings to a file.

    Parameters
    ----------
    obj
        Tensors, dicts, lists, tuples, OrderedDicts, sets, bytes, numbers, strings and None, nested;
        so are named tuples, dataclasses, attrs classes and classes decorated with
        ``@adjoint.composite``, of which the file holds the names and the parts.
    f
        A path, or an object with ``write``.

    Raises
    ------
    TypeError
        Something else is in the structure; the message says where. Save its ``state_dict()``.

    Examples
    --------
    >>> import adjoint as ad
    >>> import io
    >>> buffer = io.BytesIO()
    >>> ad.save({"w": ad.ones(2), "step": 3}, buffer)
    >>> _ = buffer.seek(0)
    >>> ad.load(buffer)
    {'w': tensor([1., 1.]), 'step': 3}
    """
    writer = _Writer()
    structure = writer.encode(obj, "the object", [])
    header: dict[str, Any] = {"__metadata__": {"adjoint": json.dumps(structure)}}
    end = 0
    for name, tensor in writer.tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    if isinstance(f, str | PathLike):
        with open(f, "wb") as file:
            writer.write(file, text)
    else:
        writer.write(f, text)


class _Writer:
    """Turns a structure into JSON and collects its tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._seen: dict[tuple[Any, ...], str] = {}

    def write(self, file: IO[bytes], text: bytes) -> None:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor in self.tensors.values():
            file.write(_core._to_bytes(tensor))

    def encode(self, obj: Any, where: str, parents: list[int]) -> Any:
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if obj is None or (isinstance(obj, bool | str) and type(obj) in (bool, str)):
            return obj
        if type(obj) is int:
            return obj if abs(obj) < 2**53 else {"int": str(obj)}
        if isinstance(obj, float):
            return {"float": float(obj).hex()}
        if isinstance(obj, complex):
            return {"complex": [obj.real.hex(), obj.imag.hex()]}
        if isinstance(obj, bytes):
            return {"bytes": obj.hex()}
        if isinstance(obj, _core.dtype):
            return {"dtype": str(obj).removeprefix("torch.")}
        if id(obj) in parents:
            raise ValueError(f"cannot save {where}: it contains itself")
        parents.append(id(obj))
        made = self._container(obj, where, parents)
        parents.pop()
        return made

    def _container(self, obj: Any, where: str, parents: list[int]) -> Any:
        if type(obj) not in _BUILTIN and _saved_classes().is_object(obj):
            return _saved_classes().encode(
                obj, lambda part, place: self.encode(part, place, parents), where
            )
        if isinstance(obj, defaultdict):
            return self._defaultdict(obj, where, parents)
        if isinstance(obj, dict):
            kind = "OrderedDict" if isinstance(obj, OrderedDict) else "dict"
            return {
                kind: [
                    [self.encode(k, f"a key of {where}", parents),
                     self.encode(v, f"{where}[{k!r}]", parents)]
                    for k, v in obj.items()
                ]
            }  # fmt: skip
        for cls in (_core.Size, tuple, list, set):
            if isinstance(obj, cls):
                items = [self.encode(v, f"{where}[{i}]", parents) for i, v in enumerate(obj)]
                return {cls.__name__: items}
        raise TypeError(
            f"cannot save {where}: files hold tensors, containers, numbers and strings, not "
            f"{type(obj).__name__} objects. Save its state_dict() or its parts instead."
        )

    def _defaultdict(self, obj: Any, where: str, parents: list[int]) -> Any:
        factory = obj.default_factory
        if factory is not None and factory not in _FACTORIES.values():
            raise TypeError(
                f"cannot save {where}: the default_factory of a defaultdict must be None or one of "
                f"{', '.join(_FACTORIES)}, not {factory!r}; save dict(...) of it instead"
            )
        held = self._container(dict(obj), where, parents)
        return {"defaultdict": [factory and factory.__name__, held["dict"]]}

    def _tensor(self, t: Tensor) -> dict[str, Any]:
        plain = t.detach()
        key = (plain.data_ptr(), plain.dtype, tuple(plain.shape), tuple(plain.stride()))
        name = self._seen.get(key) if plain.numel() else None
        if name is None:
            name = f"t{len(self.tensors)}"
            self._seen[key] = name
            self.tensors[name] = plain
        row: dict[str, Any] = {"tensor": name}
        if t.requires_grad:
            row["requires_grad"] = True
        if type(t).__name__ == "Parameter":
            row["parameter"] = True
        return row


def load(
    f: Target,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    classes: Sequence[type] = (),
    **_: Any,
) -> Any:
    """Read what `save` wrote, a safetensors file, or a file of PyTorch's.

    Loading never executes anything: of PyTorch's files, tensors and plain containers are read and
    everything else is refused, whatever ``weights_only`` says.

    Parameters
    ----------
    f
        A path, or an object with ``read``.
    map_location
        Accepted for PyTorch's sake: all tensors are on the CPU.
    classes
        Classes of composites in the file. Those of modules that are imported are found without; a
        class that rebuilds its objects with methods of its own must be given.
    """
    if isinstance(f, str | PathLike):
        with open(f, "rb") as file:
            data = file.read()
    else:
        data = f.read()
    if data[:4] == b"PK\x03\x04":
        from adjoint._torch_files import read

        return read(io.BytesIO(data))
    return _read(bytearray(data), classes)


def _saved_classes() -> Any:
    from adjoint import _saved_classes

    return _saved_classes


def _read(data: bytearray, classes: Sequence[type]) -> Any:
    if len(data) < 8:
        raise RuntimeError(f"not a file of adjoint.save or safetensors: {len(data)} bytes")
    (length,) = struct.unpack_from("<Q", data)
    if length > len(data) - 8:
        raise RuntimeError("not a file of adjoint.save, safetensors or torch.save: bad header")
    try:
        header = json.loads(bytes(data[8 : 8 + length]))
        metadata = header.pop("__metadata__", {})
    except (ValueError, AttributeError, TypeError) as error:
        raise RuntimeError(f"not a file of adjoint.save or safetensors: {error}") from None
    tensors = {name: _entry(data, 8 + length, name, row) for name, row in header.items()}
    if "adjoint" not in metadata:
        return tensors
    return _decode(json.loads(metadata["adjoint"]), tensors, classes)


def _entry(data: bytearray, base: int, name: str, row: dict[str, Any]) -> Tensor:
    """One tensor of a safetensors file, checked against the size of the file."""
    try:
        dtype, shape = _CODES[row["dtype"]], [int(n) for n in row["shape"]]
        start, end = (int(i) for i in row["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise RuntimeError(f"tensor {name!r} has a bad entry in the file: {row}") from None
    count = 1
    for n in shape:
        count *= n
    bad = any(n < 0 for n in shape) or not 0 <= start <= end <= len(data) - base
    if bad or end - start != count * dtype.itemsize:
        raise RuntimeError(f"tensor {name!r} does not fit its place in the file: {row}")
    if count == 0:
        return _core.empty(shape, dtype=dtype)
    flat: Tensor = _core._frombuffer(data, dtype, count, base + start)
    return flat.clone().view(shape)


def _decode(obj: Any, tensors: dict[str, Tensor], classes: Sequence[type]) -> Any:
    def inner(part: Any) -> Any:
        return _decode(part, tensors, classes)

    if not isinstance(obj, dict):
        return obj
    if "tensor" in obj:
        return _decode_tensor(obj, tensors)
    ((kind, value),) = obj.items()
    if kind in ("dict", "OrderedDict"):
        pairs = [(inner(k), inner(v)) for k, v in value]
        return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
    if kind == "defaultdict":
        factory = None if value[0] is None else _FACTORIES[value[0]]
        return defaultdict(factory, [(inner(k), inner(v)) for k, v in value[1]])
    if kind == "object":
        return _saved_classes().decode(value, inner, classes)
    if kind in ("list", "tuple", "set", "Size"):
        items = [inner(v) for v in value]
        return {"list": list, "tuple": tuple, "set": set, "Size": _core.Size}[kind](items)
    if kind == "int":
        return int(value)
    if kind == "float":
        return float.fromhex(value)
    if kind == "complex":
        return complex(float.fromhex(value[0]), float.fromhex(value[1]))
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "dtype" and value in _dtype_names():
        return getattr(_core, value)
    raise RuntimeError(
        f"the file has an entry of unknown kind {kind!r}; is adjoint too old for it?"
    )


def _dtype_names() -> list[str]:
    return [str(dtype).removeprefix("torch.") for dtype in _NAMES]


def _decode_tensor(row: dict[str, Any], tensors: dict[str, Tensor]) -> Tensor:
    t = tensors[row["tensor"]]
    if row.get("parameter"):
        from adjoint.nn.parameter import Parameter

        return Parameter(t, bool(row.get("requires_grad")))
    if row.get("requires_grad") and not t.requires_grad:
        t = t.detach().requires_grad_()
    return t
