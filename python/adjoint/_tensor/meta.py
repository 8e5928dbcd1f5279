"""Tensors on the device "meta": a shape and a dtype, no values.

They are for making a large module without its memory, to load or to initialise it later
(`load_state_dict(assign=True)`, `to_empty`). An operation on them is run on memory of their shape
that nobody has written, and its results lose their values again; what would show a value raises.
`made` and `moved` are called by the bindings (Note [Tensors without values] in
src/bindings/tensor/op_function.cpp).
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.device import device

META = device("meta")

# What may be asked of a tensor without values and is answered by something else than a tensor.
_QUESTIONS = frozenset(
    (
        *("size", "stride", "dim", "ndimension", "numel", "nelement", "element_size", "__len__"),
        *("is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg"),
        *("storage_offset", "is_same_size", "is_set_to", "__hash__", "type", "is_inference"),
        *("register_hook", "register_post_accumulate_grad_hook", "retain_grad", "__get__"),
        *("__set__", "is_tensor", "result_type", "requires_grad_", "_version", "get_device"),
    )
)
# What would tell values and is no op; of ops, their blocks say it (`by_values`).
_READERS = frozenset(
    (
        *("item", "tolist", "numpy", "__array__", "__dlpack__", "is_nonzero", "__contains__"),
        *("__bool__", "__float__", "__int__", "__index__", "__complex__"),
    )
)
_NO_DATA = "Cannot copy out of meta tensor; no data!"


def _refused(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(_NO_DATA)


class MetaTensor(Tensor):
    """A tensor without values; `adjoint.empty(2, device="meta")` makes one."""

    is_meta = True
    device = META
    # Some of these do not ask the class of their tensor.
    item = tolist = numpy = __array__ = __dlpack__ = cpu = _refused
    __bool__ = __int__ = __float__ = __complex__ = __index__ = __contains__ = _refused

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if name in _READERS:
            raise NotImplementedError(_NO_DATA)
        if name == "to":
            return moved(*args, **kwargs)
        if name == "module_load":
            return args[1].detach() if kwargs.get("assign") else blank(args[0])
        if name.endswith("_like") or name.startswith("new_"):
            if device(kwargs.get("device") or META) != META:
                return _plain(func, args, kwargs)
            kwargs.pop("device", None)
        _check_places(name, args, kwargs)
        if _changes_values(name):
            return args[0]  # in place: there are no values to change
        return _answer(name, _unwritten(func, args, kwargs))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        text = f"..., device='meta', size={tuple(self.size())}"
        if self.dtype != ad.get_default_dtype():
            text += f", dtype={self.dtype}"
        if self.requires_grad:
            text += ", requires_grad=True"
        shown = f"tensor({text})"
        return f"Parameter containing:\n{shown}" if hasattr(self, "_is_param") else shown

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copy = blank(self).requires_grad_(self.requires_grad)
            copy.__dict__.update(self.__dict__)
            memo[id(self)] = copy
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        shape, marked = tuple(self.size()), hasattr(self, "_is_param")
        return _rebuilt, (shape, self.dtype, self.requires_grad, marked)


def _rebuilt(shape: tuple[int, ...], dtype: Any, requires_grad: bool, marked: bool) -> Any:
    tensor: Any = blank(_core.empty(shape, dtype=dtype)).requires_grad_(requires_grad)
    if marked:
        tensor._is_param = True
    return tensor


def _plain(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The call on what is behind the tensors: memory that was never written."""
    before = _core._plain_tensors(True)
    inside = _core._make_without_values(False)
    try:
        return func(*args, **kwargs)
    finally:
        _core._plain_tensors(before)
        _core._make_without_values(inside)


def _unwritten(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same; an op whose result depends on values raises."""
    before = _core._values_unknown(True)
    try:
        return _plain(func, args, kwargs)
    finally:
        _core._values_unknown(before)


def _changes_values(name: str) -> bool:
    in_place = name.endswith("_") and not name.endswith("__")
    return (in_place and name not in ("requires_grad_", "detach_")) or name == "__setitem__"


def _check_places(name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Values do not flow out of tensors that have none, and both kinds do not mix."""
    given = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
    real = [t for t in given if not t.is_meta]
    if given and not given[0].is_meta and _changes_values(name):
        raise NotImplementedError(_NO_DATA)
    if any(t.dim() > 0 for t in real) and not _changes_values(name):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, meta "
            f"and cpu! (when calling {name}; fix: load or make the values first, with "
            "load_state_dict(assign=True) or to_empty(device='cpu'))"
        )


def _answer(name: str, result: Any) -> Any:
    if isinstance(result, MetaTensor):
        return result
    if isinstance(result, Tensor):
        return blank(result) if result.grad_fn is None else result.as_subclass(MetaTensor)
    if isinstance(result, tuple) and any(isinstance(r, Tensor) for r in result):
        parts = [_answer(name, r) for r in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if isinstance(result, list):
        return [_answer(name, r) for r in result]
    if result is None or name in _QUESTIONS:
        return result
    raise NotImplementedError(f"{_NO_DATA} ({name} would tell about values)")


def _of(tensor: Tensor) -> Any:
    return tensor.as_subclass(MetaTensor)


def blank(tensor: Tensor) -> Any:
    """A tensor without values of the same shape, strides and dtype."""
    before = _core._plain_tensors(True)
    inside = _core._make_without_values(False)
    try:
        fresh = _core.empty_strided(tuple(tensor.size()), tensor.stride(), dtype=tensor.dtype)
        if not (fresh.is_floating_point() or fresh.is_complex()):
            fresh.zero_()  # it may be an index, which is looked at
        return _of(fresh)
    finally:
        _core._plain_tensors(before)
        _core._make_without_values(inside)


# Functions that take the sizes: nothing is drawn or written for a tensor without values.
_SIZED = frozenset(("empty", "zeros", "ones", "rand", "randn", "full", "randint"))


def made(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A function that makes tensors, called while "meta" is the default or after it was named."""
    place = kwargs.pop("device", None)
    if place is not None and device(place) != META:
        return _plain(func, args, {**kwargs, "device": place})
    name = func.__name__
    needs = bool(kwargs.pop("requires_grad", False))
    kwargs.pop("generator", None)
    if name in ("randint", "full"):
        named = "size" in kwargs
        sizes = kwargs.pop("size") if named else args[-1 if name == "randint" else 0]
        dtype = kwargs.get("dtype") or _dtype_of(name, args, kwargs)
        result = _plain(_core.empty, (tuple(sizes),), {"dtype": dtype})
    elif name in _SIZED:
        result = _plain(_core.empty, args, kwargs)
    elif name.endswith("_like"):
        result = _plain(_core.empty_like, args[:1] or (kwargs.pop("input"),), _like(kwargs))
    else:
        state = ad.get_rng_state()
        result = _plain(func, args, kwargs)
        ad.set_rng_state(state)
    return blank(result).requires_grad_(needs)


def _dtype_of(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    if name == "randint":
        return ad.int64
    value = kwargs.get("fill_value", args[1] if len(args) > 1 else 0.0)
    return _plain(_core.full, ((), value), {}).dtype


def _like(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: kwargs[name] for name in ("dtype", "memory_format") if name in kwargs}


def moved(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """``tensor.to(...)`` where the tensor is on "meta", or goes there."""
    place, given, named = None, [], dict(kwargs)
    for value in args:
        if isinstance(value, str | device):
            place = device(value)
        else:
            given.append(value)
    if "device" in named:
        wanted = named.pop("device")
        place = None if wanted is None else device(wanted)
    other = given[0] if given and isinstance(given[0], Tensor) else None
    if other is not None:
        place, given = other.device, [other.dtype, *given[1:]]
    if place is not None and place != META:
        raise NotImplementedError(
            f"{_NO_DATA} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
            "when moving module from meta to a different device."
        )
    needed = tensor.requires_grad
    casts = [v for v in (*given, named.get("dtype")) if isinstance(v, _core.dtype)]
    if tensor.is_meta and (not casts or casts[0] == tensor.dtype):
        return tensor
    cast = blank(tensor)
    if casts and casts[0] != tensor.dtype:
        cast = blank(_plain(Tensor.to, (cast, casts[0]), {}))
    return cast.requires_grad_(needed and not isinstance(tensor, ad.nn.Parameter))
