"""How a sample input is described, drawn and handed to a library.

A sample is data: shapes and domains (`Arr`), constant arrays, dtypes (`D`) and plain Python values.
It is drawn by NumPy with a seed of its own, so it does not depend on the library under test, and
then turned into tensors of any library with PyTorch's names. The table itself is in `samples.py`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# The letters of an op's `dtypes`.
DTYPES = {
    "b": ("bool",),
    "i": ("uint8", "int8", "int16", "int32", "int64"),
    "h": ("float16", "bfloat16"),
    "f": ("float32", "float64"),
    "c": ("complex64", "complex128"),
}


@dataclass(frozen=True)
class Arr:
    """An array to draw: distinct values in (low, high), none within 0.05 of a point in `avoid`;
    `ordered` along the last axis, and NaN at the flat positions `nans` where the dtype has one.
    `diagonal` is added to that of matrices, so that they are far from singular.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    avoid: tuple[float, ...] = ()
    dtype: str | None = None  # None: the dtype under test
    ordered: bool = False
    nans: tuple[int, ...] = ()
    diagonal: float = 0.0

    def draw(self, dtype: str, rng: np.random.Generator) -> Array:
        values = self._values(self.dtype or dtype, rng)
        if self.diagonal:
            values = values + (self.diagonal * np.eye(self.shape[-2], self.shape[-1])).astype(
                values.dtype
            )
        if self.nans and values.dtype.kind in "fc":
            values.reshape(-1)[list(self.nans)] = np.nan
        return np.sort(values, axis=-1) if self.ordered else values

    def _values(self, dtype: str, rng: np.random.Generator) -> Array:
        if dtype == "bool":
            return np.asarray(rng.random(self.shape) < 0.5)
        if np.dtype(carrier(dtype)).kind in "iu":
            low = max(0, math.ceil(self.low)) if dtype == "uint8" else math.ceil(self.low)
            high = max(low, math.floor(self.high))
            whole = np.asarray(rng.integers(low, high + 1, self.shape))
            return np.where(np.isin(whole, self.avoid), 1, whole).astype(dtype)
        real = self._real(rng)
        values = real + 1j * self._real(rng) if dtype.startswith("complex") else real
        return round_to(values, dtype)

    def _real(self, rng: np.random.Generator) -> Array:
        count = math.prod(self.shape)
        # One value in each of `count` equal intervals: no ties, so max, sort and clamp have
        # gradients.
        places = (rng.permutation(count) + rng.uniform(0.25, 0.75, count)) / max(count, 1)
        values = self.low + (self.high - self.low) * places
        for point in self.avoid:
            values = np.where(abs(values - point) < 0.05, values + 0.1, values)
        return values.reshape(self.shape)


@dataclass(frozen=True)
class D:
    """A dtype by name, resolved in the library under test."""

    name: str


@dataclass(frozen=True)
class Sample:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [str(a.shape) if isinstance(a, Arr | np.ndarray) else repr(a) for a in self.args]
        return ", ".join(shown + [f"{k}={v}" for k, v in self.kwargs.items()])

    def draw(self, dtype: str, seed: str) -> Sample:
        """The same sample with every `Arr` replaced by a NumPy array."""
        rng = np.random.default_rng(zlib.crc32(f"{seed}{self}".encode()))
        return self.map(lambda a: a.draw(dtype, rng) if isinstance(a, Arr) else a)

    def map(self, change: Callable[[Any], Any]) -> Sample:
        """Apply `change` to every leaf of the arguments, inside lists and tuples too."""

        def walk(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)(walk(v) for v in value)
            return change(value)

        return Sample(
            tuple(walk(a) for a in self.args), {k: walk(v) for k, v in self.kwargs.items()}
        )


@dataclass(frozen=True)
class Op:
    """One public op: how to call it, with what, and which promises its result keeps."""

    name: str
    samples: list[Sample]
    dtypes: str = "fc"  # letters of DTYPES
    out: str = "same"  # result dtype: see `result_dtype`
    path: str = ""  # where the function is, when not `ad.<name>`
    form: Callable[[Any], Any] | None = None  # what is called in its place, made of the function
    diff: bool = True  # has a gradient with respect to its floating-point arguments
    constants: tuple[str, ...] = ()  # keyword arguments without a gradient all the same
    inplace: bool = False  # has a form `name_` on the first argument
    pointwise: bool = False
    restride: bool = True  # means the same whatever the strides of its arguments
    method: bool = True  # `Tensor.<name>` is the same function
    ulps: float = 0.0  # accepted error; 0 means exact
    terms: float = -1.0  # magnitude of what cancels in the result; see `cancelling`

    @property
    def cancelling(self) -> float:
        """Below this magnitude the error is absolute: 0 for a function of one number, which cancels
        nothing, and 1, the size of the sample values, for sums of them.
        """
        return self.terms if self.terms >= 0 else 0.0 if self.pointwise else 1.0

    def letters(self, wanted: str) -> list[str]:
        return [d for letter in wanted if letter in self.dtypes for d in DTYPES[letter]]

    def function(self, library: Any) -> Callable[..., Any]:
        found = library
        for part in (self.path or self.name).split("."):
            found = getattr(found, part)
        return self.form(found) if self.form else found  # type: ignore[no-any-return]

    def drawn(self, dtype: str) -> Iterator[tuple[str, Sample]]:
        """Every sample drawn, with a label for messages: as it stands, and with arrays strided."""
        for sample in self.samples:
            drawn = sample.draw(dtype, self.name)
            label = f"{self.name}({sample}) in {dtype}"
            yield label, drawn
            if self.restride:
                yield label + ", strided", drawn.map(strided)

    def result_dtype(self, dtype: str, sample: Sample) -> str:
        """The documented result dtype, given that of the tensors; a Python number that is of a
        higher kind than they are raises it to the default dtype of its kind.
        """
        whole = dtype in DTYPES["i"] or dtype == "bool"
        scalars = [a for a in sample.args if isinstance(a, int | float)] if self.pointwise else []
        if whole and any(isinstance(a, float) for a in scalars):
            dtype, whole = "float32", False
        elif dtype == "bool" and scalars:
            dtype = "int64"
        named = {
            "same": dtype,
            "float": "float32" if whole else dtype,
            "bool": "bool",
            "truth": "uint8"
            if dtype == "uint8"
            else "bool",  # all and any answer bytes with a byte
            "long": "int64",
            "sum": "int64" if whole else dtype,
            "complex": {"float32": "complex64", "float64": "complex128"}.get(dtype, dtype),
            "real": {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype),
        }
        return named.get(self.out, self.out)


def carrier(dtype: str) -> str:
    """The NumPy dtype that holds values of `dtype`: NumPy has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def round_to(values: Any, dtype: str) -> Array:
    """Values rounded to `dtype`, in its carrier, so that a reference sees what the library sees."""
    array = np.asarray(values).astype(carrier(dtype))
    if dtype == "bfloat16":
        bits = array.view(np.uint32)
        kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        array = np.where(np.isnan(array), array, kept.view(np.float32))
    return array


def strided(value: Any) -> Any:
    """The same values in memory that is neither contiguous nor in order: axes reversed, every other
    element of a larger buffer, starting one element in.
    """
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    buffer = np.zeros([2 * n + 1 for n in value.shape[::-1]], value.dtype)
    view = buffer[tuple(slice(1, 2 * n + 1, 2) for n in value.shape[::-1])].T
    view[...] = value
    return view


def to_library(value: Any, library: Any, dtype: str = "") -> Any:
    """An array as a tensor of `library` with the same strides, a `D` as its dtype; the rest as is.

    Arrays in the carrier of `dtype` become tensors of `dtype`, which matters for bfloat16 alone.
    """
    if isinstance(value, D):
        return getattr(library, value.name)
    if not isinstance(value, np.ndarray):
        return value
    tensor = library.from_numpy(copy_with_strides(value))
    if dtype == "bfloat16" and value.dtype == np.float32:
        tensor = tensor.to(library.bfloat16)
    return tensor


def copy_with_strides(value: Array) -> Array:
    """A copy in memory of its own (so that in-place edits stay there) that keeps the layout."""
    if value.flags.c_contiguous or value.size == 0:
        return value.copy()
    return strided(value)  # type: ignore[no-any-return]


def to_numpy(tensor: Any) -> Array:
    """The values of a tensor of any library, bfloat16 widened to float32; of a Python bool too."""
    if isinstance(tensor, bool):
        return np.asarray(tensor)
    tensor = tensor.detach()
    if dtype_name(tensor) == "bfloat16":
        tensor = tensor.float()
    if hasattr(tensor, "resolve_conj"):
        tensor = tensor.resolve_conj().resolve_neg()
    return np.asarray(tensor.numpy(force=True))  # torch's symbolic zeros have no memory


def dtype_name(tensor: Any) -> str:
    if isinstance(tensor, bool):
        return "bool"
    return str(tensor.dtype).rpartition(".")[2]


def outputs(result: Any) -> list[Any]:
    """The tensors of a result that may be a tensor, a tuple or a list (or one Python bool)."""
    if isinstance(result, tuple | list):
        return [t for part in result for t in outputs(part)]
    return [result]
