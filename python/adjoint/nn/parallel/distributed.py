"""`DistributedDataParallel`: the same module in several processes, each with a part of the batch.

Read next: _reducer.py, how gradients are averaged while backward runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import adjoint as ad
from adjoint import Tensor, _tree
from adjoint import distributed as dist
from adjoint._tensor.device import require_cpu
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.sparse import Embedding, EmbeddingBag
from adjoint.nn.parallel._reducer import Reducer

__all__ = ["DistributedDataParallel"]

_DEFAULT_CAP_MB = 25


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over all ranks, while backward still runs.

    Parameters
    ----------
    module : Module
        The same on all ranks; they start with the parameters and buffers of rank 0.
    device_ids, output_device : optional
        Must be None, as for modules on CPUs in PyTorch.
    broadcast_buffers : bool, default True
        Give all ranks the buffers of rank 0 before each forward.
    init_sync : bool, default True
        Compare the ranks' parameters and take those of rank 0.
    process_group : ProcessGroup, optional
        The ranks; all by default.
    bucket_cap_mb : float, default 25
        How many megabytes of gradients are reduced together.
    find_unused_parameters : bool, default False
        Look in each step for parameters that the outputs do not depend on.
    gradient_as_bucket_view : bool, default False
        Let gradients be views of what was reduced, which saves a copy.
    static_graph : bool, default False
        Accepted: parameters that are not used are looked for.

    Examples
    --------
    In a script that ``adjoint launch -n 4 script.py`` runs::

        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
        loss(model(inputs), targets).backward()  # gradients are the mean over ranks
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        Module.__init__(self)
        Joinable.__init__(self)
        _refuse_devices(device_ids, output_device)
        _refuse(delay_all_reduce_named_params, "delay_all_reduce_named_params")
        _refuse(mixed_precision, "mixed_precision")
        _refuse(device_mesh, "device_mesh")
        self.module = module
        self.process_group = dist.group.WORLD if process_group is None else process_group
        if self.process_group is None:
            dist.get_rank()  # raises: there is no group
        self.device = ad.device("cpu")
        self.device_ids = None
        self.output_device = None
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        cap = _DEFAULT_CAP_MB if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap = int(cap * 1024 * 1024)
        if init_sync:
            names, parameters, _ = self._trained()
            self._compare_parameters(names, parameters)
            self._synchronize(0, [*self._states()])
        self._begin_reducing()

    def _begin_reducing(self) -> None:
        names, parameters, sparse = self._trained()
        self.reducer = Reducer(
            parameters,
            names,
            sparse,
            self.process_group,
            self.bucket_bytes_cap,
            self.find_unused_parameters,
            self.gradient_as_bucket_view,
        )

    def _trained(self) -> tuple[list[str], list[Tensor], list[bool]]:
        """Names and parameters that get gradients, and whether those are sparse."""
        found: dict[int, tuple[str, Tensor, bool]] = {}
        for place, part in self.module.named_modules():
            is_sparse = isinstance(part, Embedding | EmbeddingBag) and part.sparse
            for name, p in part.named_parameters(recurse=False):
                whole = f"{place}.{name}" if place else name
                if p.requires_grad and whole not in self.parameters_to_ignore:
                    found.setdefault(id(p), (whole, p, is_sparse))
        if not found:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        names, parameters, sparse = zip(*found.values(), strict=True)
        return list(names), list(parameters), list(sparse)

    def _states(self) -> Iterator[Tensor]:
        """Parameters and buffers that all ranks have in common."""
        for name, p in self.module.named_parameters():
            if name not in self.parameters_to_ignore:
                yield p
        yield from self._shared_buffers()

    def _shared_buffers(self) -> Iterator[Tensor]:
        for name, buffer in self.module.named_buffers():
            if name not in self.parameters_to_ignore:
                yield buffer

    def _compare_parameters(self, names: list[str], parameters: list[Tensor]) -> None:
        own = [(n, tuple(p.shape), str(p.dtype)) for n, p in zip(names, parameters, strict=True)]
        every: list[Any] = [None] * dist.get_world_size(self.process_group)
        dist.all_gather_object(every, own, self.process_group)
        for rank, theirs in enumerate(every):
            if theirs != every[0]:
                different = [a for a, b in zip(theirs, every[0], strict=False) if a != b]
                what = different[0] if different else f"{len(theirs)} and {len(every[0])} of them"
                raise RuntimeError(
                    f"DDP expects same model across all ranks: parameters of rank {rank} and rank "
                    f"0 differ: {what}"
                )

    def _synchronize(self, source: int, tensors: Sequence[Tensor]) -> None:
        """Give all ranks the values of one, a row of memory per dtype at a time."""
        by_dtype: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
        with ad.no_grad():
            for same in by_dtype.values():
                flat = ad.cat([t.reshape(-1) for t in same])
                dist.broadcast(flat, group=self.process_group, group_src=source)
                parts = flat.split([t.numel() for t in same])
                for tensor, part in zip(same, parts, strict=True):
                    tensor.copy_(part.view(tensor.shape))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module returns; the backward pass from there averages gradients."""
        recorded = ad.is_grad_enabled() and self.require_backward_grad_sync
        if recorded:
            self.reducer.prepare_forward()
        if self._join_config.enable:
            self._tell_joined(recorded)
        if self._will_sync_buffers():
            self._synchronize(self._buffer_source(), [*self._shared_buffers()])
        output = self.module(*inputs, **kwargs)
        if recorded:
            self.reducer.expect(t for t in _tensors(output) if t.requires_grad)
        # One exchange of buffers for each step, whoever evaluates in between: rank 0 may do that
        # alone, since the others have its buffers with the first forward of the next step.
        self.require_forward_param_sync = recorded
        return output

    def _will_sync_buffers(self) -> bool:
        has_any = next(self._shared_buffers(), None) is not None
        return self.require_forward_param_sync and self.broadcast_buffers and has_any

    def _buffer_source(self) -> int:
        """Rank 0; among ranks of which some have no more data, the last that has."""
        if not self._join_config.enable:
            return 0
        return self._last_active(True)

    def _last_active(self, active: bool) -> int:
        rank = ad.tensor([dist.get_rank(self.process_group) if active else -1])
        dist.all_reduce(rank, dist.ReduceOp.MAX, self.process_group)
        return int(rank)

    def _tell_joined(self, recorded: bool) -> None:
        """Say to ranks without data what this step will do."""
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        step = ad.tensor([recorded, self._will_sync_buffers()], dtype=ad.int32)
        dist.all_reduce(step, dist.ReduceOp.MAX, self.process_group)
        if not self.reducer_divides_by_all:
            active = ad.ones(1)
            dist.all_reduce(active, group=self.process_group)
            self.reducer.divisor = int(active.item())

    reducer_divides_by_all = True

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let gradients add up without an exchange; the next step outside averages the sum."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context in which ranks may have different numbers of batches.

        Those without data take part in the others' reductions with zeros. Sums are divided by the
        number of all ranks, or of those that have data.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has no more data."""
        self.reducer_divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The ranks."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Callable[[Any, dist.GradBucket], Any]) -> None:
        """Let a function average gradients: ``hook(state, bucket)`` returns a future of them."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _set_static_graph(self) -> None:
        self.static_graph = True

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, which have buckets of their own, and no communication hook."""
        if self.process_group is not dist.group.WORLD:
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group\n  fix: copy or save what it contains: .module, or .state_dict()"
            )
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "reducer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        dist.get_rank()  # raises where there is no group
        self.process_group = dist.group.WORLD
        super().__setstate__(state)
        self._begin_reducing()


class _JoinHook(JoinHook):
    """Takes part in the steps of ranks that still have data."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = ddp
        self._own: list[Tensor | None] | None = None  # gradients of this rank's last step
        ddp.reducer.divisor = dist.get_world_size(ddp.process_group)

    def main_hook(self) -> None:
        """One step: buffers and gradients, as the others' forward and backward have them."""
        ddp = self._ddp
        group = ddp.process_group
        step = ad.zeros(2, dtype=ad.int32)
        dist.all_reduce(step, dist.ReduceOp.MAX, group)
        recorded, buffers = step.tolist()
        if not ddp.reducer_divides_by_all:
            dist.all_reduce(ad.zeros(1), group=group)
        if buffers:
            ddp._synchronize(ddp._last_active(False), [*ddp._shared_buffers()])
        if recorded:
            if self._own is None:
                self._own = ddp.reducer.gradients
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the parameters and buffers of a rank that was there to the end."""
        ddp = self._ddp
        ddp._synchronize(ddp._last_active(is_last_joiner), [*ddp._states()])
        if self._own is not None:
            ddp.reducer.gradients = self._own
        ddp.reducer.divisor = dist.get_world_size(ddp.process_group)


def _refuse_devices(device_ids: Sequence[Any] | None, output_device: Any) -> None:
    for place in (*(device_ids or ()), output_device):
        require_cpu(place)
    if device_ids:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            f"single-device/multiple-device GPU modules or CPU modules, but got device_ids "
            f"{list(device_ids)}; fix: leave them out"
        )


def _refuse(value: Any, name: str) -> None:
    if value is not None:
        raise NotImplementedError(
            f"DistributedDataParallel: {name} is not there; fix: leave it out"
        )


def _tensors(output: Any) -> Iterator[Tensor]:
    for leaf in _tree.flatten(output)[0]:
        if isinstance(leaf, Tensor):
            yield leaf
