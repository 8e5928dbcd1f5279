"""Tensors of the parts that PyTorch's pickles have of them.

The names are PyTorch's: a pickle calls ``torch._utils._rebuild_tensor_v2`` and its like. They take
what a file says, so they check it. Writing, `_pickling` names them; reading, `_torch_names` (data
alone) and `_unpickling` (anything) call them.
"""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._pending import may_have_bits, signed
from adjoint._tensor import formats
from adjoint._tensor.sparse import LAYOUTS, of_parts
from adjoint._tensor.storage import TypedStorage
from adjoint.serialization._errors import LoadError, shown
from adjoint.serialization._source import elements

__all__ = ["REBUILDERS", "set_attributes"]


def ints(value: Any, what: str) -> tuple[int, ...]:
    """A tuple of ints, or LoadError."""
    if not isinstance(value, tuple | list) or any(type(n) is not int for n in value):
        raise LoadError(f"a tensor in it has the {what} {shown(value)}")
    return tuple(value)


def _on_storage(
    storage: Any, offset: Any, size: Any, stride: Any, dtype: Any = None, metadata: Any = None
) -> Tensor:
    if type(storage) is not TypedStorage or type(offset) is not int:
        raise LoadError(f"a tensor in it has the storage {shown(storage)} from {shown(offset)} on")
    dtype = storage.dtype if dtype is None else dtype
    shape, strides = ints(size, "size"), ints(stride, "strides")
    elements(shape, dtype.itemsize, "a tensor in it")
    if storage.without_values:
        return _on_meta(dtype, shape, strides)
    made: Tensor = _core._on_storage(storage._tensor, dtype, shape, strides, offset)
    return _signed(made, metadata) if metadata else made


def _on_meta(dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    made: Tensor = _core.empty_strided(shape, strides, dtype=dtype, device="meta")
    return made


def _signed(t: Tensor, metadata: Any) -> Tensor:
    """A tensor that is conjugated or negated when it is read."""
    if type(metadata) is not dict or any(key not in ("conj", "neg") for key in metadata):
        raise LoadError(f"a tensor in it has the metadata {shown(metadata)}")
    conj, neg = bool(metadata.get("conj")), bool(metadata.get("neg"))
    if not may_have_bits(t, conj, neg):
        raise LoadError(f"a {t.dtype} tensor in it has the metadata {shown(metadata)}")
    return signed(t, conj, neg)


def _rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    return _on_storage(storage, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    made = _on_storage(storage, storage_offset, size, stride, None, metadata)
    return made.requires_grad_() if requires_grad else made


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(dtype, _core.dtype):
        raise LoadError(f"a tensor in it has the dtype {shown(dtype)}")
    made = _on_storage(storage, storage_offset, size, stride, dtype, metadata)
    return made.requires_grad_() if requires_grad else made


def _rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any = None) -> Tensor:
    from adjoint.nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise LoadError(f"a parameter in it is made of a {type(data).__name__}")
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(
    data: Any, requires_grad: Any, backward_hooks: Any, state: Any
) -> Tensor:
    made = _rebuild_parameter(data, requires_grad)
    set_attributes(made, state)
    return made


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    name = str(layout).removeprefix("torch.") if isinstance(layout, formats.layout) else ""
    if name not in LAYOUTS or type(data) is not tuple or len(data) not in (3, 4):
        raise LoadError(f"it has a sparse tensor of the layout {shown(str(layout))}")
    coalesced = bool(data[3]) if name == "sparse_coo" and len(data) == 4 else False
    parts, size = (data[:2], data[2]) if name == "sparse_coo" else (data[:3], data[3:])
    size = size if name == "sparse_coo" else (size[0] if size else ())
    if not all(isinstance(part, Tensor) for part in parts):
        raise LoadError(f"it has a sparse tensor of {shown(tuple(parts))}")
    try:
        return of_parts(name, ints(tuple(size), "size"), coalesced, parts)
    except RuntimeError as error:
        raise LoadError(f"it has a sparse tensor that is damaged: {error}") from error


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: Any, stride: Any, requires_grad: Any
) -> Tensor:
    if not isinstance(dtype, _core.dtype):
        raise LoadError(f"a tensor in it has the dtype {shown(dtype)}")
    shape = ints(size, "size")
    elements(shape, dtype.itemsize, "a tensor in it")
    made = _on_meta(dtype, shape, ints(stride, "strides"))
    return made.requires_grad_() if requires_grad else made


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """A tensor of a class of its own, or with attributes."""
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    own = getattr(new_type, "__setstate__", None)
    if own is not None and own is not getattr(Tensor, "__setstate__", None):
        made.__setstate__(state)
    elif state:
        _set_all(made, state)
    return made


def _set_all(made: Any, state: Any) -> None:
    """Set the attributes and slots of an object whose class the caller allows."""
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        for name, value in (part or {}).items():
            setattr(made, name, value)


def _get_layout(name: Any) -> formats.layout:
    found = getattr(formats, str(name).removeprefix("torch."), None)
    if type(name) is not str or not isinstance(found, formats.layout):
        raise LoadError(f"it has the layout {shown(name)}, which adjoint does not have")
    return found


def set_attributes(target: Any, state: Any) -> None:
    """Set the attributes of a tensor or of a ``state_dict()`` that a file gives it."""
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]  # attributes, and slots: there are none
    if state is None:
        return
    if type(state) is not dict or any(not isinstance(k, str) or is_special(k) for k in state):
        raise LoadError(f"its pickle has the attributes {shown(state)}")
    if isinstance(target, Tensor) and state.get("requires_grad") is True:
        target.requires_grad_()
        state = {key: value for key, value in state.items() if key != "requires_grad"}
    if state:
        target.__dict__.update(state)


def is_special(name: str) -> bool:
    """Whether a name is one of the language's own."""
    return name.startswith("__") and name.endswith("__")


REBUILDERS = {
    f.__name__: f
    for f in (
        _rebuild_tensor,
        _rebuild_tensor_v2,
        _rebuild_tensor_v3,
        _rebuild_parameter,
        _rebuild_parameter_with_state,
        _rebuild_sparse_tensor,
        _rebuild_meta_tensor_no_storage,
    )
}
