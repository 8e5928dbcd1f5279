"""`DistributedSampler`: each of several processes reads a part of a dataset."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index of an order that all processes have in common.

    Parameters
    ----------
    dataset : sized
        What is read.
    num_replicas : int, optional
        How many processes there are; by default those of `torch.distributed`.
    rank : int, optional
        Which of them this is.
    shuffle : bool, default True
        Whether the order is random; call `set_epoch` before each epoch for another one.
    seed : int, default 0
        The same in all processes.
    drop_last : bool, default False
        Leave out the last samples, rather than repeat the first, to give all processes as many.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = _distributed().get_world_size()
        if rank is None:
            rank = _distributed().get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        left = len(dataset) % num_replicas if drop_last else 0
        wanted = len(dataset) - num_replicas if left else len(dataset)
        self.num_samples = math.ceil(wanted / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            generator = ad.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = ad.randperm(size, generator=generator).tolist()
        else:
            indices = list(range(size))
        if len(indices) < self.total_size:  # from the beginning again
            indices = indices * math.ceil(self.total_size / len(indices))
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Take another order, the same in all processes."""
        self.epoch = epoch


def _distributed() -> Any:
    """`torch.distributed`, where a program has made it available."""
    module = sys.modules.get("adjoint.distributed")
    if module is None or not module.is_available():
        raise RuntimeError(
            "Requires distributed package to be available: give num_replicas and rank"
        )
    return module
