"""Making tensors from Python data: ``tensor``, ``as_tensor``, ``from_numpy`` and their like.

Numbers and nested lists of them go to the core directly; everything else that holds numbers
(arrays, ranges, sequences) is brought into one of these forms here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensors
from adjoint._tensor.device import is_meta_wanted, require_cpu

if TYPE_CHECKING:
    import numpy.typing as npt


def tensor(
    data: Any,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor holding a copy of ``data``.

    Parameters
    ----------
    data
        A number, nested lists of numbers, a NumPy array or a tensor.
    dtype
        Of the result; taken from the data when left out (floats: the default dtype).
    device
        Only ``"cpu"``.
    requires_grad
        Whether operations on the tensor are recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    without_values = is_meta_wanted(device)
    if not without_values:
        require_cpu(device)
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; leave pin_memory out"
        )
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach()."
            "clone() or sourceTensor.detach().clone().requires_grad_(True), rather than "
            "torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    out = _copied(data, dtype)
    if without_values:
        out = _blank(out)
    if requires_grad:
        out.requires_grad_()
    return out


def _blank(tensor: Tensor) -> Tensor:
    from adjoint._tensor.meta import blank

    made: Tensor = blank(tensor)
    return made


def _copied(data: Any, dtype: _core.dtype | None) -> Tensor:
    """A new tensor with the values of ``data``, without history."""
    if isinstance(data, Tensor):
        source = _core._tensor_source(data)
        return source.clone() if dtype is None else source.to(dtype, copy=True)
    if _is_storage(data):
        return _of_storage(data, dtype).clone()
    if _is_array(data):
        return _copied(_shared(_as_native(data, copying=True)), dtype)
    made: Tensor | None = _core._tensor(data, dtype)
    out = _from_sequence(data, dtype) if made is None else made
    recorded = _recorded_in(data)
    if recorded is not None:
        _core._share_cut(out, _core._tensor_source(recorded))  # explain_grad asks
    return out


def _is_storage(data: Any) -> bool:
    """Whether it is a storage; asked of its class, so that their module is not loaded."""
    return hasattr(type(data), "untyped") and hasattr(data, "_elements")


def _of_storage(data: Any, dtype: _core.dtype | None) -> Tensor:
    """The elements of a storage, on its memory; bytes are seen as elements of the dtype."""
    typed = type(data).__name__ != "UntypedStorage"
    dtype = (data.dtype if typed else _core.int64) if dtype is None else dtype
    if typed and data.dtype != dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got {data.dtype}"
        )
    data._mine = False
    count = data.nbytes() // dtype.itemsize
    elements: Tensor = _core._on_storage(data._tensor, dtype, (count,), (1,), 0)
    return elements


_SEARCHED = 64  # items of a list among which a recorded tensor is looked for


def _recorded_in(data: Any) -> Tensor | None:
    """A tensor that requires grad in nested lists, whose history ends here; not a long search."""
    if type(data) not in (list, tuple):
        return None
    data = data[:_SEARCHED]
    kinds = set(map(type, data))
    if Tensor in kinds:
        found = [t for t in data if type(t) is Tensor and t.requires_grad]
        # A cut leads to one tensor. Of several, a view is taken that is gone at once: the question
        # for any of them then has the answer that it may have been behind the cut.
        if len(found) > 1 and _core.is_grad_enabled():
            return found[0].view_as(found[0])
        return found[0] if found else None
    if list in kinds or tuple in kinds:
        return next((t for t in map(_recorded_in, data) if t is not None), None)
    return None


def _is_array(data: Any) -> bool:
    """Whether NumPy made it, or it knows how to become an array."""
    kind = type(data)
    if kind.__module__ == "builtins":
        return False
    return hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")


def _as_native(data: Any, copying: bool = False) -> npt.NDArray[Any]:
    """An array that a tensor can share: native byte order, no negative strides.

    One at an address that is not a multiple of the element's size cannot be shared; it is copied
    where ``copying`` is all the same to the caller.
    """
    import numpy as np

    array = np.asarray(data)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if copying and not array.flags.aligned:
        array = array.copy()
    if not array.flags.c_contiguous and any(stride < 0 for stride in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array with array.copy().)"
        )
    return array


_SUPPORTED = (
    "The only supported types are: float64, float32, float16, complex64, complex128, int64, "
    "int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
)


def _shared(array: npt.NDArray[Any]) -> Tensor:
    """The memory of an array as a tensor."""
    if array.dtype.kind not in "biufc":
        raise TypeError(f"can't convert np.ndarray of type {_type_name(array)}. {_SUPPORTED}")
    if array.dtype.kind in "fc" and array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        raise TypeError(f"can't convert np.ndarray of type {_type_name(array)}. {_SUPPORTED}")
    made = _core._from_buffer(array)
    source: Any = array.base
    while type(source) is type(array):
        source = source.base
    if type(source) is memoryview and isinstance(source.obj, Tensor):
        _core._share_cut(made, source.obj)  # a tensor's values come back: explain_grad asks
    return made


def _type_name(array: npt.NDArray[Any]) -> str:
    return f"numpy.{array.dtype.type.__name__}"


def _from_sequence(data: Any, dtype: _core.dtype | None) -> Tensor:
    """A tensor from sequences that are not all lists, tuples and numbers."""
    found: list[_core.dtype] = []
    plain = _plain(data, found, [], dtype, top=True)
    if dtype is None and found:
        numbers = _core._tensor(plain, None)
        dtype = found[0]
        for other in found[1:]:
            dtype = _core.promote_types(dtype, other)
        if numbers.dtype.is_complex and not dtype.is_complex:
            dtype = numbers.dtype
    made: Tensor = _core._tensor(plain, dtype)
    return made


def _no_number(kind: str, wanted: _core.dtype | None) -> Exception:
    """What something that is not a number raises; PyTorch's class depends on whether it looks."""
    if wanted is None:
        return RuntimeError(f"Could not infer dtype of {kind}")
    if wanted.is_floating_point or wanted.is_complex:
        return TypeError(f"must be real number, not {kind}")
    return TypeError(f"'{kind}' object cannot be interpreted as an integer")


def _plain(
    data: Any,
    found: list[_core.dtype],
    parents: list[int],
    wanted: _core.dtype | None,
    *,
    top: bool = False,
) -> Any:
    """``data`` as nested lists of Python numbers; the dtypes of arrays in it go to ``found``."""
    if isinstance(data, Tensor) or (
        isinstance(data, bool | int | float | complex) and type(data).__module__ != "numpy"
    ):
        if not isinstance(data, Tensor):
            found.append(_core._tensor(data, None).dtype)
        else:
            found.append(data.dtype)
        return data
    if isinstance(data, str):
        if top:
            raise TypeError("new(): invalid data type 'str'")
        raise ValueError("too many dimensions 'str'")
    if isinstance(data, bytes):
        raise TypeError("new(): invalid data type 'bytes'")
    if _is_array(data):
        array = _shared(_as_native(data, copying=True))
        found.append(array.dtype)
        return array.tolist()
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or isinstance(data, dict):
        raise _no_number(type(data).__name__, wanted)
    if id(data) in parents or len(parents) > 64:
        raise ValueError("a sequence that contains itself cannot be made into a tensor")
    parents.append(id(data))
    items = [_plain(data[i], found, parents, wanted) for i in range(len(data))]
    parents.pop()
    return items


def as_tensor(data: Any, dtype: _core.dtype | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing its memory (and keeping its history) where that is possible.

    Examples
    --------
    >>> import adjoint as ad
    >>> import numpy as np
    >>> a = np.zeros(2)
    >>> ad.as_tensor(a)[0] = 1.0
    >>> a.tolist()
    [1.0, 0.0]
    """
    require_cpu(device)
    if isinstance(data, Tensor):
        return data if dtype is None or dtype == data.dtype else data.to(dtype)
    if _is_array(data):
        shared = _shared(_as_native(data, copying=True))
        return shared if dtype is None or dtype == shared.dtype else shared.to(dtype)
    return _copied(data, dtype)


def asarray(
    obj: Any,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor: shared, copied, or (``copy=None``) shared where that is possible.

    Tensors, arrays, DLPack objects and buffers can be shared; numbers and sequences cannot.
    """
    require_cpu(device)
    shared = _sharing(obj, dtype)
    if shared is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        out = _copied(obj, dtype)
    else:
        convert = dtype is not None and dtype != shared.dtype
        if convert and copy is False:
            raise ValueError(
                f"can't alias tensor with dtype '{shared.dtype}' into dtype '{dtype}'."
            )
        out = shared.to(dtype) if convert and dtype is not None else shared
        if copy and not convert:
            out = out.clone()
    if isinstance(obj, Tensor):
        if out.requires_grad and not requires_grad:
            out = out.detach()
        elif requires_grad and not out.requires_grad:
            out = (out.detach() if out is obj else out).requires_grad_()
        return out
    return out.requires_grad_() if requires_grad else out


def _sharing(obj: Any, dtype: _core.dtype | None) -> Tensor | None:
    if isinstance(obj, Tensor):
        return obj
    if _is_array(obj) and hasattr(obj, "dtype"):
        return _shared(_as_native(obj))
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if isinstance(obj, bytes | bytearray | memoryview):
        return frombuffer(obj, dtype=_core.get_default_dtype() if dtype is None else dtype)
    return None


def from_numpy(ndarray: npt.NDArray[Any]) -> Tensor:
    """A tensor on the memory of a NumPy array: a change of one is seen in the other.

    An array that is not writable gives a tensor that refuses to be changed in place.

    Raises
    ------
    TypeError
        It is no array, or its elements have no dtype here.
    ValueError
        It has negative strides or another byte order.
    """
    import numpy as np

    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    return _shared(_as_native(ndarray))


def frombuffer(
    buffer: Any,
    *,
    dtype: _core.dtype,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A one-dimensional tensor on the memory of an object with the buffer protocol.

    Parameters
    ----------
    buffer
        bytes (then the tensor is read-only), bytearray, memoryview, array ...
    dtype
        How to read the bytes.
    count
        How many elements; all that there are when negative.
    offset
        How many bytes to skip.
    """
    out: Tensor = _core._frombuffer(buffer, dtype, count, offset)
    return out.requires_grad_() if requires_grad else out


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's array, through DLPack.

    Parameters
    ----------
    ext_tensor
        An object with ``__dlpack__`` and ``__dlpack_device__``, or a DLPack capsule.
    device
        Only ``"cpu"``.
    copy
        True: never share. False: never copy.
    """
    require_cpu(device)
    if not hasattr(ext_tensor, "__dlpack__"):
        out: Tensor = _core._from_dlpack(ext_tensor)
        return out.clone() if copy else out
    kind, number = ext_tensor.__dlpack_device__()
    if int(kind) != 1:
        raise BufferError(
            f"from_dlpack: the array is on device ({int(kind)}, {number}); adjoint computes on "
            "the CPU only, copy the array there first"
        )
    options: dict[str, Any] = {"max_version": (1, 0)}
    if copy is not None:
        options["copy"] = copy
    try:
        capsule = ext_tensor.__dlpack__(**options)
    except TypeError:  # older than version 1.0: no arguments
        capsule = ext_tensor.__dlpack__()
    shared: Tensor = _core._from_dlpack(capsule)
    return shared


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule (without a version) with the tensor's memory."""
    return _core._to_dlpack(tensor, False, False)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> Any:
    """Coordinate matrices of one-dimensional coordinate tensors.

    Parameters
    ----------
    tensors
        One per axis, with one axis or none.
    indexing
        ``"ij"``: axis k of the results runs along tensor k. ``"xy"``: the first two are swapped.
    """
    given: Sequence[Any] = tensors
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        given = tensors[0]
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            UserWarning,
            stacklevel=2,
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    require_tensors("meshgrid", given)
    for t in given:
        if t.dim() > 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got shape "
                f"{list(t.shape)}"
            )
        if t.dtype != given[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(given) > 1
    order = [given[1], given[0], *given[2:]] if swap else list(given)
    shape = [t.numel() for t in order]
    grids = []
    for axis, t in enumerate(order):
        ones = [1] * len(order)
        ones[axis] = -1
        grids.append(t.reshape(ones).expand(shape))
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of one-dimensional tensors, one combination per row."""
    require_tensors("cartesian_prod", tensors)
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError("Expect a 1D vector, but got shape " + str(list(t.shape)))
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    _core.empty(grids[0].numel(), len(grids), dtype=grids[0].dtype)  # room for it, before the work
    return _core.stack([g.reshape(-1) for g in grids], 1)
