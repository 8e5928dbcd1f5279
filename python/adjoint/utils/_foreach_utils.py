"""Lists of tensors by device and dtype, under the address PyTorch has for it."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor, device

__all__: list[str] = []

_Lists = list[list[Tensor | None]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cpu"]


def _has_foreach_support(tensors: list[Tensor], device: Any) -> bool:
    return all(isinstance(tensor, Tensor) for tensor in tensors if tensor is not None)


def _device_has_foreach_support(device: Any) -> bool:
    return True


def _group_tensors_by_device_and_dtype(
    tensorlistlist: _Lists, with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[_Lists, list[int]]]:
    """Rows of lists that are as long as the first, by the dtype of that one's entries."""
    groups: dict[tuple[Any, Any], tuple[_Lists, list[int]]] = {}
    for place, tensor in enumerate(tensorlistlist[0]):
        key = (device("cpu"), tensor.dtype if tensor is not None else None)
        lists, places = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for column, given in zip(lists, tensorlistlist, strict=True):
            if given:
                column.append(given[place])
        if with_indices:
            places.append(place)
    return groups
