"""`Join`: ranks whose data ends earlier take part in the others' operations until all are done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import distributed as dist

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a rank does after its own data has come to its end."""

    def main_hook(self) -> None:
        """Take part in one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what is due when all are done."""


class _Config(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable(ABC):
    """Something whose steps others can take part in."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _Config(False, False, False)

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank does that has no more data."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where tensors are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The ranks that take part."""


class Join:
    """A context in which ranks may have different numbers of steps.

    Parameters
    ----------
    joinables : list of Joinable
        Modules and optimisers whose operations are taken part in.
    enable : bool, default True
        False if all ranks have as many.
    throw_on_early_termination : bool, default False
        Raise on all ranks as soon as one has no more data.
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._enable = enable
        self._throw = throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._group = joinables[0].join_process_group

    def __enter__(self) -> None:
        for i, joinable in enumerate(self._joinables):
            joinable._join_config = _Config(self._enable, self._throw, i == 0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for joinable in self._joinables:
            joinable._join_config = _Config(False, False, False)
        if not self._enable or kind is not None:
            return
        is_last = True
        while self._others_active():
            is_last = False
            if self._throw:
                self._tell_end()
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _others_active(self) -> bool:
        active = ad.zeros(1)
        dist.all_reduce(active, group=self._group)
        return bool(active.item() > 0)

    def _tell_end(self) -> None:
        dist.all_reduce(ad.ones(1), group=self._group)
        raise RuntimeError(_ENDED)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Say that this rank has a step to do; to be called before its first operation."""
        config = joinable._join_config
        if not (config.enable and config.is_first_joinable):
            return None
        group = joinable.join_process_group
        work = dist.all_reduce(ad.ones(1), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = ad.zeros(1)
            dist.all_reduce(ended, group=group)
            if ended.item() > 0:
                raise RuntimeError(_ENDED)
        return work


_ENDED = "Detected at least one rank that exhausted inputs. Throwing across all ranks."
