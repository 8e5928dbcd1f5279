"""Private helpers of PyTorch's `autograd.functional` that published libraries import."""

from __future__ import annotations

from typing import Any

from adjoint._core import Tensor

__all__ = [
    "_construct_standard_basis_for",
    "_grad_postprocess",
    "_grad_preprocess",
    "_tuple_postprocess",
]


def _grad_preprocess(inputs: Any, create_graph: bool, need_graph: bool) -> tuple[Any, ...]:
    """Fresh tensors to differentiate by; with a link to the given ones if that is wanted."""
    found: list[Any] = []
    for inp in inputs:
        if create_graph and isinstance(inp, Tensor):
            found.append(inp.view_as(inp) if not inp.is_sparse else inp.clone())
        elif isinstance(inp, Tensor):
            found.append(inp.detach().requires_grad_(need_graph))
        else:
            found.append(_grad_preprocess(inp, create_graph, need_graph))
    return tuple(found)


def _grad_postprocess(inputs: Any, create_graph: bool) -> tuple[Any, ...]:
    """Results without a history, unless one was asked for."""
    if isinstance(inputs[0], Tensor):
        return tuple(inputs) if create_graph else tuple(inp.detach() for inp in inputs)
    return tuple(_grad_postprocess(inp, create_graph) for inp in inputs)


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """Take results out of the tuples that arguments were put into."""
    if isinstance(to_unpack, tuple):
        outer, inner = to_unpack
        if not inner:
            res = tuple(entry[0] for entry in res)
        return res if outer else res[0]
    return res if to_unpack else res[0]


def _construct_standard_basis_for(
    tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The unit vectors of all elements together: for each tensor its columns, a row per element.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.autograd.functional import _construct_standard_basis_for
    >>> _construct_standard_basis_for((ad.zeros(2), ad.zeros(1)), (2, 1))[1].T
    tensor([[0., 0., 1.]])
    """
    if len(tensors) != len(tensor_numels) or not tensors:
        raise AssertionError(f"{len(tensors)} tensors and {len(tensor_numels)} sizes were given")
    total = sum(tensor_numels)
    found, before = [], 0
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        columns = tensor.new_zeros(total, count)
        columns.diagonal(-before).fill_(1)
        found.append(columns)
        before += count
    return tuple(found)
