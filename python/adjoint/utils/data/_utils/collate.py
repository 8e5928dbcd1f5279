"""Samples into batches: `default_collate` and the table of functions it is made of."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import Tensor

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
]

_Table = dict[type | tuple[type, ...], Callable[..., Any]]

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """Arrays of NumPy as tensors, inside of lists and dicts too; anything else as it is.

    Parameters
    ----------
    data
        One sample.

    Examples
    --------
    >>> import numpy as np
    >>> from adjoint.utils.data import default_convert
    >>> default_convert([np.array([0, 1]), "text"])
    [tensor([0, 1]), 'text']
    """
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray | np.generic):
        if isinstance(data, np.str_ | np.bytes_) or np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return ad.as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*[default_convert(entry) for entry in data])
    if isinstance(data, tuple):
        return [default_convert(entry) for entry in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _sequence(data, [default_convert(entry) for entry in data])
    return data


def _mapping(like: Any, entries: dict[Any, Any]) -> Any:
    """The entries as a mapping of the same class, if that lets itself be made."""
    try:
        if isinstance(like, MutableMapping):
            result = copy.copy(like)  # with attributes that a new one would not have
            result.update(entries)
            return result
        return type(like)(entries)
    except TypeError:
        return entries


def _sequence(like: Any, entries: list[Any]) -> Any:
    """The entries as a sequence of the same class, if that lets itself be made."""
    try:
        if isinstance(like, MutableSequence):
            result = copy.copy(like)
            for i, entry in enumerate(entries):
                result[i] = entry
            return result
        return type(like)(entries)
    except TypeError:
        return entries


def collate(batch: Any, *, collate_fn_map: _Table | None = None) -> Any:
    """A list of samples as one batch, by a table of functions for classes of samples.

    Parameters
    ----------
    batch : list
        Samples of one structure.
    collate_fn_map : dict, optional
        From classes, or tuples of them, to functions (batch, *, collate_fn_map) -> batch.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is None:
            function = next((f for c, f in collate_fn_map.items() if isinstance(first, c)), None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _mapping(first, columns)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*_columns(batch, collate_fn_map))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns_of = _columns(batch, collate_fn_map)
        return columns_of if isinstance(first, tuple) else _sequence(first, columns_of)
    raise TypeError(default_collate_err_msg_format.format(kind))


def _columns(batch: Any, collate_fn_map: _Table | None) -> list[Any]:
    return [
        collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=False)
    ]


def collate_tensor_fn(batch: Any, *, collate_fn_map: _Table | None = None) -> Tensor:
    """Tensors stacked; in a worker process, in memory that both processes share."""
    first = batch[0]
    if first.is_sparse:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; "
            "please provide a custom collate_fn to handle them appropriately."
        )
    if first.requires_grad:
        return ad.stack(batch, 0)
    return ad.stack(batch, 0, out=_shared_batch(batch, first))


def _shared_batch(batch: Any, first: Tensor) -> Tensor | None:
    """In a worker memory for a batch that both processes share, unless it is small."""
    from adjoint.utils.data._utils import worker

    if worker._worker_info is None:
        return None
    from adjoint._sharing.channel import INLINE, shared_like

    if len(batch) * first.numel() * first.element_size() < INLINE:
        return None
    return shared_like((len(batch), *first.shape), first)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: _Table | None = None) -> Any:
    """Arrays as one tensor."""
    first = batch[0]
    if np_str_obj_array_pattern.search(first.dtype.str):
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    by_default = collate_fn_map is not None and collate_fn_map.get(Tensor) is collate_tensor_fn
    if by_default and all(a.shape == first.shape and a.dtype == first.dtype for a in batch):
        # At once, rather than a tensor for each array.
        out = _shared_batch(batch, ad.as_tensor(first))
        if out is None:
            return ad.as_tensor(np.array(batch))
        np.stack(batch, out=out.numpy())
        return out
    return collate([ad.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: _Table | None = None) -> Tensor:
    """Numbers of NumPy as a tensor."""
    return ad.as_tensor(np.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: _Table | None = None) -> Tensor:
    """Floats as a tensor, float64."""
    return ad.tensor(batch, dtype=ad.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: _Table | None = None) -> Tensor:
    """Integers as a tensor."""
    return ad.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: _Table | None = None) -> Any:
    """Texts as they are."""
    return batch


default_collate_fn_map: _Table = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A list of samples as one batch: tensors, arrays and numbers get one more axis.

    Parameters
    ----------
    batch : list
        Samples of one structure: tensors, NumPy arrays, numbers, texts, and dicts, lists, tuples or
        named tuples of these.

    Examples
    --------
    >>> from adjoint.utils.data import default_collate
    >>> default_collate([{"a": 0, "b": "x"}, {"a": 1, "b": "y"}])
    {'a': tensor([0, 1]), 'b': ['x', 'y']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
