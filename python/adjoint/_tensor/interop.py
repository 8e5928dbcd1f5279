"""Methods of ``Tensor`` that deal with other libraries: NumPy, DLPack, pickle, copies, storages.

Memory is shared wherever it can be. A tensor that requires grad is never handed out: a change that
nobody recorded would make its gradient wrong, so the error says ``detach()``.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._pending import signed, unsigned
from adjoint._sharing.memory import Attached, Sent, is_shared, share_memory_
from adjoint._tensor.arguments import require_tensor
from adjoint._tensor.creation import _copied, _is_storage, _of_storage, _shared
from adjoint._tensor.sparse import of_parts, parts_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from adjoint._tensor.storage import TypedStorage, UntypedStorage

# Nodes whose results were read as arrays, while they live: explain_grad looks through them.
READ_AS_ARRAYS: weakref.WeakSet[_core.Node] = weakref.WeakSet()

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


# --- NumPy ----------------------------------------------------------------------------------------
def numpy(self: Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """The tensor as a NumPy array on the same memory.

    Parameters
    ----------
    force : bool, default False
        Detach first, and compute what is pending (`is_conj`, `is_neg`), so that tensors are not
        refused for it.
    """
    import numpy as np

    if self._layout_name != "strided":
        raise TypeError(
            f"can't convert a {self._layout_name} tensor to numpy. Use Tensor.to_dense() first."
        )
    if self.requires_grad:
        # What leaves an external is values alone; a gradient that is lost there is told of.
        if not force and _core.is_grad_enabled() and not _core._is_apart():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead.\n  That is the value alone: to differentiate, use adjoint's function "
                "of the same name, or wrap the NumPy code with adjoint.external."
            )
        self = self.detach()
    if _core._has_tangent(self):
        if not force:
            raise RuntimeError(
                "Can't call numpy() on a Tensor with a tangent: NumPy would lose it, and the "
                "derivative with it. Use tensor.detach().numpy() for the value alone, or "
                "ad.external to differentiate the NumPy code."
            )
        self = self.detach()
    if self.is_conj() or self.is_neg():
        if not force:
            bit = "conjugate" if self.is_conj() else "negative"
            fix = "resolve_conj()" if self.is_conj() else "resolve_neg()"
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.{fix}.numpy() "
                "instead."
            )
        self = self.resolve_conj().resolve_neg()
    _note_numpy(self)
    if self.dtype == _core.bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16; use tensor.float().numpy()")
    buffer: Any = self
    return np.asarray(memoryview(buffer))


def _note_numpy(tensor: Tensor) -> None:
    """Remember, on the node that ``tensor`` was cut off from, where its values went to NumPy."""
    for _, _, _, node in _core._cut_facts(tensor):
        if node is None:
            continue
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        _core._note(node, "numpy_", (frame.f_code.co_filename, frame.f_lineno))
        READ_AS_ARRAYS.add(node)


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
    """What ``np.asarray(tensor)`` calls."""
    if self.requires_grad and "scipy.sparse" in sys.modules:
        from adjoint._tensor.scipy_matrices import is_asked_by_scipy

        if is_asked_by_scipy():
            return _as_object(self)
    made = self.numpy()
    if dtype is not None and made.dtype != dtype:
        if copy is False:
            raise ValueError(f"a copy is needed to convert {made.dtype} to {dtype}")
        return made.astype(dtype)
    return made.copy() if copy else made


def _as_object(self: Tensor) -> npt.NDArray[Any]:
    """The tensor as an opaque object: the operator of SciPy gives way to the tensor's own."""
    import numpy as np

    box = np.empty((), dtype=object)
    box[()] = self
    return box


def array_wrap(
    self: Tensor, array: npt.NDArray[Any], context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What a NumPy function makes of its result when it was given a tensor."""
    import numpy as np

    return _shared(np.asarray(array))


# --- DLPack ---------------------------------------------------------------------------------------
def dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule with the tensor's memory.

    Parameters
    ----------
    stream : int, optional
        Ignored: CPUs have none.
    max_version
        The newest version the caller understands; from (1, 0) on the capsule has a version.
    dl_device
        Only (1, 0), the CPU.
    copy
        True: a capsule with a copy.
    """
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if dl_device is not None and tuple(int(i) for i in dl_device) != (1, 0):
        raise BufferError(f"cannot export to device {tuple(dl_device)}: adjoint has the CPU only")
    versioned = max_version is not None and max_version[0] >= 1
    if copy and not self.requires_grad:
        return _core._to_dlpack(self.clone(), versioned, True)
    return _core._to_dlpack(self, versioned, False)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """(1, 0): the CPU."""
    return (1, 0)


# --- pickle and copies ----------------------------------------------------------------------------
def _attributes(self: Tensor) -> dict[str, Any]:
    return dict(getattr(self, "__dict__", {}))


def reduce_ex(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    """Pickle the values, not the history."""
    if self._layout_name != "strided":
        coalesced = self.is_sparse and self.is_coalesced()
        parts = (self._layout_name, tuple(self.shape), coalesced, parts_of(self))
        return rebuild_sparse, (type(self), parts, self.requires_grad, _attributes(self))
    self.data_ptr()  # refuses a sample of vmap, which has no memory of its own
    arguments = (
        type(self),
        Sent(unsigned(self) if self.is_conj() or self.is_neg() else self),
        self.dtype,
        tuple(self.shape),
        tuple(self.stride()),
        self.requires_grad,
        _attributes(self),
        self.is_conj(),
        self.is_neg(),
    )
    return rebuild, arguments


def rebuild(
    cls: type[Tensor],
    data: bytes | Attached,
    dtype: _core.dtype,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
    conj: bool = False,
    neg: bool = False,
) -> Tensor:
    """The inverse of pickling."""
    if isinstance(data, Attached):
        plain = _core._on_storage(data.whole, dtype, shape, stride, data.offset)
    elif 0 in shape:
        plain = _core.empty_strided(shape, stride, dtype=dtype)
    else:
        flat: Tensor = _core._frombuffer(bytearray(data), dtype, -1, 0)
        plain = _dense(flat.view(shape), stride)
    return _dressed(signed(plain, conj, neg), cls, requires_grad, attributes)


def rebuild_sparse(
    cls: type[Tensor], parts: tuple[Any, ...], requires_grad: bool, attributes: dict[str, Any]
) -> Tensor:
    """The inverse of pickling, of a sparse tensor."""
    return _dressed(of_parts(*parts), cls, requires_grad, attributes)


def _dense(plain: Tensor, stride: tuple[int, ...]) -> Tensor:
    """``plain`` in its own memory, with the strides it had if those leave no gaps."""
    expected = 1
    for step, length in sorted(zip(stride, plain.shape, strict=True)):
        if length != 1 and step != expected:
            return plain.clone()
        expected *= length
    out: Tensor = _core.empty_strided(plain.shape, stride, dtype=plain.dtype)
    out.copy_(plain)
    return out


def _dressed(
    plain: Tensor, cls: type[Tensor], requires_grad: bool, attributes: dict[str, Any]
) -> Tensor:
    if cls is not Tensor:
        plain = Tensor._make_subclass(cls, plain, requires_grad)
    elif requires_grad:
        plain.requires_grad_()
    for name, value in attributes.items():
        setattr(plain, name, value)
    return plain


def shallow_copy(self: Tensor) -> Tensor:
    """A second tensor on the same memory; a leaf."""
    return _dressed(self.detach(), type(self), self.requires_grad, _attributes(self))


def deepcopy(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy with memory of its own; what shared memory before shares it afterwards."""
    from copy import deepcopy as deep

    if id(self) in memo:
        found: Tensor = memo[id(self)]
        return found
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment. Use tensor.detach().clone() for a copy of the values."
        )
    own = self._layout_name != "strided" or self.is_conj() or self.is_neg()
    if own or _core._batch_level((self,)) > 0:
        # Its memory holds something else, or the other samples of a vmap as well.
        plain = self.detach().clone()
    else:
        storage = ("adjoint storage", _core._storage(self)[0])
        if storage not in memo:
            memo[storage] = _core._whole(self.detach()).clone()
        plain = _core._on_storage(
            memo[storage],
            self.dtype,
            tuple(self.shape),
            tuple(self.stride()),
            self.storage_offset(),
        )
    copied = _dressed(plain, type(self), self.requires_grad, {})
    memo[id(self)] = copied
    if self.grad is not None:
        copied.grad = deep(self.grad, memo)
    for name, value in _attributes(self).items():
        setattr(copied, name, deep(value, memo))
    return copied


# --- Python's protocols ---------------------------------------------------------------------------
def format_(self: Tensor, spec: str) -> str:
    """A 0-d tensor is formatted like the number it holds."""
    if self.dim() == 0:
        return format(self.item(), spec)
    if spec:
        raise TypeError(f"unsupported format string passed to Tensor.__format__: {spec!r}")
    return str(self)


def complex_(self: Tensor) -> complex:
    """The only element as a complex number."""
    if self.numel() != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars, but this one has "
            f"{self.numel()} elements"
        )
    return complex(self.item())


def reversed_(self: Tensor) -> Tensor:
    """The tensor with its first axis reversed."""
    return self if self.dim() == 0 else _core.flip(self, [0])


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor holding a copy of ``data``, of this tensor's dtype unless told otherwise."""
    from adjoint._tensor.device import require_cpu

    require_cpu(device)
    out = _copied(data, self.dtype if dtype is None else dtype)
    return out.requires_grad_() if requires_grad else out


# --- storages -------------------------------------------------------------------------------------
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind the tensor, as bytes."""
    from adjoint._tensor.storage import UntypedStorage

    self.data_ptr()  # refuses a sample of vmap, which has no memory of its own
    return UntypedStorage.of(self)


def storage(self: Tensor) -> TypedStorage:
    """The memory behind the tensor, as elements."""
    from adjoint._tensor.storage import TypedStorage

    self.data_ptr()
    return TypedStorage.of(self)


def storage_type(self: Tensor) -> Any:
    """The class of the tensor's storage: ``FloatStorage`` and its like."""
    from adjoint._tensor.storage_types import storage_type

    return storage_type(self.dtype)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same memory with the same offset, size and strides."""
    require_tensor("is_set_to", "tensor", 1, tensor)
    return (
        not any((self.is_conj(), self.is_neg(), tensor.is_conj(), tensor.is_neg()))
        and _core._storage(self)[0] == _core._storage(tensor)[0]
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Make this tensor refer to another tensor's (or storage's) memory."""
    if _core.is_grad_enabled() and self.requires_grad and self.is_leaf:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. (set_; "
            "fix: wrap the change in `with no_grad():`)"
        )
    other = _of_storage(source, self.dtype) if _is_storage(source) else source
    if other is None:
        other = _core.empty(0, dtype=self.dtype)
    if not isinstance(other, Tensor):
        raise TypeError(
            "set_(): argument 'source' (position 1) must be Tensor or Storage, not "
            f"{type(source).__name__}"
        )
    if other.dtype != self.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {other.dtype} to a tensor of type {self.dtype}"
        )
    if size is not None:
        if stride is None:
            stride = _core.empty(size, dtype=_core.bool).stride()
        other = _core._on_storage(other, self.dtype, tuple(size), tuple(stride), storage_offset)
    # Memory alone is taken over: the tensor keeps its bits.
    other = other.conj() if other.is_conj() != self.is_conj() else other
    other = other._neg_view() if other.is_neg() != self.is_neg() else other
    if _core.is_grad_enabled() and self.requires_grad:
        from adjoint._tensor.history_of_set import SetMemory

        replaced: Tensor = SetMemory.apply(self, other)
        return replaced
    self.data = other
    _core._renew_accumulator(self)
    return self


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    require_tensor("is_same_size", "other", 1, other)
    return self.shape == other.shape


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Refused: pinned memory is for accelerators."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False on CPUs."""
    return False


def itself(self: Tensor, *_: Any, **__: Any) -> Tensor:
    """The tensor itself: nothing is to be done on a CPU within one process."""
    return self


def get_device(self: Tensor) -> int:
    """-1: the CPU."""
    return -1


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element by ``callable(element)``. Slow, and without history."""
    if self.requires_grad:
        raise RuntimeError("apply_() can't be called on a tensor that requires grad")
    return _replaced(self, [callable(v) for v in self.reshape(-1).tolist()])


def map_(self: Tensor, other: Tensor, callable: Any) -> Tensor:
    """Replace each element a by ``callable(a, b)``, b from ``other``. Slow, without history."""
    return _mapped("map_", self, (other,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element a by ``callable(a, b, c)``, b from `x`, c from `y`. Slow, no history."""
    return _mapped("map2_", self, (x, y), callable)


def _mapped(name: str, self: Tensor, others: tuple[Tensor, ...], function: Any) -> Tensor:
    for position, other in enumerate(others, start=1):
        require_tensor(name, "other", position, other)
    if any(t.requires_grad for t in (self, *others)):
        raise RuntimeError(f"{name}() can't be called on a tensor that requires grad")
    if not callable(function):
        raise TypeError(f"{name}(): '{type(function).__name__}' object is not callable")
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    return _replaced(self, [function(*row) for row in zip(*columns, strict=True)])


def _replaced(self: Tensor, values: list[Any]) -> Tensor:
    """The tensor with these elements, which a user's function computed."""
    made = _core._tensor(values, self.dtype)
    if made is None:
        kinds = sorted({type(value).__name__ for value in values})
        raise TypeError(f"the function must return numbers, not {', '.join(kinds)}")
    return self.copy_(made.view(self.shape))


METHODS: dict[str, Any] = {
    "numpy": numpy,
    "__array__": array,
    "__array_wrap__": array_wrap,
    "__array_priority__": 1000,
    "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device,
    "__reduce_ex__": reduce_ex,
    "__copy__": shallow_copy,
    "__deepcopy__": deepcopy,
    "__format__": format_,
    "__complex__": complex_,
    "__reversed__": reversed_,
    "new_tensor": new_tensor,
    "untyped_storage": untyped_storage,
    "storage": storage,
    "storage_type": storage_type,
    "is_set_to": is_set_to,
    "set_": set_,
    "is_same_size": is_same_size,
    "pin_memory": pin_memory,
    "is_pinned": is_pinned,
    "is_shared": is_shared,
    "share_memory_": share_memory_,
    "get_device": get_device,
    "apply_": apply_,
    "map_": map_,
    "map2_": map2_,
    "is_cpu": property(lambda self: True, doc="True: adjoint computes on the CPU."),
}
