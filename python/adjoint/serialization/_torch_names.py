"""What the pickles in PyTorch's files may name: tensors, storages, plain containers.

`names` is the table, `finder` looks into it and into what the caller allows (`_class_names`),
`storages` makes what persistent ids stand for. Read next: `_value_names`, the rest of the table;
`_torch_files` and `_torch_legacy`, the two formats.
"""

from __future__ import annotations

import _compat_pickle
import functools
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor import formats
from adjoint._tensor.device import device
from adjoint._tensor.storage import TypedStorage
from adjoint.serialization import _rebuild
from adjoint.serialization._errors import LoadError, shown
from adjoint.serialization._formats import DTYPES, FACTORIES
from adjoint.serialization._keys import check_key
from adjoint.serialization._pickle_machine import Machine, Name, Opaque, arguments_of
from adjoint.serialization._rebuild import REBUILDERS, ints, set_attributes
from adjoint.serialization._safe_globals import BLOCKED
from adjoint.serialization._torch_places import STORAGE_TYPES, StorageType
from adjoint.serialization._value_names import value_names

__all__ = ["finder", "names", "result_builder", "set_state", "storages", "todays_name"]


class _Factory(Opaque):
    """A builtin type beside a defaultdict."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        super().__init__(cls.__name__)
        self.cls = cls


class _StorageName(Opaque):
    """``torch.FloatStorage`` and its like: only persistent ids have them."""

    __slots__ = ("kind",)

    def __init__(self, kind: StorageType) -> None:
        super().__init__(f"torch.{kind.name}")
        self.kind = kind


# --- the builders ---------------------------------------------------------------------------------
def _builder(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda m, *arguments: function(*arguments)


def _typed_tensor(m: Machine, function: Any, cls: Any, arguments: Any, state: Any) -> Any:
    """A tensor with attributes, or of a class that was given."""
    items = arguments_of(arguments)
    known = any(function is name for name in _REBUILDERS)
    plain = any(cls is t for t in _TENSOR_TYPES)
    given = isinstance(cls, type) and issubclass(cls, Tensor)
    if not known or items is None or not (plain or given):
        raise LoadError(f"a tensor in it is made by {shown(function)} of the type {shown(cls)}")
    made = function.build(m, *items)
    if plain:
        if state:
            set_attributes(made, state)
        return made
    return _rebuild._rebuild_from_type_v2(lambda: made, cls, (), state)


def set_state(target: Any, state: Any) -> None:
    """What BUILD does: the attributes of a tensor, or of a ``state_dict()``."""
    if not isinstance(target, Tensor) and type(target) not in (OrderedDict, Counter):
        raise LoadError(f"its pickle wants to set attributes of a {type(target).__name__}")
    if state is None:
        raise LoadError("its pickle has the attributes None")
    set_attributes(target, state)


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
    items = _items(m, arguments, (list, tuple, set, frozenset))
    return {check_key(item, m.classes) for item in items}


def _frozenset(m: Machine, *arguments: Any) -> frozenset[Any]:
    return frozenset(_set(m, *arguments))


def _ordered(m: Machine, *arguments: Any) -> OrderedDict[Any, Any]:
    pairs = _items(m, arguments, (dict, list, tuple))
    if isinstance(pairs, dict):
        return OrderedDict(pairs)
    return OrderedDict([(check_key(key, m.classes), value) for key, value in pairs])


def _counter(m: Machine, *arguments: Any) -> Counter[Any]:
    return Counter(dict(_items(m, arguments, (dict,))))


def _defaultdict(m: Machine, *arguments: Any) -> defaultdict[Any, Any]:
    factory = arguments[0] if arguments else None
    if type(factory) is _Factory:
        made: Any = factory.cls
    elif factory is None or factory in m.classes:
        made = factory
    else:
        made = _CALLED.get(factory) if isinstance(factory, Name) else None
        if made is None:
            raise LoadError(f"its pickle makes a defaultdict of {shown(factory)}")
    return defaultdict(made, dict(_items(m, arguments[1:], (dict,))))


def _complex(m: Machine, real: Any = 0.0, imag: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise LoadError(f"its pickle makes a complex number of {shown((real, imag))}")
    return complex(real, imag)


def _size(m: Machine, *arguments: Any) -> Any:
    return _core.Size(ints(_items(m, arguments, (tuple, list)), "size"))


def _device(m: Machine, name: Any, index: Any = None) -> Any:
    if type(name) is not str or (index is not None and type(index) is not int):
        raise LoadError(f"it has the device {shown((name, index))}")
    return device(name, index)


def _generator(m: Machine, *arguments: Any) -> Any:
    made = _core.Generator()

    def set_stream(state: Any) -> None:
        stream = state[-1] if type(state) is tuple and state else state
        if not isinstance(stream, Tensor):
            raise LoadError(f"the state of a generator in it is {shown(state)}")
        made.set_state(stream)

    return m.made(made, set_stream)


def _result(name: str) -> Callable[..., Any]:
    """What makes the results of an op like ``max``, with their names."""
    from adjoint import return_types

    fields = _RESULTS[name] if name in _RESULTS else return_types._types[name]._fields

    def build(m: Machine, values: Any, others: Any = None) -> Any:
        if type(values) is not tuple or len(values) != len(fields):
            raise LoadError(f"it has results of {name} that are {shown(values)}")
        return return_types._make(name, fields, values)

    return build


_PAIRS = "max min median nanmedian mode kthvalue sort topk cummax cummin"
_RESULTS = dict.fromkeys(_PAIRS.split(), ("values", "indices")) | {"aminmax": ("min", "max")}
_SET = Name("builtins.set", _set)
_COMPLEX = Name("builtins.complex", _complex)
_BYTES = Name("builtins.bytes", _no_bytes)
_CALLED: dict[Any, type] = {_SET: set, _COMPLEX: complex, _BYTES: bytes}
_TENSOR_TYPES = (Name("torch.Tensor", None), Name("torch.nn.Parameter", None))
_REBUILDERS = tuple(
    Name(f"torch._utils.{name}", _builder(function)) for name, function in REBUILDERS.items()
)


@functools.lru_cache(maxsize=1)
def names() -> dict[tuple[str, str], Any]:
    """What pickles may name: (module, name) to a `Name`, or to a value."""
    table: dict[tuple[str, str], Any] = {
        ("torch._tensor", "_rebuild_from_type_v2"): Name("tensor with attributes", _typed_tensor),
        ("torch", "Tensor"): _TENSOR_TYPES[0],
        ("torch.nn.parameter", "Parameter"): _TENSOR_TYPES[1],
        ("collections", "OrderedDict"): Name("collections.OrderedDict", _ordered, _ordered),
        ("collections", "Counter"): Name("collections.Counter", _counter, _counter),
        ("collections", "defaultdict"): Name("collections.defaultdict", _defaultdict),
        ("torch", "Size"): Name("torch.Size", _size),
        ("torch", "device"): Name("torch.device", _device),
        ("torch._C", "Generator"): Name("torch.Generator", _generator),
        ("torch.serialization", "_get_layout"): Name("layout", _builder(_rebuild._get_layout)),
        ("_codecs", "encode"): Name("_codecs.encode", _codec),
        **value_names(),
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
    for name, kind in STORAGE_TYPES.items():
        table["torch", name] = table["torch.storage", name] = _StorageName(kind)
    for name, dtype in DTYPES.items():
        table["torch", name] = dtype
    for name, value in vars(formats).items():
        if isinstance(value, formats.memory_format):
            table["torch", name] = value
    return table


def finder(given: dict[tuple[str, str], Any]) -> Callable[[str, str], Any]:
    """What finds the names of a pickle: in the table, in ``given``, among imported classes."""
    table = names()

    def find(module: str, name: str) -> Any:
        found = table.get((module, name))
        if found is not None:
            return found
        # At its first use: what describes classes takes long to import.
        from adjoint.serialization._class_names import class_name, given_name

        module, name = todays_name(module, name)
        found = table.get((module, name))
        if found is None and module.partition(".")[0] not in BLOCKED:
            if (module, name) in given:
                return given_name(module, name, given[module, name])
            if module == "torch.return_types":
                found = _result_name(name)
            else:
                found = class_name(module, name)
        if found is None:
            raise LoadError(_refusal(module, name))
        return found

    return find


def todays_name(module: str, name: str) -> tuple[str, str]:
    """The name of something that protocol 2 calls as Python 2 did."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        found: tuple[str, str] = _compat_pickle.NAME_MAPPING[module, name]
        return found
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def _result_name(name: str) -> Name | None:
    from adjoint import return_types

    if name not in _RESULTS and name not in return_types._types:
        return None
    return Name(f"torch.return_types.{name}", _result(name))


def result_builder(name: str) -> Callable[..., Any]:
    """What an unpickler calls for ``torch.return_types.max`` and its like."""
    found = _result_name(name)
    if found is None or found.build is None:
        raise LoadError(f"it needs torch.return_types.{name}, which adjoint does not have")
    return functools.partial(found.build, None)


def _refusal(module: str, name: str) -> str:
    """PyTorch's words, and what to do."""
    whole = f"{module:.99}.{name:.99}"
    if module.partition(".")[0] in BLOCKED:
        return (
            f"Weights only load failed: unsupported GLOBAL {whole} whose module {module:.99} is "
            "blocked"
        )
    text = (
        f"Weights only load failed: Unsupported global: GLOBAL {whole} was not an allowed global "
        "by default. It is not data"
    )
    if (module, name[:9]) == ("torch._utils", "_rebuild_"):
        return f"{text}. Save tensor.to_dense(), or dequantize() it, as a tensor of numbers"
    if module == "torch" and name.islower():
        return f"{text} here. Save tensor.to() another dtype, if it is one"
    return (
        f"{text}: save the state_dict() instead of the object.\n  fix: if you trust the file, "
        "load(f, weights_only=False), which runs what the file says, or allow the name alone, "
        f"serialization.add_safe_globals([{name:.99}])"
    )


def storages(
    make: Callable[[str, int, _core.dtype], Tensor],
    length: int,
    restore: Callable[[Tensor, str], Tensor] | None = None,
    without_values: bool = False,
) -> Callable[[Any], TypedStorage]:
    """What makes storages of persistent ids, which are tuples of this length.

    ``make`` is called once for each key, with the number of bytes and the dtype;
    ``restore`` with its result and the name of the place where the storage was. Tensors on
    storages ``without_values`` are on the device "meta".
    """
    made: dict[str, Tensor] = {}
    seen: dict[tuple[str, Any], TypedStorage] = {}

    def load(pid: Any) -> TypedStorage:
        if not (type(pid) is tuple and len(pid) == length and pid[0] == "storage"):
            raise LoadError(f"its pickle has an unknown persistent id: {shown(pid)}")
        _, kind, key, place, count, *view = pid
        kind = kind.kind if type(kind) is _StorageName else kind
        if type(kind) is not StorageType or type(key) is not str or type(count) is not int:
            raise LoadError(f"its pickle has a storage of an unknown type: {shown(pid)}")
        if count < 0 or any(view):
            raise LoadError(
                f"its pickle has a storage of {count} elements, viewed by {shown(view)}"
            )
        if (key, kind) in seen and seen[key, kind].size() == count:
            return seen[key, kind]
        size = count * kind.dtype.itemsize
        if key not in made:
            data = make(key, size, kind.dtype)
            made[key] = data if restore is None else restore(data, str(place))
        elif made[key].numel() != size:
            raise LoadError(
                f"the storage {key!r} has {made[key].numel()} bytes, and its tensors want {size}"
            )
        elements: Tensor = _core._on_storage(made[key], kind.dtype, (count,), (1,), 0)
        seen[key, kind] = TypedStorage.of(elements)
        seen[key, kind].without_values = without_values
        return seen[key, kind]

    return load
