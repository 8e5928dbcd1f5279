"""Reduces gradients while backward still runs, for `DistributedDataParallel`.

A hook per parameter counts; a bucket whose gradients are all there is handed to MPI's thread, in
the order of buckets on all ranks, and backward goes on. At the end of the pass they are awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint import distributed as dist
from adjoint.nn.parallel._buckets import Bucket, buckets_of, reduce_sparse

__all__ = ["Reducer"]


class Reducer:
    """The gradients of some parameters, averaged over the ranks of a group."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        sparse: Sequence[bool],
        group: Any,
        cap_bytes: int,
        find_unused: bool,
        as_views: bool,
    ) -> None:
        self._parameters = list(parameters)
        self._names = list(names)
        self._group = group
        self._find_unused = find_unused
        self._as_views = as_views
        self.buckets = buckets_of(parameters, sparse, cap_bytes)
        self._bucket_of = {id(p): b for b in self.buckets for p in b.parameters}
        self._used: dict[int, bool] = {}
        self._usage: Tensor | None = None
        self._usage_work: Any = None
        self._expecting = False
        self._began = False  # a hook of this pass has run
        self._next = 0  # the bucket that is reduced next
        self._ready: set[int] = set()
        self.hook: Callable[[Any, dist.GradBucket], Any] | None = None
        self.hook_state: Any = None
        self.divisor = dist.get_world_size(group)
        # A hook must not keep the module alive that it belongs to.
        for p in self._parameters:
            p.register_post_accumulate_grad_hook(self._arrive)

    # --- before backward --------------------------------------------------------------------------

    def prepare_forward(self) -> None:
        """Refuse a step before the last one's gradients have been reduced."""
        if not self._expecting or not self._began:
            return
        missing = [
            n
            for p, n in zip(self._parameters, self._names, strict=True)
            if id(p) not in self._ready
        ]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. "
            f"These parameters got no gradient: {', '.join(missing[:10])}"
            f"{' and others' if len(missing) > 10 else ''}.\n  fix: let the loss depend on all "
            "outputs of forward, or pass find_unused_parameters=True to DistributedDataParallel"
        )

    def expect(self, outputs: Iterable[Tensor]) -> None:
        """Begin a pass: hooks are about to run for the parameters that lead to the outputs."""
        self._expecting = True
        _core._accumulate_early(True)  # hooks run as soon as they can, not all of them at the end
        self._began = False
        self._next = 0
        self._ready.clear()
        for bucket in self.buckets:
            bucket.left = len(bucket.parameters)
            bucket.work = None
        if self._find_unused:
            reached = _leaves(outputs)
            self._used = {id(p): id(p) in reached for p in self._parameters}
            for p in self._parameters:
                if not self._used[id(p)]:
                    self._mark(p)

    def _mark(self, parameter: Tensor) -> None:
        if id(parameter) in self._ready:
            name = self._names[[id(p) for p in self._parameters].index(id(parameter))]
            raise RuntimeError(
                f"Expected to mark a variable ready only once: parameter {name} got two gradients "
                "in one pass.\n  fix: call forward once per backward, and use_reentrant=False for "
                "checkpoints"
            )
        self._ready.add(id(parameter))
        self._bucket_of[id(parameter)].left -= 1

    # --- during backward --------------------------------------------------------------------------

    def _arrive(self, parameter: Tensor) -> None:
        if not self._expecting:
            return
        if not self._began:
            self._began = True
            ad.autograd.Variable._execution_engine.queue_callback(self._finish)
        self._mark(parameter)
        self._launch_ready()

    def _launch_ready(self) -> None:
        while self._next < len(self.buckets) and self.buckets[self._next].left == 0:
            self._launch(self.buckets[self._next])
            self._next += 1

    def _launch(self, bucket: Bucket) -> None:
        if bucket.sparse:
            bucket.work = ()  # entries are exchanged when their turn to be awaited comes
            return
        with ad.no_grad():
            factor = 1.0 if self.hook is not None else 1 / self.divisor
            flat = bucket.collect(self._as_views, factor)
            if self.hook is None:
                bucket.work = (dist.all_reduce(flat, group=self._group, async_op=True), flat)
            else:
                last = bucket.index == len(self.buckets) - 1
                given = dist.GradBucket(bucket, flat, last)
                bucket.work = (self.hook(self.hook_state, given), None)

    # --- at its end -------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._find_unused:
            self._launch_ready()
        if self._next < len(self.buckets):
            return  # parameters without a gradient: the next forward says which
        used = self._used_anywhere()
        with ad.no_grad():
            for bucket in self.buckets:
                self._await(bucket, [used.get(id(p), True) for p in bucket.parameters])
        self._expecting = False
        _core._accumulate_early(False)

    def _used_anywhere(self) -> dict[int, bool]:
        if not self._find_unused:
            return {}
        usage = ad.tensor([self._used[id(p)] for p in self._parameters])
        dist.all_reduce(usage, group=self._group)
        return {id(p): u for p, u in zip(self._parameters, usage.tolist(), strict=True)}

    def _await(self, bucket: Bucket, used: list[bool]) -> None:
        if bucket.sparse:
            p = bucket.parameters[0]
            if used[0]:
                p.grad = reduce_sparse(p.grad, p, 1 / self.divisor, self._group)
            return
        work, flat = bucket.work
        bucket.work = None
        if flat is None:
            result = work.wait()
            flat = result[0] if isinstance(result, list | tuple) else result
        else:
            work.wait()
        bucket.give_back(flat, self._as_views, used)

    # --- for ranks whose data has come to its end -------------------------------------------------

    @property
    def gradients(self) -> list[Tensor | None]:
        """Those of all parameters; a bucket's own memory is about to change."""
        return [
            p.grad.clone() if self._as_views and p.grad is not None else p.grad
            for p in self._parameters
        ]

    @gradients.setter
    def gradients(self, given: Sequence[Tensor | None]) -> None:
        for p, grad in zip(self._parameters, given, strict=True):
            p.grad = grad

    def shadow(self) -> None:
        """Take part in a pass of the others, with gradients of zero.

        The mean of all ranks is in ``grad`` then: a ZeroRedundancyOptimizer steps this rank's part
        of the parameters by it. (PyTorch's steps by the gradients of the rank's last batch.)
        """
        for p in self._parameters:
            p.grad = None
        self.expect(())
        self._ready = {id(p) for p in self._parameters}
        self._used = dict.fromkeys(self._ready, False)
        for bucket in self.buckets:
            bucket.left = 0
        self._launch_ready()
        self._finish()


def _leaves(outputs: Iterable[Tensor]) -> set[int]:
    """Which tensors a backward pass from the outputs brings gradients."""
    found: set[int] = set()
    seen: set[Any] = set()
    waiting: list[Any] = []
    for output in outputs:
        if output.grad_fn is None:
            found.add(id(output))
        else:
            waiting.append(output.grad_fn)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        waiting.extend(following for following, _ in node.next_functions)
    return found
