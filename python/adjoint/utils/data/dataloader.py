"""`DataLoader`: batches of a dataset, in an order that a sampler gives.

Read next: `_iterators.py`, then `_workers.py` for loading in other processes.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import adjoint as ad
from adjoint._utils import cpu_count
from adjoint.utils.data._iterators import _BaseDataLoaderIter as _BaseDataLoaderIter
from adjoint.utils.data._iterators import (
    _SingleProcessDataLoaderIter as _SingleProcessDataLoaderIter,
)
from adjoint.utils.data._utils.collate import default_collate as default_collate
from adjoint.utils.data._utils.collate import default_convert as default_convert
from adjoint.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from adjoint.utils.data._utils.worker import get_worker_info as get_worker_info
from adjoint.utils.data._workers import (
    _MultiProcessingDataLoaderIter as _MultiProcessingDataLoaderIter,
)
from adjoint.utils.data.dataset import Dataset, IterableDataset
from adjoint.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> Any:
        cls = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return cls(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """The indices of a dataset that has none."""

    def __iter__(self) -> Any:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, read in this process or in others.

    Parameters
    ----------
    dataset : Dataset
        Where samples come from.
    batch_size : int, optional, default 1
        How many samples a batch has; None for samples one by one.
    shuffle : bool, optional
        A random order, another one in each epoch.
    sampler : Sampler or iterable, optional
        The order of indices.
    batch_sampler : Sampler or iterable, optional
        Lists of indices, one for each batch.
    num_workers : int, default 0
        How many processes read; with 0, this one does.
    collate_fn : callable, optional
        A list of samples -> a batch; `default_collate` by default.
    pin_memory : bool, default False
        Accepted; there is no device that memory could be pinned for.
    drop_last : bool, default False
        Leave out the last batch if it is smaller.
    timeout : float, default 0
        Seconds to wait for a batch of a worker; 0 for any time.
    worker_init_fn : callable, optional
        Called in each worker with its number, after its generators have got their seeds.
    multiprocessing_context : str or context, optional
        How processes are started: "fork", "spawn", "forkserver".
    generator : Generator, optional
        What the order and the seed of the workers are drawn from.
    prefetch_factor : int, optional
        How many batches each worker reads ahead; 2 by default.
    persistent_workers : bool, default False
        Keep the workers from one epoch to the next.
    pin_memory_device : str
        Accepted.
    in_order : bool, default True
        Return batches in their order rather than as they come from the workers.

    Notes
    -----
    Tensors come from workers in shared memory. Worker i has the seed base_seed + i, with a
    base_seed drawn at the beginning of an epoch: `random`, NumPy and adjoint are seeded with it.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(ad.arange(5), ad.arange(5) ** 2)
    >>> for x, y in DataLoader(data, batch_size=2):
    ...     print(x.tolist(), y.tolist())
    [0, 1] [0, 1]
    [2, 3] [4, 9]
    [4] [16]
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    batch_sampler: Any
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: ad.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            _refuse_order(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            source: Any = dataset
            if iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(source, generator=generator)
            else:
                sampler = SequentialSampler(source)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        """How processes are started; None for the default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, multiprocessing_context: Any) -> None:
        self.__multiprocessing_context = _checked_context(multiprocessing_context, self.num_workers)

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(
                f"{attr} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def _fetcher(self, dataset: Any) -> Any:
        return _DatasetKind.create_fetcher(
            self._dataset_kind, dataset, self._auto_collation, self.collate_fn, self.drop_last
        )

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # Promised by the dataset: the iterator will tell if there are more.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn of more workers than processors."""
        if not self.num_workers:
            return
        usable = cpu_count()
        if usable is not None and self.num_workers <= usable:
            return
        if usable is None:
            advice = (
                "DataLoader is not able to compute a suggested max number of worker in current "
                "system."
            )
        else:
            seen = hasattr(os, "sched_getaffinity")
            advice = (
                f"Our suggested max number of worker in current system is {usable}"
                f"{'' if seen else ' (`cpuset` is not taken into account)'}, which is smaller than "
                "what this DataLoader is going to create."
            )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _refuse_order(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """An iterable dataset has the order it has."""
    start = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in (False, None):
        raise ValueError(f"{start} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{start} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{start} batch_sampler option, but got batch_sampler={batch_sampler}")


def _checked_context(context: Any, num_workers: int) -> Any:
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading "
            f"(num_workers > 0), but got num_workers={num_workers}"
        )
    if isinstance(context, str):
        valid = _multiprocessing.get_all_start_methods()
        if context not in valid:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{valid!r}, but got multiprocessing_context={context!r}"
            )
        context = _multiprocessing.get_context(context)
    if not isinstance(context, _multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context
