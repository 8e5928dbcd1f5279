"""`torch.quasirandom`: points of Sobol's sequence, which fill a cube more evenly than random ones.

The direction numbers are those of S. Joe and F. Y. Kuo (2008), read from SciPy's copy of them.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._missing import watch as _watch

__all__ = ["SobolEngine"]


@lru_cache(maxsize=1)
def _table() -> tuple[Any, Any]:
    """The polynomials, and the first numbers that go with each."""
    import numpy as np

    scipy = find_spec("scipy")
    if scipy is None or scipy.origin is None:
        raise ImportError("SobolEngine reads SciPy's direction numbers\n  fix: pip install scipy")
    path = os.path.join(os.path.dirname(scipy.origin), "stats", "_sobol_direction_numbers.npz")
    with np.load(path) as table:
        return table["poly"].astype(np.int64), table["vinit"].astype(np.int64)


def _directions(dimension: int, bits: int) -> Tensor:
    """One row of direction numbers for each dimension, the first of them the largest."""
    import numpy as np

    polynomials, first = _table()
    rows = np.ones((dimension, bits), np.int64)
    for d in range(1, dimension):
        p = int(polynomials[d])
        degree = p.bit_length() - 1
        row = [int(v) for v in first[d, :degree]]
        for j in range(degree, bits):
            value = row[j - degree] ^ (row[j - degree] << degree)
            for k in range(1, degree):
                if (p >> (degree - k)) & 1:
                    value ^= row[j - k] << k
            row.append(value)
        rows[d] = row[:bits]
    rows <<= np.arange(bits - 1, -1, -1)
    made: Tensor = _core._from_buffer(rows)
    return made


class SobolEngine:
    """Draws points of the (scrambled) Sobol sequence in [0, 1)^d, the same as PyTorch's.

    Parameters
    ----------
    dimension : int
        The number of coordinates, up to 21201.
    scramble : bool
        Whether digits are permuted at random, which keeps the points' evenness.
    seed : int, optional
        For the scrambling.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.sobolstate = _directions(dimension, self.MAXBIT)
        self.shift: Tensor = _core.zeros(dimension, dtype=_core.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self) -> None:
        generator: Any = None
        if self.seed is not None:
            generator = _core.Generator()
            generator.manual_seed(self.seed)
        powers = 2 ** _core.arange(self.MAXBIT)
        size = (self.dimension, self.MAXBIT)
        self.shift = (_core.randint(2, size, generator=generator) * powers).sum(-1)
        lower = _core.randint(2, (*size, self.MAXBIT), generator=generator).tril()
        lower.diagonal(0, -2, -1).fill_(1)
        # Each number becomes the product of a matrix with its digits, the largest digit first.
        falling = powers.flip(0)
        digits = (self.sobolstate.unsqueeze(-1) // falling) % 2  # [dimension, number, digit]
        mixed = (digits.double() @ lower.double().mT).long() % 2
        self.sobolstate = (mixed * falling).sum(-1)

    def _point(self, numbers: Tensor) -> Tensor:
        """The points of these numbers in the sequence, as whole numbers, one a row."""
        gray = numbers ^ (numbers >> 1)
        points = self.shift.expand(numbers.numel(), -1).clone()
        for bit in range(max(int(numbers.max()).bit_length(), 1)):
            chosen = ((gray >> bit) & 1).unsqueeze(-1)
            points ^= chosen * self.sobolstate[:, bit]
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``n`` points, one a row."""
        dtype = _core.get_default_dtype() if dtype is None else dtype
        if n < 1:
            made: Tensor = _core.empty(0, self.dimension, dtype=dtype)
        else:
            start = self.num_generated
            points = self._point(_core.arange(start, start + n))
            self.quasi = points[-1].clone()
            made = points.to(dtype) * 2.0**-self.MAXBIT
        self.num_generated += n
        if out is None:
            return made
        return out.resize_as_(made).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2 ** m`` points; with those before, a power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begin again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out ``n`` points."""
        self.num_generated += n
        if self.num_generated > 0:
            self.quasi = self._point(_core.arange(self.num_generated - 1, self.num_generated))[
                0
            ].clone()
        return self

    def __repr__(self) -> str:
        shown = [f"dimension={self.dimension}"]
        if self.scramble:
            shown.append("scramble=True")
        if self.seed is not None:
            shown.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(shown)})"


_watch(__name__)
