"""Arrays of any shape and float dtype as vectors of real coordinates.

A Jacobian is a matrix between two vectors: the coordinates of all inputs that a derivative is asked
for, one after the other, and those of all differentiable outputs. A complex number is two
coordinates; a gradient in PyTorch's convention is then the real gradient of the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Coordinates", "real_dtype"]


def real_dtype(dtype: Any) -> Any:
    """The dtype of the real and imaginary parts of ``dtype``."""
    return np.empty(0, dtype).real.dtype


class Coordinates:
    """Where the coordinates of some arrays stand in one vector."""

    __slots__ = ("dtypes", "names", "offsets", "shapes", "size", "sizes")

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any], names: Sequence[str]
    ) -> None:
        self.shapes, self.dtypes, self.names = list(shapes), list(dtypes), list(names)
        self.sizes = [
            int(np.prod(shape)) * (2 if dtype.kind == "c" else 1)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]
        self.offsets = [0, *np.cumsum(self.sizes).tolist()]
        self.size = self.offsets[-1]

    @classmethod
    def of(cls, arrays: Sequence[Any], names: Sequence[str]) -> Coordinates:
        """Those of some arrays, or numbers."""
        return cls([np.shape(a) for a in arrays], [np.asarray(a).dtype for a in arrays], names)

    def part(self, k: int) -> slice:
        """The coordinates of array ``k``."""
        return slice(self.offsets[k], self.offsets[k + 1])

    def owner(self, index: int) -> int:
        """The array that coordinate ``index`` belongs to."""
        return int(np.searchsorted(self.offsets, index, side="right")) - 1

    def by_name(self, option: Any, roots: Sequence[str]) -> list[Any]:
        """An option's value for each array: one for all, or a dict by path or by argument."""
        if not isinstance(option, dict):
            return [option] * len(self.names)
        found: list[Any] = []
        for name in self.names:
            whole = (r for r in roots if name == r or name[: len(r) + 1] in (r + ".", r + "["))
            found.append(option.get(name, option.get(next(whole, ""))))
        return found

    def spread(self, k: int, value: Any) -> Any:
        """A number for each element of array ``k``, or for all, as one for each coordinate."""
        filled = np.broadcast_to(np.asarray(value, float), self.shapes[k])
        return np.repeat(filled.reshape(-1), 2 if self.dtypes[k].kind == "c" else 1)

    def join(self, vectors: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """One vector from those of the arrays."""
        return np.concatenate(vectors) if vectors else np.zeros(0)

    def pack(self, arrays: Sequence[Any]) -> Any:
        """The vector of some arrays in double precision; None stands for zeros."""
        vector = np.zeros(self.size)
        for k, array in enumerate(arrays):
            if array is not None:
                vector[self.part(k)] = self.flat(k, array)
        return vector

    def flat(self, k: int, array: Any) -> Any:
        """The coordinates of one array."""
        array = np.asarray(array)
        if self.dtypes[k].kind == "c":
            wide = np.ascontiguousarray(array, np.result_type(array.dtype, np.complex64))
            return wide.reshape(-1).view(real_dtype(wide.dtype))
        return (array.real if array.dtype.kind == "c" else array).reshape(-1)

    def unpack(self, vector: Any) -> list[Any]:
        """Arrays of the right shapes and dtypes from a vector."""
        return [self.array(k, vector[self.part(k)]) for k in range(len(self.shapes))]

    def array(self, k: int, part: Any) -> Any:
        """Array ``k`` from its coordinates."""
        dtype = self.dtypes[k]
        if dtype.kind == "c":
            part = np.ascontiguousarray(part, real_dtype(dtype)).view(dtype)
        return np.asarray(part).astype(dtype, copy=False).reshape(self.shapes[k])

    def label(self, index: int) -> str:
        """A coordinate as a place in the arguments: ``params.k[3]``."""
        k = self.owner(index)
        inside, suffix = index - self.offsets[k], ""
        if self.dtypes[k].kind == "c":
            inside, part = divmod(inside, 2)
            suffix = (".real", ".imag")[part]
        if not self.shapes[k]:
            return self.names[k] + suffix
        where = np.unravel_index(inside, self.shapes[k])
        return f"{self.names[k]}[{', '.join(str(int(i)) for i in where)}]{suffix}"
