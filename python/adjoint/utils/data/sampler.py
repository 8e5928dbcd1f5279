"""Samplers: in which order, and in which batches, the samples of a dataset are read.

What is random is drawn as PyTorch draws it: one seed gives one order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import adjoint as ad
from adjoint import Tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """Base class: subclasses go through indices, or lists of them, in `__iter__`.

    A `__len__` is needed for the length of a `DataLoader` only.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """From the first sample to the last.

    Parameters
    ----------
    data_source : sized
        What is read.
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """In a random order, or with repetitions.

    Parameters
    ----------
    data_source : sized
        What is read.
    replacement : bool, default False
        Draw each sample anew from all.
    num_samples : int, optional
        How many; all by default.
    generator : Generator, optional
        What the order is drawn from; by default one with a seed from the global generator.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: ad.Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices there will be; the dataset may have grown."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = ad.Generator()
            generator.manual_seed(drawn_seed(None))
        if self.replacement:
            whole, rest = divmod(self.num_samples, 32)
            for size in itertools.chain(itertools.repeat(32, whole), [rest]):
                yield from ad.randint(n, (size,), dtype=ad.int64, generator=generator).tolist()
        else:
            for _ in range(self.num_samples // n):
                yield from ad.randperm(n, generator=generator).tolist()
            # Drawn even if nothing is left to read: the stream goes on as PyTorch's does.
            yield from ad.randperm(n, generator=generator).tolist()[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


def drawn_seed(generator: ad.Generator | None) -> int:
    """A seed for another generator."""
    return int(ad.empty((), dtype=ad.int64).random_(generator=generator).item())


class SubsetRandomSampler(Sampler[int]):
    """Some indices in a random order.

    Parameters
    ----------
    indices : sequence of int
        Which.
    generator : Generator, optional
        What the order is drawn from.
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: ad.Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in ad.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices with given probabilities.

    Parameters
    ----------
    weights : sequence of float
        Of each index; they need not add up to one.
    num_samples : int
        How many.
    replacement : bool, default True
        Whether an index may come again.
    generator : Generator, optional
        What they are drawn from.
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: ad.Generator | None = None,
    ) -> None:
        _check_count("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        given = ad.as_tensor(weights, dtype=ad.double)
        if given.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(given.shape)}"
            )
        self.weights = given
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = ad.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler in lists.

    Parameters
    ----------
    sampler : Sampler or iterable
        Where indices come from.
    batch_size : int
        How many go into a list.
    drop_last : bool
        Leave out the last list if it is shorter.
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        _check_count("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
