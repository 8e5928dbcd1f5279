"""Functions that give copies where others give views: ``unsafe_split`` and ``view_copy``'s family.

Each is the view followed by a copy, so that results may be changed in place freely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor, write_out


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` into tensors that may be changed in place: each has memory of its own."""
    require_tensor("unsafe_split", "input", 1, input)
    return tuple(part.clone() for part in input.split(split_size, dim))


def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """`split_with_sizes` into tensors that may be changed in place."""
    require_tensor("unsafe_split_with_sizes", "input", 1, input)
    return tuple(part.clone() for part in input.split(list(split_sizes), dim))


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` into tensors that may be changed in place."""
    require_tensor("unsafe_chunk", "input", 1, input)
    return tuple(part.clone() for part in input.chunk(chunks, dim))


def _copying(view: Callable[..., Any], name: str) -> Callable[..., Any]:
    def copied(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        seen = view(input, *args, **kwargs)
        if isinstance(seen, Tensor):
            if out is not None:
                return write_out(out, seen)
            return seen.clone(memory_format=_contiguous())
        if out is not None:
            for to, part in zip(out, seen, strict=True):
                write_out(to, part)
            return None
        return tuple(part.clone(memory_format=_contiguous()) for part in seen)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"`{name.removesuffix('_copy')}` as a copy instead of a view."
    return copied


def _contiguous() -> Any:
    import adjoint

    return adjoint.contiguous_format


def _alias(input: Tensor) -> Tensor:
    require_tensor("alias_copy", "input", 1, input)
    return input


def _narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    require_tensor("narrow_copy", "input", 1, input)
    if dim >= max(input.dim(), 1):
        raise RuntimeError(f"narrow_copy: there is no axis {dim} in a shape of {list(input.shape)}")
    return input.narrow(dim, start, length)


alias_copy = _copying(_alias, "alias_copy")
as_strided_copy = _copying(Tensor.as_strided, "as_strided_copy")
detach_copy = _copying(Tensor.detach, "detach_copy")
diagonal_copy = _copying(Tensor.diagonal, "diagonal_copy")
expand_copy = _copying(Tensor.expand, "expand_copy")
narrow_copy = _copying(_narrow, "narrow_copy")
permute_copy = _copying(Tensor.permute, "permute_copy")
select_copy = _copying(Tensor.select, "select_copy")
split_copy = _copying(Tensor.split, "split_copy")
split_with_sizes_copy = _copying(Tensor.split, "split_with_sizes_copy")
squeeze_copy = _copying(Tensor.squeeze, "squeeze_copy")
t_copy = _copying(Tensor.t, "t_copy")
transpose_copy = _copying(Tensor.transpose, "transpose_copy")
unbind_copy = _copying(Tensor.unbind, "unbind_copy")
unfold_copy = _copying(Tensor.unfold, "unfold_copy")
unsqueeze_copy = _copying(Tensor.unsqueeze, "unsqueeze_copy")
view_as_complex_copy = _copying(_core.view_as_complex, "view_as_complex_copy")
view_as_real_copy = _copying(_core.view_as_real, "view_as_real_copy")
view_copy = _copying(Tensor.view, "view_copy")
