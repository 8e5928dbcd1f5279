"""`ZeroRedundancyOptimizer`: each rank keeps the state of some parameters, and steps those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import distributed as dist
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook
from adjoint.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimiser whose state is split over ranks: each steps its parameters and sends them.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, the same on all ranks.
    optimizer_class : type
        The optimiser that steps a rank's own parameters.
    process_group : ProcessGroup, optional
        The ranks; all by default.
    parameters_as_bucket_view : bool, default False
        Accepted; parameters are sent a row of memory per rank at a time in any case.
    overlap_with_ddp : bool, default False
        Must be False.
    **defaults
        Options of the optimiser.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("overlap_with_ddp is not there; fix: leave it out")
        Joinable.__init__(self)
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.rank = dist.get_rank(self.process_group)
        self.world_size = dist.get_world_size(self.process_group)
        self._class = optimizer_class
        self._options = defaults
        self._whole: dict[str, Any] | None = None
        self._owner: dict[int, int] = {}
        self._loads = [0] * self.world_size
        self.optim: Optimizer | None = None
        Optimizer.__init__(self, params, dict(defaults))
        own = [self._own_part(group) for group in self.param_groups]
        self.optim = optimizer_class(own, **defaults)
        # The optimiser's defaults are options of our groups too: schedulers change them there.
        for group, local in zip(self.param_groups, self.optim.param_groups, strict=True):
            for name, value in local.items():
                group.setdefault(name, value)
        self.defaults = {**self.optim.defaults, **self.defaults}
        self.initialize()

    def initialize(self) -> None:
        """Begin: for subclasses."""

    def _own_part(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group with this rank's parameters; the largest first, each to who has least."""
        for p in sorted(group["params"], key=lambda p: -p.numel()):
            owner = self._loads.index(min(self._loads))
            self._owner[id(p)] = owner
            self._loads[owner] += p.numel()
        own = [p for p in group["params"] if self._owner[id(p)] == self.rank]
        return {**group, "params": own}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, which are given to ranks."""
        Optimizer.add_param_group(self, param_group)
        if self.optim is not None:
            self.optim.add_param_group(self._own_part(self.param_groups[-1]))

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step this rank's parameters, then give them to the others and take theirs."""
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        assert self.optim is not None
        self._copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure, **kwargs)
        self._copy_options(self.optim.param_groups, self.param_groups)
        self._whole = None
        self._exchange()
        return loss

    @staticmethod
    def _copy_options(source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for given, group in zip(source, target, strict=True):
            group.update({name: value for name, value in given.items() if name != "params"})

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _exchange(self) -> None:
        """Send what this rank has stepped, and take what others have."""
        rows: dict[tuple[int, Any], list[Tensor]] = {}
        for p in self._parameters():
            rows.setdefault((self._owner[id(p)], p.dtype), []).append(p.detach())
        under_way = []
        with ad.no_grad():
            for (owner, _), parts in rows.items():
                flat = ad.cat([p.reshape(-1) for p in parts])
                work = dist.broadcast(
                    flat, group=self.process_group, group_src=owner, async_op=True
                )
                under_way.append((work, owner, flat, parts))
            for work, owner, flat, parts in under_way:
                assert work is not None
                work.wait()
                if owner != self.rank:
                    values = flat.split([p.numel() for p in parts])
                    ad._foreach_copy_(
                        parts, [v.view(p.shape) for p, v in zip(parts, values, strict=True)]
                    )

    def _indices(self) -> dict[int, int]:
        return {id(p): i for i, p in enumerate(self._parameters())}

    def _own_state(self) -> dict[int, Any]:
        """The state of this rank's parameters, by their numbers among all."""
        assert self.optim is not None
        numbers = self._indices()
        return {numbers[id(p)]: state for p, state in self.optim.state.items()}

    def _packed_groups(self) -> list[dict[str, Any]]:
        numbers = self._indices()
        return [
            {
                **{n: v for n, v in group.items() if n != "params"},
                "params": [numbers[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]

    def sharded_state_dict(self) -> dict[str, Any]:
        """The options and this rank's part of the state, for ``distributed.checkpoint.save``."""
        return {
            "state": self._own_state(),
            "param_groups": self._packed_groups(),
        }

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all ranks to one of them, which `state_dict` returns there."""
        parts: list[Any] | None = [None] * self.world_size if self.rank == to else None
        dist.gather_object(self._own_state(), parts, group=self.process_group, group_dst=to)
        if parts is not None:
            together = {number: state for part in parts for number, state in part.items()}
            state = {number: together[number] for number in sorted(together)}
            self._whole = {"state": state, "param_groups": self._packed_groups()}

    def state_dict(self) -> dict[str, Any]:
        """The whole state as the ordinary optimiser has it, after `consolidate_state_dict`."""
        if self._whole is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        return self._whole

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take this rank's part of a whole state, one of the ordinary optimiser's too."""
        assert self.optim is not None
        numbers = self._indices()
        states = {int(number): state for number, state in state_dict["state"].items()}
        own, groups, count = {}, [], 0
        for group, given in zip(self.optim.param_groups, state_dict["param_groups"], strict=True):
            places = []
            for p in group["params"]:
                if numbers[id(p)] in states:
                    own[count] = states[numbers[id(p)]]
                places.append(count)
                count += 1
            groups.append({**given, "params": places})
        self.optim.load_state_dict({"state": own, "param_groups": groups})
        self._copy_options(self.optim.param_groups, self.param_groups)
        self._whole = None

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has no more data: step with the others."""
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return ad.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The ranks."""
        return self.process_group


class _JoinHook(JoinHook):
    """Steps this rank's parameters although it has no more data of its own."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self._zero = zero

    def main_hook(self) -> None:
        """One step."""
        self._zero.step()
