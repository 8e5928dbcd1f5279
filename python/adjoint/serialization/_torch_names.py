"""What the pickles in PyTorch's files may name: tensors, storages, plain containers.

`names` is the table for `_pickle_machine`, `storages` makes what persistent ids stand for. Read
next: `_torch_files` and `_torch_legacy`, the two formats.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._pending import signed
from adjoint.serialization._errors import LoadError, shown
from adjoint.serialization._formats import DTYPES, FACTORIES
from adjoint.serialization._keys import check_key
from adjoint.serialization._pickle_machine import Machine, Name, Opaque, arguments_of
from adjoint.serialization._source import elements

__all__ = ["names", "set_state", "storages"]

_STORAGES = {
    "FloatStorage": _core.float32, "DoubleStorage": _core.float64, "HalfStorage": _core.float16,
    "BFloat16Storage": _core.bfloat16, "LongStorage": _core.int64, "IntStorage": _core.int32,
    "ShortStorage": _core.int16, "CharStorage": _core.int8, "ByteStorage": _core.uint8,
    "BoolStorage": _core.bool, "ComplexFloatStorage": _core.complex64,
    "ComplexDoubleStorage": _core.complex128, "UntypedStorage": _core.uint8,
}  # fmt: skip


class _Storage(Opaque):
    """A storage of the file as a pickle sees it: its bytes, and the dtype it was named with."""

    __slots__ = ("data", "dtype")

    def __init__(self, data: Tensor, dtype: _core.dtype) -> None:
        super().__init__("a storage")
        self.data, self.dtype = data, dtype


class _StorageType(Opaque):
    """``torch.FloatStorage`` and its like: only persistent ids have them."""

    __slots__ = ("dtype",)

    def __init__(self, name: str, dtype: _core.dtype) -> None:
        super().__init__(name)
        self.dtype = dtype


class _Factory(Opaque):
    """A builtin type beside a defaultdict."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        super().__init__(cls.__name__)
        self.cls = cls


# --- the builders ---------------------------------------------------------------------------------
def _ints(value: Any, what: str) -> tuple[int, ...]:
    if not isinstance(value, tuple | list) or any(type(n) is not int for n in value):
        raise LoadError(f"a tensor in it has the {what} {shown(value)}")
    return tuple(value)


def _tensor(
    m: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    dtype: Any = None,
    metadata: Any = None,
) -> Tensor:
    if type(storage) is not _Storage or type(offset) is not int:
        raise LoadError(f"a tensor in it has the storage {shown(storage)} from {shown(offset)} on")
    dtype = storage.dtype if dtype is None else dtype
    shape, strides = _ints(size, "size"), _ints(stride, "strides")
    elements(shape, dtype.itemsize, "a tensor in it")
    made: Tensor = _core._on_storage(storage.data, dtype, shape, strides, offset)
    return _signed(made, metadata) if metadata else made


def _signed(t: Tensor, metadata: Any) -> Tensor:
    """A tensor that is conjugated or negated when it is read."""
    if type(metadata) is not dict or any(key not in ("conj", "neg") for key in metadata):
        raise LoadError(f"a tensor in it has the metadata {shown(metadata)}")
    conj, neg = bool(metadata.get("conj")), bool(metadata.get("neg"))
    if (conj and not t.is_complex()) or (neg and t.dtype == _core.bool):
        raise LoadError(f"a {t.dtype} tensor in it has the metadata {shown(metadata)}")
    return signed(t, conj, neg)


def _tensor_v2(
    m: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    made = _tensor(m, storage, offset, size, stride, None, metadata)
    return made.requires_grad_() if requires_grad else made


def _tensor_v3(
    m: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(dtype, _core.dtype):
        raise LoadError(f"a tensor in it has the dtype {shown(dtype)}")
    made = _tensor(m, storage, offset, size, stride, dtype, metadata)
    return made.requires_grad_() if requires_grad else made


def _parameter(m: Machine, data: Any, requires_grad: Any, hooks: Any = None) -> Tensor:
    from adjoint.nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise LoadError(f"a parameter in it is made of a {type(data).__name__}")
    return Parameter(data, bool(requires_grad))


def _parameter_with_state(
    m: Machine, data: Any, requires_grad: Any, hooks: Any, state: Any
) -> Tensor:
    made = _parameter(m, data, requires_grad)
    set_state(made, state)
    return made


def _typed_tensor(m: Machine, function: Any, cls: Any, arguments: Any, state: Any) -> Any:
    """A tensor with attributes."""
    known = any(function is name for name in _REBUILDERS) and any(cls is t for t in _TENSOR_TYPES)
    items = arguments_of(arguments)
    if not known or items is None:
        raise LoadError(f"a tensor in it is made by {shown(function)} of the type {shown(cls)}")
    made = function.build(m, *items)
    if state:
        set_state(made, state)
    return made


def set_state(target: Any, state: Any) -> None:
    """What BUILD does: the attributes of a tensor, or of a ``state_dict()``."""
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]  # attributes, and slots: there are none
    if not isinstance(target, Tensor) and type(target) is not OrderedDict:
        raise LoadError(f"its pickle wants to set attributes of a {type(target).__name__}")
    if type(state) is not dict or any(not isinstance(k, str) or _is_special(k) for k in state):
        raise LoadError(f"its pickle has the attributes {shown(state)}")
    target.__dict__.update(state)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _codec(m: Machine, text: Any, encoding: Any) -> bytes:
    """Bytes, as protocol 2 writes them."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise LoadError(f"its pickle encodes a {type(text).__name__} as {shown(encoding)}")
    m.charge(len(text))
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise LoadError(f"its pickle has damaged bytes ({error})") from None


def _no_bytes(m: Machine) -> bytes:
    return b""


def _bytearray(m: Machine, *arguments: Any) -> bytearray:
    # bytearray(3 << 30) would allocate what the file does not have.
    if len(arguments) == 2:
        arguments = (_codec(m, *arguments),)
    if len(arguments) > 1 or (arguments and type(arguments[0]) is not bytes):
        raise LoadError(f"its pickle makes a bytearray of {shown(arguments)}")
    m.charge(len(arguments[0]) if arguments else 0)
    return bytearray(*arguments)


def _items(m: Machine, arguments: tuple[Any, ...], kinds: tuple[type, ...]) -> Any:
    """The only argument of a container's constructor, or an empty tuple."""
    if not arguments:
        return ()
    if len(arguments) > 1 or type(arguments[0]) not in kinds:
        raise LoadError(f"its pickle makes a container of {shown(arguments)}")
    m.charge(8 * len(arguments[0]))
    return arguments[0]


def _set(m: Machine, *arguments: Any) -> set[Any]:
    return {check_key(item) for item in _items(m, arguments, (list, tuple, set, frozenset))}


def _frozenset(m: Machine, *arguments: Any) -> frozenset[Any]:
    return frozenset(_set(m, *arguments))


def _ordered(m: Machine, *arguments: Any) -> OrderedDict[Any, Any]:
    pairs = _items(m, arguments, (dict, list, tuple))
    return OrderedDict(
        pairs if isinstance(pairs, dict) else [(check_key(key), value) for key, value in pairs]
    )


def _counter(m: Machine, *arguments: Any) -> Counter[Any]:
    return Counter(dict(_items(m, arguments, (dict,))))


def _defaultdict(m: Machine, *arguments: Any) -> defaultdict[Any, Any]:
    factory = arguments[0] if arguments else None
    if factory is not None and type(factory) is not _Factory and factory not in _CALLED:
        raise LoadError(f"its pickle makes a defaultdict of {shown(factory)}")
    made = factory.cls if type(factory) is _Factory else _CALLED.get(factory)
    return defaultdict(made, dict(_items(m, arguments[1:], (dict,))))


def _complex(m: Machine, real: Any = 0.0, imag: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise LoadError(f"its pickle makes a complex number of {shown((real, imag))}")
    return complex(real, imag)


def _size(m: Machine, *arguments: Any) -> Any:
    return _core.Size(_ints(_items(m, arguments, (tuple, list)), "size"))


def _device(m: Machine, *arguments: Any) -> Any:
    from adjoint._tensor.device import device

    # Tensors of other devices come to the CPU; so does a device that was saved beside them.
    return device("cpu")


_SET = Name("builtins.set", _set)
_COMPLEX = Name("builtins.complex", _complex)
_BYTES = Name("builtins.bytes", _no_bytes)
_CALLED: dict[Any, type] = {_SET: set, _COMPLEX: complex, _BYTES: bytes}
_TENSOR_TYPES = (
    Name("torch.Tensor", lambda m: _refuse_type("torch.Tensor")),
    Name("torch.nn.Parameter", lambda m: _refuse_type("torch.nn.Parameter")),
)
_REBUILDERS = (
    Name("torch._utils._rebuild_tensor", _tensor),
    Name("torch._utils._rebuild_tensor_v2", _tensor_v2),
    Name("torch._utils._rebuild_tensor_v3", _tensor_v3),
    Name("torch._utils._rebuild_parameter", _parameter),
    Name("torch._utils._rebuild_parameter_with_state", _parameter_with_state),
)


def _refuse_type(name: str) -> Any:
    raise LoadError(f"its pickle wants to call {name}")


def names() -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {
        ("torch._tensor", "_rebuild_from_type_v2"): Name("tensor with attributes", _typed_tensor),
        ("torch", "Tensor"): _TENSOR_TYPES[0],
        ("torch.nn.parameter", "Parameter"): _TENSOR_TYPES[1],
        ("collections", "OrderedDict"): Name("collections.OrderedDict", _ordered, new=True),
        ("collections", "Counter"): Name("collections.Counter", _counter, new=True),
        ("collections", "defaultdict"): Name("collections.defaultdict", _defaultdict),
        ("torch", "Size"): Name("torch.Size", _size),
        ("torch", "device"): Name("torch.device", _device),
        ("_codecs", "encode"): Name("_codecs.encode", _codec),
    }
    for rebuilder in _REBUILDERS:
        table["torch._utils", rebuilder.name.rpartition(".")[2]] = rebuilder
    for module in ("builtins", "__builtin__"):
        for name, cls in FACTORIES.items():
            table[module, name] = _Factory(cls)
        table[module, "long"] = _Factory(int)  # as protocol 2 names them
        table[module, "unicode"] = _Factory(str)
        table[module, "set"] = _SET
        table[module, "frozenset"] = Name("builtins.frozenset", _frozenset)
        table[module, "complex"] = _COMPLEX
        table[module, "bytearray"] = Name("builtins.bytearray", _bytearray)
        table[module, "bytes"] = _BYTES
    for name, dtype in _STORAGES.items():
        found = _StorageType(f"torch.{name}", dtype)
        table["torch", name] = table["torch.storage", name] = found
    for name, dtype in DTYPES.items():
        table["torch", name] = dtype
    return table


def storages(make: Callable[[str, int, int], Tensor], length: int) -> Callable[[Any], _Storage]:
    """What makes storages of persistent ids, which are tuples of this length.

    ``make`` is called once for each key, with the number of bytes in all and in an element.
    """
    made: dict[str, Tensor] = {}

    def load(pid: Any) -> _Storage:
        if not (type(pid) is tuple and len(pid) == length and pid[0] == "storage"):
            raise LoadError(f"its pickle has an unknown persistent id: {shown(pid)}")
        _, kind, key, _, count, *view = pid
        if type(kind) is not _StorageType or type(key) is not str or type(count) is not int:
            raise LoadError(f"its pickle has a storage of an unknown type: {shown(pid)}")
        if count < 0 or any(view):
            raise LoadError(
                f"its pickle has a storage of {count} elements, viewed by {shown(view)}"
            )
        size = count * kind.dtype.itemsize
        if key not in made:
            made[key] = make(key, size, kind.dtype.itemsize)
        elif made[key].numel() != size:
            raise LoadError(
                f"the storage {key!r} has {made[key].numel()} bytes, and its tensors want {size}"
            )
        return _Storage(made[key], kind.dtype)

    return load
