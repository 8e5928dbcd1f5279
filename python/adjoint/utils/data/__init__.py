"""Datasets, samplers, and loaders that read batches in this process or in others.

Read next: `dataloader.py`; `_workers.py` for what happens with several processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import NoReturn as _NoReturn

from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch
from adjoint.utils.data.dataloader import DataLoader as DataLoader
from adjoint.utils.data.dataloader import _DatasetKind as _DatasetKind
from adjoint.utils.data.dataloader import default_collate as default_collate
from adjoint.utils.data.dataloader import default_convert as default_convert
from adjoint.utils.data.dataloader import get_worker_info as get_worker_info
from adjoint.utils.data.dataset import ChainDataset as ChainDataset
from adjoint.utils.data.dataset import ConcatDataset as ConcatDataset
from adjoint.utils.data.dataset import Dataset as Dataset
from adjoint.utils.data.dataset import IterableDataset as IterableDataset
from adjoint.utils.data.dataset import StackDataset as StackDataset
from adjoint.utils.data.dataset import Subset as Subset
from adjoint.utils.data.dataset import TensorDataset as TensorDataset
from adjoint.utils.data.dataset import random_split as random_split
from adjoint.utils.data.distributed import DistributedSampler as DistributedSampler
from adjoint.utils.data.sampler import BatchSampler as BatchSampler
from adjoint.utils.data.sampler import RandomSampler as RandomSampler
from adjoint.utils.data.sampler import Sampler as Sampler
from adjoint.utils.data.sampler import SequentialSampler as SequentialSampler
from adjoint.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from adjoint.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)


_watch(__name__)
