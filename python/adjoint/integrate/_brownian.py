"""Brownian paths that do not depend on who asks for them, nor in which order.

The value at a time comes from a Brownian bridge that halves the interval again and again. The
number drawn at each middle is a function of the seed and of the place, so a path is the same
whatever the steps are, is not stored, and is drawn by operations alone: inside `vmap` and programs
too.
"""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._progress import CallsBar

__all__ = ["BrownianPath"]

_LOW = 0xFFFFFFFF
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA


class BrownianPath:
    """Independent Brownian motions between two times, by a seed.

    Parameters
    ----------
    t0, t1
        The interval; the path is zero at ``t0``.
    shape
        That of its values.
    seed
        An integer, or a tensor of one: another one for each sample of a `adjoint.func.vmap`.
    levels
        How often the interval is halved: times that are nearer to each other than ``2**-levels``
        of it have a straight line between them.

    Examples
    --------
    >>> import adjoint as ad
    >>> path = ad.integrate.BrownianPath(0.0, 1.0, seed=7)
    >>> one = path(0.25)
    >>> bool(path(ad.tensor([0.1, 0.25]))[1] == one)
    True
    """

    def __init__(
        self,
        t0: float,
        t1: float,
        shape: Any = (),
        seed: Any = 0,
        dtype: Any = None,
        levels: int = 24,
    ) -> None:
        self.t0, self.t1, self.shape = float(t0), float(t1), tuple(shape)
        if not self.t1 > self.t0:
            raise ValueError(f"BrownianPath(): the interval from {t0:g} to {t1:g} has no length")
        if not 1 <= levels <= 30:
            raise ValueError(f"BrownianPath(): levels is {levels}; it is between 1 and 30")
        self.levels, self.dtype = levels, ad.float64 if dtype is None else dtype
        self._seed = ad.as_tensor(seed, dtype=ad.int64)

    @property
    def resolution(self) -> float:
        """The shortest distance of times that are told apart."""
        return (self.t1 - self.t0) * 0.5**self.levels

    def __call__(self, t: Any) -> Tensor:
        """The values at times: their axes, then those of the path's shape."""
        return self._values(ad.as_tensor(t, dtype=self.dtype).detach(), self.levels)

    def at(self, times: list[float]) -> Tensor:
        """The values at times that are numbers, of which as few middles are drawn as can be."""
        span = self.t1 - self.t0
        depth = 0
        while depth < self.levels and not all(
            ((t - self.t0) / span * 2**depth).is_integer() for t in times
        ):
            depth += 1
        return self._values(ad.tensor(times, dtype=self.dtype), depth)

    def _values(self, times: Tensor, levels: int) -> Tensor:
        flat = ((times - self.t0) / (self.t1 - self.t0)).reshape(-1, 1)
        count = math.prod(self.shape)
        place = ad.arange(count)[None, :]
        node = ad.zeros(flat.shape, dtype=ad.int64)
        left = ad.zeros((flat.shape[0], count), dtype=self.dtype)
        right = self._normal(node, place).expand(flat.shape[0], count)
        with CallsBar("a Brownian path", levels) as bar:
            left, right, index = self._halved(flat, place, left, right, levels, bar)
        share = flat * 2.0**levels - index.to(self.dtype)
        values = (left + share * (right - left)) * math.sqrt(self.t1 - self.t0)
        return values.reshape((*times.shape, *self.shape))

    def _halved(
        self, flat: Tensor, place: Tensor, left: Tensor, right: Tensor, levels: int, bar: CallsBar
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The values at the ends of the smallest intervals that hold times, and their numbers."""
        index = ad.zeros(flat.shape, dtype=ad.int64)
        for level in range(levels):
            width = 0.5**level
            step = 0.5 * math.sqrt(width) * self._normal(2**level + index, place)
            middle = 0.5 * (left + right) + step
            later = flat >= (index.to(self.dtype) + 0.5) * width
            left, right = ad.where(later, middle, left), ad.where(later, right, middle)
            index = 2 * index + later.to(ad.int64)
            index = index.clamp(max=2 ** (level + 1) - 1)
            bar.count()
        return left, right, index

    def _normal(self, node: Tensor, place: Tensor) -> Tensor:
        """A normal number by the places of a middle and of an element."""
        low, high = _threefry(self._seed, node, place)
        # 53 bits of both words, in the middle of their interval.
        bits = low * 2**21 + (high >> 11)
        uniform = (bits.to(ad.float64) + 0.5) / 2**53
        return (math.sqrt(2) * ad.erfinv(2 * uniform - 1)).to(self.dtype)


def _threefry(seed: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two words of 32 bits by a key and two words: Threefry of 20 rounds (Salmon and others)."""
    keys = [seed & _LOW, (seed >> 32) & _LOW]
    keys.append(keys[0] ^ keys[1] ^ _PARITY)
    a, b = (a + keys[0]) & _LOW, (b + keys[1]) & _LOW
    for k in range(20):
        a = (a + b) & _LOW
        turn = _ROTATIONS[k % 8]
        b = (((b << turn) & _LOW) | (b >> (32 - turn))) ^ a
        if k % 4 == 3:
            n = k // 4 + 1
            a = (a + keys[n % 3]) & _LOW
            b = (b + keys[(n + 1) % 3] + n) & _LOW
    return a, b
