"""gradient: derivatives of sampled functions by finite differences, written from ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor

__all__ = ["gradient"]


def gradient(
    input: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Estimate the derivatives of a function from its values on a grid.

    Parameters
    ----------
    input : Tensor
        The values.
    spacing : number, or list of numbers or of tensors, default 1
        How far the points of the grid lie apart: one number, a number per axis, or the coordinates
        along each axis.
    dim : int or sequence of int, optional
        The axes to differentiate along; all of them by default.
    edge_order : 1 or 2, default 1
        The order of the estimate at both ends of an axis; inside it is 2.

    Returns
    -------
    tuple of Tensor
        One derivative per axis, of the shape of `input`.

    Raises
    ------
    RuntimeError
        Spacings and axes do not match, or an axis has fewer than ``edge_order + 1`` points.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.gradient(ad.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(
            f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}"
        )
    require_tensor("gradient", "input", 1, input)
    spacing = 1 if spacing is None else spacing
    axes = _axes(input, dim)
    spacings = _spacings(input, spacing, axes)
    for axis in axes:
        if input.shape[axis] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{input.shape[axis]} along dimension {axis} for edge_order={edge_order}"
            )
    pairs = zip(axes, spacings, strict=True)
    return tuple(_along(input, axis, given, edge_order) for axis, given in pairs)


def _axes(input: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    given = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    axes: list[int] = []
    for axis in given:
        if not -input.dim() <= axis < input.dim():
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[{-input.dim()}, {input.dim() - 1}], but got {axis})"
            )
        axes.append(axis % input.dim())
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"dim {list(given)} appears multiple times in the list of dims")
    return axes


def _spacings(input: Tensor, spacing: Any, axes: list[int]) -> list[Any]:
    if not isinstance(spacing, list | tuple):
        return [spacing] * len(axes)
    if len(spacing) != len(axes):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"{len(axes)} (one per dimension), but got a list of length {len(spacing)}"
        )
    for axis, given in zip(axes, spacing, strict=True):
        if isinstance(given, Tensor) and given.shape != (input.shape[axis],):
            raise RuntimeError(
                "torch.gradient expected each element of spacing to hold the "
                f"{input.shape[axis]} coordinates along dimension {axis}, got the shape "
                f"{list(given.shape)}"
            )
    return list(spacing)


def _along(input: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    y = input.movedim(axis, -1)
    derivative = _on_points if isinstance(spacing, Tensor) else _evenly
    return _core.cat(derivative(y, spacing, edge_order), -1).movedim(-1, axis)


def _evenly(y: Tensor, spacing: Any, edge_order: int) -> list[Tensor]:
    """The derivative at the first point, at those inside and at the last one, a step apart."""
    inside = (y[..., 2:] - y[..., :-2]) / 2 / spacing
    if edge_order == 1:
        return [
            (y[..., 1:2] - y[..., :1]) / spacing,
            inside,
            (y[..., -1:] - y[..., -2:-1]) / spacing,
        ]
    first = 2 * y[..., 1:2] - 1.5 * y[..., :1] - 0.5 * y[..., 2:3]
    last = 1.5 * y[..., -1:] - 2 * y[..., -2:-1] + 0.5 * y[..., -3:-2]
    return [first / spacing, inside, last / spacing]


def _on_points(y: Tensor, x: Tensor, edge_order: int) -> list[Tensor]:
    """The same at the coordinates x, by parabolas through three neighbours.

    The slope of a parabola is linear, and halfway between two points it is that of their chord. So
    it is the mean of the two chords at the middle point, each weighed with the length of the other,
    and twice the chord less that at an end.
    """
    width = x[1:] - x[:-1]
    chord = (y[..., 1:] - y[..., :-1]) / width
    left, right = width[:-1], width[1:]
    inside = (chord[..., :-1] * right + chord[..., 1:] * left) / (left + right)
    first, last = chord[..., :1], chord[..., -1:]
    if edge_order == 2:
        first, last = 2 * first - inside[..., :1], 2 * last - inside[..., -1:]
    return [first, inside, last]
