"""``histogram`` and ``histogramdd``: how many points lie in each cell of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor, write_out
from adjoint.return_types import _make

__all__ = ["histogram", "histogramdd"]


def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> Any:
    """Count the elements in each bin; the last bin holds its right edge too.

    Parameters
    ----------
    input : Tensor
        The elements, float32 or float64. What lies outside of all bins, and NaN, is left out.
    bins : int or Tensor, default 100
        How many bins of one width there are, or their edges in rising order.
    range : pair of float, optional
        The outer edges; those of the elements by default. Only with a number of bins.
    weight : Tensor, optional
        What each element counts, of the shape and dtype of `input`.
    density : bool, default False
        Divide by the whole and by the width of each bin, so that the integral is 1.
    out : pair of Tensor, optional
        Tensors for the results.

    Returns
    -------
    hist, bin_edges : Tensor
        The counts in the dtype of `input`, and one edge more than there are bins.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.histogram(ad.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    require_tensor("histogram", "input", 1, input)
    _check_points("histogram", input, weight, tuple(input.shape))
    points = input.detach().reshape(-1, 1)
    if isinstance(bins, Tensor):
        if range is not None:
            raise TypeError("histogram(): a range goes with a number of bins, not with their edges")
        edges = _given_edges("histogram", [bins], 1, input.dtype)
    else:
        edges = _even_edges("histogram", [_count("histogram", bins)], range, points)
    counts = _counts(points, edges, weight, density)
    if out is None:
        return _make("histogram", ("hist", "bin_edges"), (counts, edges[0]))
    hist, bin_edges = out
    return _make(
        "histogram",
        ("hist", "bin_edges"),
        (write_out(hist, counts), write_out(bin_edges, edges[0])),
    )


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Count the points in each cell of a grid of as many axes as a point has coordinates.

    Parameters
    ----------
    input : Tensor
        Points along the leading axes, their coordinates along the last one; float32 or float64.
    bins : int, sequence of int, or sequence of Tensor
        The number of bins of each axis, or the edges of the bins of each axis in rising order.
    range : sequence of float, optional
        The outer edges, two for each axis one after the other; those of the points by default.
    weight : Tensor, optional
        What each point counts, of the leading shape of `input`.
    density : bool, default False
        Divide by the whole and by the volume of each cell.

    Returns
    -------
    hist : Tensor
        The counts, one axis for each coordinate.
    bin_edges : tuple of Tensor
        The edges along each axis.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.histogramdd(ad.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), bins=2).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    require_tensor("histogramdd", "input", 1, input)
    if input.dim() < 2:
        raise RuntimeError(
            "torch.histogramdd: input tensor should have at least 2 dimensions, "
            f"but got {input.dim()}"
        )
    axes = input.size(-1)
    _check_points("histogramdd", input, weight, tuple(input.shape[:-1]))
    points = input.detach().reshape(-1, axes)
    given: list[Any] = [bins] * axes if isinstance(bins, int) else list(bins)
    if given and all(isinstance(b, Tensor) for b in given):
        edges = _given_edges("histogramdd", given, axes, input.dtype)
    else:
        counts = [_count("histogramdd", b) for b in given]
        if len(counts) != axes:
            raise RuntimeError(
                f"torch.histogramdd: expected {axes} numbers of bins for points of {axes} "
                f"coordinates, but got {len(counts)}"
            )
        edges = _even_edges("histogramdd", counts, range, points)
    result = _counts(points, edges, weight, density)
    return _make("histogramdd", ("hist", "bin_edges"), (result, tuple(edges)))  # type: ignore[arg-type]


def _check_points(
    name: str, input: Tensor, weight: Tensor | None, leading: tuple[int, ...]
) -> None:
    if input.dtype not in (_core.float32, _core.float64):
        raise NotImplementedError(f'"{name}_cpu" not implemented for {input.dtype}')
    if weight is None:
        return
    if weight.dtype != input.dtype:
        raise RuntimeError(
            f"torch.{name}: if weight tensor is provided, input tensor and weight tensor should "
            f"have the same dtype, but got {input.dtype} and {weight.dtype}"
        )
    if tuple(weight.shape) != leading:
        raise RuntimeError(
            f"torch.{name}: if weight tensor is provided it should have the shape of the points, "
            f"{list(leading)}, but got {list(weight.shape)}"
        )


def _count(name: str, bins: Any) -> int:
    if isinstance(bins, bool) or not isinstance(bins, int):
        raise TypeError(
            f"{name}(): argument 'bins' (position 2) must be int or Tensor, not "
            f"{type(bins).__name__}"
        )
    if bins <= 0:
        raise RuntimeError(f"torch.{name}(): bins must be > 0, but got {bins}")
    return bins


def _given_edges(name: str, given: list[Tensor], axes: int, dtype: Any) -> list[Tensor]:
    if len(given) != axes:
        raise RuntimeError(
            f"torch.{name}: expected {axes} sequences of bin edges for points of {axes} "
            f"coordinates, but got {len(given)}"
        )
    for edges in given:
        if edges.dim() != 1:
            raise RuntimeError(
                f"torch.{name}: bins tensor should have one dimension, but got {edges.dim()} "
                "dimensions"
            )
        if edges.numel() == 0:
            raise RuntimeError(f"torch.{name}: bins tensor should have at least 1 element, got 0")
        if edges.dtype != dtype:
            raise RuntimeError(
                f"torch.{name}: input tensor and bins tensors should have the same dtype, but got "
                f"input with dtype {dtype} and bins with dtype {edges.dtype}"
            )
    return [edges.detach().clone() for edges in given]


def _even_edges(
    name: str, counts: list[int], outer: Sequence[float] | None, points: Tensor
) -> list[Tensor]:
    axes = len(counts)
    if outer is not None:
        if len(outer) != 2 * axes:
            raise RuntimeError(
                f"torch.{name}: for a {axes}-dimensional histogram range should have {2 * axes} "
                f"elements, but got {len(outer)}"
            )
        pairs = [(float(outer[2 * k]), float(outer[2 * k + 1])) for k in range(axes)]
    elif points.size(0) == 0:
        pairs = [(0.0, 1.0)] * axes
    else:
        least, most = points.amin(0).tolist(), points.amax(0).tolist()
        pairs = list(zip(least, most, strict=True))
    for axis, (left, right) in enumerate(pairs):
        if not (math.isfinite(left) and math.isfinite(right)):
            raise RuntimeError(
                f"torch.{name}: dimension {axis}'s range [{left}, {right}] is not finite"
            )
        if left > right:
            raise RuntimeError(
                f"torch.{name}: min should not exceed max, but got min {left} max {right} for "
                f"dimension {axis}"
            )
    return [
        _core.linspace(
            left - 0.5 * (left == right), right + 0.5 * (left == right), n + 1, dtype=points.dtype
        )
        for n, (left, right) in zip(counts, pairs, strict=True)
    ]


def _counts(points: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """What lies in each cell; points outside, and NaN, lie in none."""
    sizes = [e.numel() - 1 for e in edges]
    inside = _core.ones(points.size(0), dtype=_core.bool)
    cell = _core.zeros(points.size(0), dtype=_core.int64)
    for axis, (e, size) in enumerate(zip(edges, sizes, strict=True)):
        x = points[:, axis].contiguous()
        inside &= (x >= e[0]) & (x <= e[-1])
        cell = cell * size + (_core.searchsorted(e, x, right=True) - 1).clamp(0, max(size - 1, 0))
    total = math.prod(sizes)
    if total == 0:
        hist = points.new_zeros(sizes)
    else:
        counted = None if weight is None else weight.detach().reshape(-1)[inside]
        found = _core.bincount(cell[inside], counted, total)
        hist = found.to(points.dtype).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for axis, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1 if k == axis else 1 for k in range(len(edges))])
    return hist
