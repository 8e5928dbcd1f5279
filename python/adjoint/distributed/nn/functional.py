"""Collective operations that autograd sees: gradients travel the other way.

With ranks as one program, ``L`` being the sum of what all of them differentiate, the derivative of
a collective is its transpose: a broadcast's is a reduction, a gathering's a scattering sum. Every
rank has to run backward through them, in the same order.
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import distributed as dist
from adjoint.autograd import Function
from adjoint.distributed._reduce_op import ReduceOp, checked_op

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`, on all ranks."""
    result: Tensor = _Broadcast.apply(src, group, tensor)
    return result


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, on rank `dst`; zeros elsewhere."""
    result: tuple[Tensor, ...] = _Gather.apply(dst, group, tensor)
    return result


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Tensor i of the list of rank `src`, on rank i."""
    result: Tensor = _Scatter.apply(src, group, *tensors)
    return result


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum over ranks on rank `dst`; elsewhere the tensor itself."""
    result: Tensor = _Reduce.apply(dst, op, group, tensor)
    return result


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum (or another reduction) over ranks, on all of them."""
    result: Tensor = _AllReduce.apply(checked_op(op), group, tensor)
    return result


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, on all of them."""
    result: tuple[Tensor, ...] = _AllGather.apply(group, tensor)
    return result


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The sum over ranks of tensor i, on rank i; `output` says its shape."""
    result: Tensor = _ReduceScatter.apply(checked_op(op), group, output, *input_list)
    return result


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Tensor i of the result is what rank i had in its list for this rank."""
    result: tuple[Tensor, ...] = _AllToAll.apply(group, output_tensor_list, *input_tensor_list)
    return result


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Part i of the result is what rank i had in its input for this rank."""
    result: Tensor = _AllToAllSingle.apply(
        group, output, output_split_sizes, input_split_sizes, input
    )
    return result


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.clone()
        dist.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grads[0].contiguous())
        if dist.get_rank() != ctx.src:  # zero, but seen by a second backward, which all ranks run
            total = total.masked_fill(ad.ones(total.shape, dtype=ad.bool), 0)
        return None, None, total


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Tensor) -> Tensor:
        _require_sum(op, "reduce")
        ctx.dst, ctx.group = dst, group
        result = tensor.clone()
        dist.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grads[0].contiguous())


def _require_sum(op: Any, name: str) -> None:
    if checked_op(op) is not ReduceOp.SUM:
        raise NotImplementedError(f"the derivative of {name} by {op}; fix: ReduceOp.SUM")


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        parts = [ad.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        is_root = dist.get_rank() == dst
        dist.gather(tensor, parts if is_root else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *[g.contiguous() for g in grads])


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = ad.zeros_like(tensors[0])
        is_root = dist.get_rank() == src
        dist.scatter(result, list(tensors) if is_root else None, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grads[0].contiguous())


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        dist.all_reduce(result, op, group)
        if op not in (ReduceOp.SUM, ReduceOp.AVG):
            ctx.save_for_backward(tensor, result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.op in (ReduceOp.SUM, ReduceOp.AVG):
            return None, None, _AllReduce.apply(ctx.op, ctx.group, grads[0].contiguous())
        total = _AllReduce.apply(ReduceOp.SUM, ctx.group, grads[0].contiguous())
        tensor, result = ctx.saved_tensors
        if ctx.op in (ReduceOp.MIN, ReduceOp.MAX):
            # Equal values of several ranks share the gradient, as in `amax`.
            chosen = (tensor == result).to(tensor.dtype)
            count = chosen.clone()
            dist.all_reduce(count, ReduceOp.SUM, ctx.group)
            return None, None, total * chosen / count
        raise NotImplementedError(f"the derivative of all_reduce by {ctx.op}; fix: ReduceOp.SUM")


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [ad.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        own = ad.empty_like(grads[dist.get_rank(ctx.group)])
        parts = [g.contiguous() for g in grads]
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, own, *parts)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Tensor, *parts: Tensor) -> Tensor:
        if op not in (ReduceOp.SUM, ReduceOp.AVG):
            raise NotImplementedError(f"the derivative of reduce_scatter by {op}; fix: SUM")
        ctx.op, ctx.group = op, group
        result = ad.empty_like(output)
        dist.reduce_scatter(result, [p.contiguous() for p in parts], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        parts = _AllGather.apply(ctx.group, grads[0].contiguous())
        if ctx.op is ReduceOp.AVG:
            parts = tuple(part / dist.get_world_size(ctx.group) for part in parts)
        return None, None, None, *parts


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: list[Tensor], *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        ctx.like = [ad.empty_like(part) for part in parts]
        results = [ad.empty_like(part) for part in outputs]
        dist.all_to_all(results, [p.contiguous() for p in parts], group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.like, *[g.contiguous() for g in grads])


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, group: Any, output: Tensor, taken: Any, given: Any, tensor: Tensor
    ) -> Tensor:
        ctx.group, ctx.taken, ctx.given = group, taken, given
        ctx.like = ad.empty_like(tensor)
        result = ad.empty_like(output)
        dist.all_to_all_single(result, tensor.contiguous(), taken, given, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        back = _AllToAllSingle.apply(
            ctx.group, ctx.like, ctx.given, ctx.taken, grads[0].contiguous()
        )
        return None, None, None, None, back
