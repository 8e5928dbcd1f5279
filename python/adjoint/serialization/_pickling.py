"""Pickles as PyTorch writes them, of adjoint's objects.

A pickler of the standard library (in C) takes the structure apart. Tensors, generators and the like
are reduced to calls of PyTorch's functions, and storages to persistent ids, which stand for records
beside the pickle. What remains are the names of our own classes: those are exchanged for PyTorch's
afterwards, in the finished pickle (Note [Exchanging names]).
Read next: `_torch_places`, the names; `_storages`, the records.
"""

from __future__ import annotations

import io
import pickle
import re
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._homes import home
from adjoint._tensor.device import device
from adjoint._tensor.formats import layout, memory_format
from adjoint._tensor.meta import MetaTensor
from adjoint._tensor.sparse import parts_of
from adjoint._tensor.storage import TypedStorage, UntypedStorage
from adjoint.serialization import _rebuild
from adjoint.serialization._errors import shown
from adjoint.serialization._storages import Part, Storages
from adjoint.serialization._torch_places import STORAGE_TYPES, place_in_torch

__all__ = ["pickled", "place_of_failure"]

_OF_DTYPE = {kind.dtype: kind for name, kind in STORAGE_TYPES.items() if name != "UntypedStorage"}
_UNTYPED = STORAGE_TYPES["UntypedStorage"]
_OURS = re.compile(rb"cadjoint[^\n]*\n[^\n]*\n")


def pickled(
    obj: Any, module: Any, protocol: int, legacy: bool = False
) -> tuple[bytes, Storages, list[str]]:
    """The pickle of an object, the storages that it names, and warnings for the caller.

    Parameters
    ----------
    obj
        What is saved.
    module
        Has a ``Pickler``: ``pickle``, or another one like it.
    protocol : int
        Of the pickle.
    legacy : bool
        Whether persistent ids are those of the format before PyTorch 1.6.
    """
    storages = Storages()
    for _ in range(3):  # some objects make their parts anew whenever they are pickled
        out = io.BytesIO()
        saver = _saver_class(module, protocol)(out, protocol=protocol)
        saver.begin(storages, legacy)
        saver.dump(obj)
        if not storages.regroup():
            break
        storages.all_untyped = True
    else:
        raise ValueError(
            "cannot save the object: it makes tensors on memory that was imported twice"
        )
    data = out.getvalue()
    if protocol < 4:
        data = _renamed(data, saver.ours)
    return data, storages, saver.warnings


def place_of_failure(obj: Any, protocol: int) -> str:
    """Which part of a structure cannot be pickled, as far as it lies in containers and objects."""
    where, seen = "the object", {id(obj)}
    while True:
        for name, part in _parts(obj):
            if id(part) not in seen and not _can_be_pickled(part, protocol):
                where, obj = where + name, part
                seen.add(id(part))
                break
        else:
            return where


def _can_be_pickled(obj: Any, protocol: int) -> bool:
    try:
        pickled(obj, pickle, protocol)
    except Exception:
        return False
    return True


def _parts(obj: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    if isinstance(obj, dict):
        found = [(f"[{shown(key)}]", value) for key, value in obj.items()]
    elif isinstance(obj, list | tuple):
        found = [(f"[{i}]", value) for i, value in enumerate(obj)]
    if isinstance(obj, type) or not hasattr(obj, "__dict__"):
        return found
    return found + [(f".{name}", value) for name, value in vars(obj).items()]


class _Reducing:
    """What a pickler does with our objects; mixed into one."""

    def begin(self, storages: Storages, legacy: bool) -> None:
        self.storages, self._legacy = storages, legacy
        self.ours: dict[tuple[str, str], None] = {}
        self.warnings: list[str] = []

    def persistent_id(self, obj: Any) -> Any:
        """What stands for a storage."""
        kind = type(obj)
        if kind is Part:
            part: Part = obj
        elif kind is TypedStorage or kind is UntypedStorage:
            dtype = obj.dtype if kind is TypedStorage else None
            part = self.storages.part_of(obj._tensor, dtype)
            part.refuse_offset()
        else:
            return None
        named = _UNTYPED if part.dtype is None else _OF_DTYPE[part.dtype]
        pid = ("storage", named, part.key, "cpu", part.length)
        return (*pid, None) if self._legacy else pid

    def reducer_override(self, obj: Any) -> Any:
        """How an object is made again; NotImplemented for those that know it themselves."""
        handler = _HANDLERS.get(type(obj))
        if handler is not None:
            return handler(self, obj)
        if isinstance(obj, Tensor):
            return self._subclass(obj)
        if isinstance(obj, type | FunctionType | BuiltinFunctionType):
            self.note(getattr(obj, "__module__", None), obj.__qualname__)
        elif home(type(obj)) == "adjoint.return_types":
            return type(obj), (tuple(obj), {})
        return NotImplemented

    def note(self, module: str | None, name: str) -> None:
        """Remember a name of ours that the pickle will have."""
        if module is not None and module.partition(".")[0] == "adjoint":
            self.ours[module, name] = None

    def named(self, module: str, name: str) -> str:
        """Have an object pickled by its name."""
        self.note(module, name)
        return name

    # --- tensors ----------------------------------------------------------------------------------
    def _tensor(self, t: Tensor) -> Any:
        function, arguments = self._plain(t)
        held = _attributes(t)
        if t._layout_name != "strided" and t.requires_grad:
            held["requires_grad"] = True  # which a call for a sparse tensor has no place for
        if held:
            return _rebuild._rebuild_from_type_v2, (function, Tensor, arguments, held)
        return function, arguments

    def _plain(self, t: Tensor) -> tuple[Any, tuple[Any, ...]]:
        self._check(t)
        if t._layout_name != "strided":
            return _rebuild._rebuild_sparse_tensor, (t.layout, _sparse_parts(t))
        part = self.storages.part_of(t, t.dtype)
        size, stride, hooks = tuple(t.shape), tuple(t.stride()), _no_hooks()
        geometry = (part, part.offset_of(t), size, stride, t.requires_grad, hooks)
        if part.dtype is None:
            return _rebuild._rebuild_tensor_v3, (*geometry, t.dtype)
        return _rebuild._rebuild_tensor_v2, geometry

    def _check(self, t: Tensor) -> None:
        if t._layout_name == "strided":
            t.data_ptr()  # refuses a sample of vmap, which has no memory of its own
        if _core._has_tangent(t):
            raise TypeError(
                "cannot save a tensor that has a tangent, which files do not hold. Save "
                "tensor.detach(), or the primal and the tangent."
            )
        for hook in (t._backward_hooks or {}).values():
            if not hasattr(hook, "__torch_unserializable__"):
                self.warnings.append(
                    f"backward hook {hook!r} on tensor will not be serialized.  If this is "
                    "expected, you can decorate the function with "
                    "@torch.utils.hooks.unserializable_hook to suppress this warning"
                )

    def _parameter(self, t: Tensor) -> Any:
        self._check(t)
        held = _attributes(t)
        parts: tuple[Any, ...] = (t.data, t.requires_grad, _no_hooks())
        if held:
            return _rebuild._rebuild_parameter_with_state, (*parts, held)
        return _rebuild._rebuild_parameter, parts

    def _subclass(self, t: Tensor) -> Any:
        before = _core._plain_tensors(True)  # not by the methods of the subclass
        try:
            return self._parts_of_subclass(t)
        finally:
            _core._plain_tensors(before)

    def _parts_of_subclass(self, t: Tensor) -> Any:
        from adjoint.nn.parameter import Parameter, UninitializedTensorMixin

        cls = type(t)
        if cls is Parameter:
            return self._parameter(t)
        if cls is MetaTensor:
            return self._without_values(t)
        own = (
            cls.__reduce_ex__ is not Tensor.__reduce_ex__ or cls.__reduce__ is not Tensor.__reduce__
        )
        if own or issubclass(cls, UninitializedTensorMixin):
            return NotImplemented
        if issubclass(cls, Parameter):
            self._check(t)
            function: Any = _rebuild._rebuild_parameter
            data = t.data.as_subclass(Tensor)
            arguments: tuple[Any, ...] = (data, t.requires_grad, _no_hooks())
        else:
            function, arguments = self._plain(t.as_subclass(Tensor))
        state = t.__getstate__() or {}
        return _rebuild._rebuild_from_type_v2, (function, cls, arguments, state)

    def _without_values(self, t: Tensor) -> Any:
        geometry = (t.dtype, tuple(t.size()), tuple(t.stride()), t.requires_grad)
        held = _attributes(t)
        if held.pop("_is_param", False):
            plain = _core.empty_strided(*geometry[1:3], dtype=t.dtype, device="meta")
            return _rebuild._rebuild_parameter, (plain, t.requires_grad, _no_hooks())
        function = _rebuild._rebuild_meta_tensor_no_storage
        if held:
            return _rebuild._rebuild_from_type_v2, (function, Tensor, geometry, held)
        return function, geometry

    def generator(self, obj: Any) -> Any:
        """A random generator, with PyTorch's arguments and state."""
        return _core.Generator, (device("cpu"),), (obj.initial_seed(), None, obj.get_state())

    def operation(self, obj: Any) -> Any:
        """An op by its name, where PyTorch has it."""
        return self.named(obj.__module__, obj.__reduce__())


def _no_hooks() -> OrderedDict[Any, Any]:
    return OrderedDict()


def _attributes(t: Tensor) -> dict[str, Any]:
    return dict(getattr(t, "__dict__", None) or {})


def _sparse_parts(t: Tensor) -> tuple[Any, ...]:
    size = _core.Size(t.shape)
    return (*parts_of(t), size, t.is_coalesced()) if t.is_sparse else (*parts_of(t), size)


_HANDLERS: dict[type, Any] = {
    Tensor: _Reducing._tensor,
    _core.Generator: _Reducing.generator,
    type(_core.sin): _Reducing.operation,
    _core.dtype: lambda p, v: p.named("adjoint", v.__reduce__()),
    memory_format: lambda p, v: p.named("adjoint._tensor.formats", v.__reduce__()),
    layout: lambda p, v: (_rebuild._get_layout, (repr(v),)),
    type(_UNTYPED): lambda p, v: p.named(type(v).__module__, v.__reduce__()),
}


# --- Note [Exchanging names] ----------------------------------------------------------------------
# The pickler in C writes the name of a class, a function or a dtype as "c<module>\n<name>\n", and
# only if the object is found under that name; so it cannot be made to write PyTorch's. It asks
# `reducer_override` for every object that it names, and it names each once. So the pickle must have
# every name that was noted exactly once, and they can be found by a search. If a string in the data
# looks like one of them, the search finds more, and the pickle is gone through instruction by
# instruction, which is slow and exact. From protocol 4 on names are strings like any other: there a
# pickler written in Python writes PyTorch's at once.
def _renamed(data: bytes, ours: dict[tuple[str, str], None]) -> bytes:
    expected = {f"c{module}\n{name}\n".encode(): (module, name) for module, name in ours}
    found = [(match.start(), match.group()) for match in _OURS.finditer(data)]
    if sorted(text for _, text in found) != sorted(expected):
        found = _names_of_instructions(data)
    pieces, at = [], 0
    for start, text in found:
        module, name = text[1:-1].decode().split("\n")
        place = place_in_torch(module, name)
        if place is not None:
            pieces += [data[at:start], "c{}\n{}\n".format(*place).encode()]
            at = start + len(text)
    return b"".join([*pieces, data[at:]])


def _names_of_instructions(data: bytes) -> list[tuple[int, bytes]]:
    import pickletools  # at its first use: it takes long

    found = []
    for code, argument, at in pickletools.genops(data):
        if code.name == "GLOBAL" and re.match(r"adjoint\b", str(argument)):
            assert at is not None
            end = data.index(b"\n", data.index(b"\n", at) + 1) + 1
            found.append((at, data[at:end]))
    return found


def _saver_class(module: Any, protocol: int) -> Any:
    """A pickler that reduces our objects."""
    base = module.Pickler
    if protocol < 4:
        return type("Saver", (_Reducing, base), {})
    python = base if issubclass(base, pickle._Pickler) else pickle._Pickler
    table = {**python.dispatch, FunctionType: _save_global}
    return type("Saver", (_Reducing, python), {"save_global": _save_global, "dispatch": table})


def _save_global(saver: Any, obj: Any, name: str | None = None) -> None:
    module = getattr(obj, "__module__", None)
    if module is not None and module.partition(".")[0] == "adjoint":
        place = place_in_torch(module, name or obj.__qualname__)
        if place is not None:
            saver.save(place[0])
            saver.save(place[1])
            saver.write(pickle.STACK_GLOBAL)
            saver.memoize(obj)
            return
    pickle._Pickler.save_global(saver, obj, name)  # type: ignore[attr-defined]
