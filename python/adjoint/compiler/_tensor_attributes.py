"""What Python can read of a tensor besides its numbers. Read next: `_notes`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint import Tensor

from ._names import words

__all__ = ["STATE", "has_texture", "have_textures", "texture"]

# What Python can read of a tensor besides its numbers, and `Program.accepts` does not compare.
STATE = words(
    "is_leaf grad_fn _base _is_view storage_offset retains_grad is_inference data_ptr "
    "untyped_storage output_nr _backward_hooks _version"
)


def texture(tensor: Tensor, names: Iterable[str]) -> list[Any]:
    """What Python can read of a tensor besides its numbers."""
    told: list[Any] = []
    for name in names:
        value = getattr(tensor, name, None)
        if callable(value) and not isinstance(value, Tensor) and name != "grad_fn":
            value = value()
        if name == "grad_fn":
            value = value is None
        elif name == "_backward_hooks":
            value = value and list(value.values())
        told.append(id(value) if isinstance(value, Tensor) else value)
    return told


def has_texture(tensor: Tensor, names: Iterable[str], was: list[Any]) -> bool:
    return texture(tensor, names) == was


def have_textures(names: Iterable[str], were: list[Any], tensors: list[Tensor]) -> bool:
    return [texture(tensor, names) for tensor in tensors] == were
