"""A structure as JSON: every value with its type, every shared object once.

An entry is a JSON scalar (None, a bool, a string, a small int) or ``{kind: value}``. An object that
is met again gets an ``id`` in its entry, and its other places are ``{"again": id}``. What would not
come back as it was is refused, by its place in the structure, before a byte is written. Tensors and
arrays become references to the entries of `_memory`. Read next: `_decode`, the inverse.
"""

from __future__ import annotations

import enum
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.device import device
from adjoint._tensor.sparse import parts_of
from adjoint.serialization import _classes
from adjoint.serialization._errors import shown
from adjoint.serialization._formats import FACTORIES, PATHS, numpy_name
from adjoint.serialization._memory import Memory

__all__ = ["Encoder", "float_text"]


def float_text(value: float) -> str:
    """The digits of a float, of a NaN with its sign and payload."""
    if math.isnan(value):
        return "nan:" + struct.pack(">d", value).hex()
    return value.hex()


class Encoder:
    """Turns a structure into JSON and collects its tensors and arrays."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.warnings: list[str] = []
        # Objects that may be met again. They are kept alive: a dead one's id would be another's.
        self._met: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._open: set[int] = set()
        self._ids = 0

    def encode(self, obj: Any, where: str) -> Any:
        """The entry of ``obj``, which stands at ``where`` in the structure."""
        cls = type(obj)
        if obj is None or cls is bool or cls is str:
            return obj
        scalar = _SCALARS.get(cls)
        if scalar is not None:
            return scalar(obj)
        if id(obj) in self._met and not (cls is tuple and not obj):
            return self._again(obj, where)
        if id(obj) in self._open:
            raise ValueError(f"cannot save {where}: it contains itself")
        self._open.add(id(obj))
        entry: dict[str, Any] = self._structure(obj, where)
        self._open.discard(id(obj))
        self._met[id(obj)] = (obj, entry)
        return entry

    def _again(self, obj: Any, where: str) -> dict[str, Any]:
        entry = self._met[id(obj)][1]
        if "id" not in entry:
            entry["id"] = self._ids
            self._ids += 1
        return {"again": entry["id"]}

    def _structure(self, obj: Any, where: str) -> dict[str, Any]:
        cls = type(obj)
        container = _CONTAINERS.get(cls)
        if container is not None:
            made: dict[str, Any] = container(self, obj, where)
            return made
        if isinstance(obj, Tensor):
            return self._tensor(obj, where)
        if isinstance(obj, enum.Enum):
            return _enum(obj, where)
        if cls.__module__.partition(".")[0] == "numpy":
            return self._numpy(obj, where)
        if cls in PATHS.values():
            return {"path": [cls.__name__, str(obj)]}
        if _classes.is_object(obj):
            return _classes.encode(obj, self.encode, where)
        raise TypeError(_refusal(obj, where))

    # --- containers -------------------------------------------------------------------------------
    def items(self, obj: Iterable[Any], where: str) -> list[Any]:
        """The entries of a sequence."""
        return [self.encode(v, f"{where}[{i}]") for i, v in enumerate(obj)]

    def members(self, obj: Iterable[Any], where: str) -> list[Any]:
        """The entries of a set."""
        return [self.encode(v, f"an element of {where}") for v in obj]

    def pairs(self, obj: dict[Any, Any], where: str) -> list[Any]:
        """The entries of a dict."""
        return [
            [
                self.encode(k, f"the key {shown(k)} of {where}"),
                self.encode(v, f"{where}[{shown(k)}]"),
            ]
            for k, v in obj.items()
        ]

    def ordered(self, obj: OrderedDict[Any, Any], where: str) -> dict[str, Any]:
        """An OrderedDict; a ``state_dict()`` has an attribute, ``_metadata``."""
        entry: dict[str, Any] = {"OrderedDict": self.pairs(obj, where)}
        return self._with_attributes(entry, obj, where)

    def defaulting(self, obj: defaultdict[Any, Any], where: str) -> dict[str, Any]:
        """A defaultdict, with the name of its factory."""
        factory = obj.default_factory
        if factory is not None and factory not in FACTORIES.values():
            raise TypeError(
                f"cannot save {where}: the default_factory of a defaultdict must be None or one of "
                f"{', '.join(FACTORIES)}, not {factory!r}; save dict(...) of it instead"
            )
        return {"defaultdict": [factory and factory.__name__, self.pairs(obj, where)]}

    def _with_attributes(self, entry: dict[str, Any], obj: Any, where: str) -> dict[str, Any]:
        held = getattr(obj, "__dict__", None)
        if held:
            entry["attributes"] = [[k, self.encode(v, f"{where}.{k}")] for k, v in held.items()]
        return entry

    # --- tensors and arrays -----------------------------------------------------------------------
    def _tensor(self, t: Tensor, where: str) -> dict[str, Any]:
        parameter = type(t).__name__ == "Parameter" and type(t).__module__.startswith("adjoint.nn.")
        if type(t) is not Tensor and not parameter:
            raise TypeError(
                f"cannot save {where}: a file would hold the {type(t).__qualname__} as a plain "
                "tensor. Save tensor.as_subclass(adjoint.Tensor) and convert it again."
            )
        if _core._has_tangent(t):
            raise TypeError(
                f"cannot save {where}: the tensor has a tangent, which files do not hold. "
                "Save tensor.detach(), or the primal and the tangent."
            )
        for hook in (t._backward_hooks or {}).values():
            if not hasattr(hook, "__torch_unserializable__"):
                self.warnings.append(f"the hook {hook!r} on {where} is not saved with it")
        if t._layout_name != "strided":
            parts = [self.encode(part, f"{where} (its parts)") for part in parts_of(t)]
            coalesced = t.is_sparse and t.is_coalesced()
            row: dict[str, Any] = {"sparse": [t._layout_name, list(t.shape), coalesced, parts]}
        else:
            row = self.memory.add_tensor(t, where)
        if t.requires_grad:
            row["requires_grad"] = True
        if parameter:
            row["parameter"] = True
        return self._with_attributes(row, t, where)

    def _numpy(self, obj: Any, where: str) -> dict[str, Any]:
        import numpy as np

        name = numpy_name(obj.dtype) if isinstance(obj, np.generic | np.ndarray) else None
        if type(obj) is np.ndarray and name is not None:
            return self.memory.add_array(obj, name, where)
        if name is not None and obj.dtype.type is type(obj):
            data = obj.tobytes()[: obj.dtype.itemsize]
            if np.ndarray((), obj.dtype, data)[()].tobytes() == obj.tobytes():
                return {"numpy": [name, data.hex()]}
        raise TypeError(
            f"cannot save {where}: files hold NumPy's numbers, strings and dates and plain arrays "
            f"of them, not {_described(obj)}. Save its parts instead."
        )

    def generator(self, obj: Any, where: str) -> dict[str, Any]:
        """A random generator: its state."""
        return {"generator": self.encode(obj.get_state(), f"the state of {where}")}


def _enum(obj: enum.Enum, where: str) -> dict[str, Any]:
    cls = type(obj)
    if obj.name is None or cls.__members__.get(obj.name) is not obj:
        raise TypeError(
            f"cannot save {where}: {obj!r} is a combination without a name of its own. Save its "
            ".value instead."
        )
    return {"enum": {"class": _classes.name_of(cls), "member": obj.name}}


def _described(obj: Any) -> str:
    dtype = getattr(obj, "dtype", None)
    kind = f"{type(obj).__module__}.{type(obj).__qualname__}".removeprefix("builtins.")
    return f"a {kind}" + (f" of dtype {dtype}" if dtype is not None else "")


def _refusal(obj: Any, where: str) -> str:
    kind = type(obj).__qualname__
    for base in (dict, list, tuple, set, str, int, float, complex, bytes):
        if isinstance(obj, base):
            return (
                f"cannot save {where}: a file would hold the {kind} as a plain {base.__name__}. "
                f"Save {base.__name__}(...) of it, or its parts, if that is meant."
            )
    return (
        f"cannot save {where}: files hold tensors, containers, numbers and strings, not "
        f"{kind} objects. Save its state_dict() or its parts instead."
    )


def _integer(obj: int) -> Any:
    return obj if abs(obj) < 2**53 else {"int": hex(obj)}


_SCALARS: dict[type, Callable[[Any], Any]] = {
    int: _integer,
    float: lambda v: {"float": float_text(v)},
    complex: lambda v: {"complex": [float_text(v.real), float_text(v.imag)]},
    bytes: lambda v: {"bytes": v.hex()},
    range: lambda v: {"range": [_integer(v.start), _integer(v.stop), _integer(v.step)]},
    type(...): lambda v: {"ellipsis": None},
    _core.dtype: lambda v: {"dtype": str(v).removeprefix("torch.")},
    device: lambda v: {"device": str(v)},
}
_CONTAINERS: dict[type, Callable[[Encoder, Any, str], dict[str, Any]]] = {
    dict: lambda e, v, where: {"dict": e.pairs(v, where)},
    Counter: lambda e, v, where: e._with_attributes({"Counter": e.pairs(v, where)}, v, where),
    OrderedDict: Encoder.ordered,
    defaultdict: Encoder.defaulting,
    list: lambda e, v, where: {"list": e.items(v, where)},
    tuple: lambda e, v, where: {"tuple": e.items(v, where)},
    _core.Size: lambda e, v, where: {"Size": e.items(v, where)},
    deque: lambda e, v, where: {"deque": [v.maxlen, e.items(v, where)]},
    set: lambda e, v, where: {"set": e.members(v, where)},
    frozenset: lambda e, v, where: {"frozenset": e.members(v, where)},
    bytearray: lambda e, v, where: {"bytearray": v.hex()},
    slice: lambda e, v, where: {
        "slice": [e.encode(part, f"a bound of {where}") for part in (v.start, v.stop, v.step)]
    },
    _core.Generator: Encoder.generator,
}
