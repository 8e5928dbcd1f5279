"""Hooks for `DistributedDataParallel.register_comm_hook`: the mean, in fewer bits if wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import distributed as dist
from adjoint.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

_Hook = Callable[[Any, Any], Future[Tensor]]


def allreduce_hook(process_group: Any, bucket: Any) -> Future[Tensor]:
    """The mean over all ranks, as without a hook."""
    return _mean(process_group, bucket, bucket.buffer().dtype)


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future[Tensor]:
    """The mean, sent as float16."""
    return _mean(process_group, bucket, ad.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future[Tensor]:
    """The mean, sent as bfloat16."""
    return _mean(process_group, bucket, ad.bfloat16)


def fp16_compress_wrapper(hook: _Hook) -> _Hook:
    """Let a hook see its bucket as float16."""
    return _with_bits_of(hook, ad.float16)


def bf16_compress_wrapper(hook: _Hook) -> _Hook:
    """Let a hook see its bucket as bfloat16."""
    return _with_bits_of(hook, ad.bfloat16)


def _with_bits_of(hook: _Hook, dtype: Any) -> _Hook:
    def compressed(state: Any, bucket: Any) -> Future[Tensor]:
        whole: Tensor = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def take(done: Future[Any]) -> Tensor:
            found = done.value()
            mean: Tensor = found[0] if isinstance(found, list | tuple) else found
            return whole.copy_(mean)

        return hook(state, bucket).then(take)

    return compressed


def _mean(group: Any, bucket: Any, dtype: Any) -> Future[Tensor]:
    whole = bucket.buffer()
    sent = whole.to(dtype).div_(dist.get_world_size(group))
    work = dist.all_reduce(sent, group=group, async_op=True)
    assert work is not None
    take: Callable[[Any], Tensor] = lambda done: whole.copy_(done.value()[0])  # noqa: E731
    return work.get_future().then(take)
