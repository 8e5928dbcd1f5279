"""`halo_exchange`: the borders of neighbouring blocks on a Cartesian grid of MPI's.

One axis after the other, each on a block that has the halos of the axes before: so corners arrive
without messages along diagonals. Backward, what belongs to a halo goes back to the neighbour it
came from, and is added there; that is linear, and its own derivative is the exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor

__all__ = ["halo_exchange"]


def halo_exchange(
    block: Tensor, grid: Any, width: int = 1, axes: Sequence[int] | None = None, fill: float = 0.0
) -> Tensor:
    """Surround a block of a field by the borders of its neighbours.

    Parameters
    ----------
    block : Tensor
        The part of the field that this rank has.
    grid : mpi4py.MPI.Cartcomm
        The ranks in their grid: ``MPI.COMM_WORLD.Create_cart(dims, periods)``.
    width : int
        How many layers of a neighbour are wanted.
    axes : sequence of int, optional
        The axis of the block for each axis of the grid; by default the first ones.
    fill : float
        What stands outside of the whole field, where the grid is not periodic.

    Returns
    -------
    Tensor
        The block with ``width`` more layers on both sides of each of these axes. Its gradient
        returns to the ranks that the layers came from. Every rank of the grid has to call this,
        and its backward pass, in the same order.

    Raises
    ------
    ValueError
        The block is thinner than the halo, or the grid has more axes than the block.
    """
    dims = list(grid.Get_topo()[0])
    given = list(range(len(dims))) if axes is None else list(axes)
    chosen = [axis + block.ndim if axis < 0 else axis for axis in given]
    fit = all(0 <= axis < block.ndim for axis in chosen) and len(set(chosen)) == len(dims)
    if len(chosen) != len(dims) or not fit:
        raise ValueError(
            f"halo_exchange: the grid has {len(dims)} axes {dims}, the block has shape "
            f"{list(block.shape)} and axes={given}; there must be one axis of the block for each "
            "of the grid"
        )
    for direction, axis in enumerate(chosen):
        if width < 1 or block.shape[axis] < width:
            raise ValueError(
                f"halo_exchange: a halo of width {width} cannot be taken from axis {axis} of a "
                f"block of shape {list(block.shape)}"
            )
        block = _Surround.apply(block, grid, direction, axis, width, fill)
    return block


class _Surround(ad.autograd.Function):
    """Adds the layers of both neighbours along one axis."""

    @staticmethod
    def forward(
        ctx: Any, block: Tensor, grid: Any, direction: int, axis: int, width: int, fill: float
    ) -> Tensor:
        ctx.grid, ctx.direction, ctx.axis, ctx.width = grid, direction, axis, width
        n = block.shape[axis]
        low, high = block.narrow(axis, 0, width), block.narrow(axis, n - width, width)
        from_low, from_high = _swap(grid, direction, low, high, fill)
        return ad.cat([from_low, block, from_high], axis)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        inner = _GiveBack.apply(g, ctx.grid, ctx.direction, ctx.axis, ctx.width)
        return (inner, None, None, None, None, None)


class _GiveBack(ad.autograd.Function):
    """The transpose: layers go back to where they came from, and are added there."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, grid: Any, direction: int, axis: int, width: int) -> Tensor:
        ctx.grid, ctx.direction, ctx.axis, ctx.width = grid, direction, axis, width
        n = g.shape[axis] - 2 * width
        low, high = g.narrow(axis, 0, width), g.narrow(axis, n + width, width)
        from_low, from_high = _swap(grid, direction, low, high, 0.0)
        inner = g.narrow(axis, width, n).clone()
        inner.narrow(axis, 0, width).add_(from_low)
        inner.narrow(axis, n - width, width).add_(from_high)
        return inner

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        outer = _Surround.apply(g, ctx.grid, ctx.direction, ctx.axis, ctx.width, 0.0)
        return (outer, None, None, None, None)


def _swap(
    grid: Any, direction: int, low: Tensor, high: Tensor, fill: float
) -> tuple[Tensor, Tensor]:
    """Send ``low`` to the neighbour below and ``high`` to the one above; what they send."""
    below, above = grid.Shift(direction, 1)
    low, high = low.contiguous(), high.contiguous()
    from_low, from_high = ad.full_like(low, fill), ad.full_like(high, fill)
    # A neighbour that is not there is MPI's null process: nothing is sent, and nothing changes.
    for sent, to, received, source in (
        (high, above, from_low, below),
        (low, below, from_high, above),
    ):
        grid.Sendrecv(_bytes(sent), to, 0, _bytes(received), source, 0)
    return from_low, from_high


def _bytes(t: Tensor) -> Any:
    """The memory of a tensor as MPI takes it."""
    return t.detach().view(ad.uint8).numpy() if t.numel() else t.detach().reshape(-1).numpy()
