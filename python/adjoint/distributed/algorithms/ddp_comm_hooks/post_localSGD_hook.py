"""Gradients that are averaged over all ranks at first, later over some of them or not at all."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint import distributed as dist
from adjoint.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from adjoint.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """For `post_localSGD_hook`: the groups, and the step from which on all ranks average no more.

    Parameters
    ----------
    process_group, subgroup : ProcessGroup or None
        Whose gradients are averaged at first, and later: all ranks by default.
    start_localSGD_iter : int
        How many steps average over `process_group`.
    post_local_gradient_allreduce : bool, default True
        Whether later ones average over `subgroup`; otherwise gradients stay this rank's.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: dist.GradBucket) -> Future[Tensor]:
    """The mean over all ranks, after some steps over a part of them; an averager does the rest."""
    if state.iter < state.start_localSGD_iter:
        state.iter += bucket.is_last()
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        own: Future[Tensor] = Future()
        own.set_result(bucket.buffer())
        return own
    if state.subgroup is None:
        state.subgroup, _ = dist.new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
