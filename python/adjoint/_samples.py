"""Solvers under `vmap`: one loop for all samples.

A solver's own arithmetic runs on tensors that stand for one sample each, as the user's function
does; only questions that steer it (are all of them done?) look at the whole batch. Programs of
others, such as SciPy's, are handed the samples side by side as one larger problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor

__all__ = [
    "Arrays",
    "Batch",
    "all_of",
    "any_of",
    "batch_of",
    "everywhere",
    "failing",
    "has_tangent",
    "is_batched",
    "largest",
    "largest_of",
    "largest_value",
    "must_hold",
    "somewhere",
]


class _Level(NamedTuple):
    level: int
    size: int


def _whole(t: Tensor) -> Tensor:
    """All samples: the axes of the levels in front."""
    while level := _core._batch_level((t,)):
        t = _core._take_off(t, level, _core._size_at(t, level))
    return t


def is_batched(*tensors: Tensor) -> bool:
    """Whether any of them stands for samples of a batch."""
    return _core._batch_level(tensors) > 0


def has_tangent(*tensors: Tensor) -> bool:
    """Whether any of them has a tangent, by itself or in its samples."""
    return any(_core._has_tangent(_whole(t)) for t in tensors)


def everywhere(condition: Tensor) -> bool:
    """Whether it is true of every sample and element."""
    return bool(_whole(condition).all())


def somewhere(condition: Tensor) -> bool:
    """Whether it is true of some sample or element."""
    return bool(_whole(condition).any())


def all_of(condition: Tensor) -> Tensor:
    """Whether it is true of every sample and element, as a tensor."""
    return _whole(condition).all()


def any_of(condition: Tensor) -> Tensor:
    """Whether it is true of some sample or element, as a tensor."""
    return _whole(condition).any()


def must_hold(condition: Tensor, error: Callable[..., Exception], *about: Tensor) -> None:
    """Raise ``error(condition, *about)`` unless it is true of every sample and element.

    Inside a recording a program asks again in each of its runs. The tensors that the error is about
    are those of all samples.
    """

    def check(tensors: Sequence[Tensor]) -> list[Tensor]:
        if not bool(tensors[0].all()):
            raise error(*tensors)
        return []

    whole = [_whole(t.detach()) for t in (condition, *about)]
    if _core._is_recording():
        _core._host_call(check, whole)
    else:
        check(whole)


class Batch:
    """The levels of `vmap` that some tensors are batched at, from the innermost."""

    def __init__(self, levels: list[_Level]) -> None:
        self.levels = levels

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the axes in front, from the outermost."""
        return tuple(level.size for level in reversed(self.levels))

    def whole(self, t: Tensor) -> Tensor:
        """All samples, also of a tensor that is the same for each of them."""
        for level, size in self.levels:
            t = _core._take_off(t, level, size)
        return t

    def each(self, t: Tensor) -> Tensor:
        """The sample: undoes `whole`."""
        for level, _ in reversed(self.levels):
            t = _core._put_on(t, level)
        return t


class Arrays:
    """NumPy's side of a problem: the vectors of all samples as one."""

    def __init__(self, batch: Batch, dtype: Any) -> None:
        self._batch, self._dtype = batch, dtype
        self._is_plain = not batch.levels and dtype == ad.float64
        self.samples = int(np.prod(batch.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the samples; empty where there is but one problem."""
        return self._batch.shape

    def each(self, array: Any) -> Tensor:
        """The vector of a sample."""
        made = np.array(array, dtype=float)
        if self._is_plain and made.ndim == 1:
            return _core._from_buffer(made)
        given = ad.from_numpy(made)
        return self._batch.each(given.reshape(*self._batch.shape, -1).to(self._dtype))

    def whole(self, t: Tensor) -> Any:
        """An array with the axes of the samples in front."""
        if self._is_plain and t.dtype is ad.float64:
            return t.detach().numpy()
        return self._batch.whole(t.detach()).double().numpy()

    def flat(self, t: Tensor) -> Any:
        """One vector."""
        return self.whole(t).ravel()

    def blocks(self, t: Tensor) -> Any:
        """The matrices of all samples along the diagonal of one, which its user may change."""
        made = self.diagonal(self.rows(t))
        return made.copy() if self.samples == 1 else made

    def rows(self, t: Tensor) -> Any:
        """The matrices of all samples, one after the other."""
        return self.whole(t).reshape(self.samples, *t.shape)

    def diagonal(self, blocks: Any) -> Any:
        """Matrices along the diagonal of one; a single one as it is."""
        _, m, n = blocks.shape
        if self.samples == 1:
            return blocks[0]
        full = np.zeros((self.samples, m, self.samples, n))
        full[range(self.samples), :, range(self.samples)] = blocks
        return full.reshape(self.samples * m, self.samples * n)


def batch_of(*tensors: Tensor) -> Batch:
    """The levels that any of the tensors is batched at."""
    levels: list[_Level] = []
    while level := _core._batch_level(tensors):
        size = max(_core._size_at(t, level) for t in tensors)
        levels.append(_Level(level, size))
        tensors = tuple(_core._take_off(t, level, size) for t in tensors)
    return Batch(levels)


def failing(r: Tensor) -> str:
    """How many samples have a residual that is not zero, and the largest of them."""
    sizes = _whole(r).abs().amax(-1).flatten()
    return (
        f"the residuals of the {sizes.numel()} samples of vmap are up to {float(sizes.max()):.3g}"
    )


def largest(t: Tensor) -> str:
    """The largest magnitude among all samples and elements, as text."""
    return f"{float(_whole(t.detach()).abs().max()):.4g}"


def largest_value(t: Tensor) -> float:
    """The largest among all samples; NaN if there is one."""
    return float(_whole(t.detach()).max())


def largest_of(t: Tensor) -> Tensor:
    """The same as a tensor without axes, which is that of all samples."""
    whole = _whole(t)
    return whole.max() if whole.ndim else whole
