"""The unknowns of a problem as one real vector, whatever structure they have."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint.composite._ravel import ravel

__all__ = ["Unknowns", "as_arguments", "dtype_in", "raise_unless_read", "reads"]


_NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)
_STATES = ("solve_ivp", "solve_bvp", "solve_sde")
_ONE = {
    "y0": "slope for each number of the state",
    "x0": "equation for each unknown; for more equations than unknowns use optimize.least_squares",
}


def as_arguments(args: Any) -> tuple[Any, ...]:
    """SciPy's ``args``: a tuple, one argument, or None."""
    if args is None:
        return ()
    return args if isinstance(args, tuple) else (args,)


class Unknowns:
    """A composite of tensors as a vector of real numbers, and back; differentiable both ways.

    Numbers, lists of numbers and NumPy arrays are tensors here, also in lists and dicts beside
    tensors; Python's floats are float64 where no tensor says otherwise, as SciPy's solvers take
    them. Complex numbers are two real ones.
    """

    def __init__(self, start: Any, name: str) -> None:
        self.name = name
        self.given = "y0" if name in _STATES else "x0"
        start = _tensors(start)
        if start is None or isinstance(start, str):
            raise TypeError(
                f"{name}(): {self.given} is {start!r}.\n  fix: give a tensor, a number, or a "
                f"structure of tensors such as {self.given}=ad.zeros(3)"
            )
        flat, self._unravel = ravel(start)
        if not flat.numel():
            raise TypeError(
                f"{name}(): {self.given} has no floating-point numbers to solve for, got "
                f"{_kind(start)}.\n  fix: give a tensor, a number, or a structure of tensors such "
                f"as {self.given}=ad.zeros(3)"
            )
        self._complex = flat.is_complex()
        self.start = self.real(flat.detach())
        # Of which there may be several that do the same; a structure is one of its own.
        plain = type(start) is Tensor
        self.kind = (name, tuple(start.shape), start.dtype) if plain else None

    def moved(self, start: Tensor) -> Unknowns:
        """The same unknowns, which begin elsewhere."""
        other = copy.copy(self)
        other.start = start
        return other

    @property
    def size(self) -> int:
        """How many real unknowns there are."""
        return int(self.start.numel())

    def real(self, flat: Tensor) -> Tensor:
        """A vector as real numbers."""
        if flat.is_complex():
            flat = ad.view_as_real(flat.resolve_conj()).flatten()
        return flat

    def vector(self, tree: Any, what: str) -> Tensor:
        """Something of the same size as the unknowns, such as a residual, as a vector."""
        tree = _tensors(tree)
        if tree is None or isinstance(tree, str):
            raise TypeError(
                f"{self.name}(): {what} is {tree!r}, not a tensor or a structure of them.\n"
                "  fix: let the function return it"
            )
        flat, _ = ravel(tree)
        if self._complex and not flat.is_complex():
            flat = flat.to(ad.complex64 if flat.dtype == ad.float32 else ad.complex128)
        flat = self.real(flat)
        if flat.numel() != self.size:
            raise ValueError(
                f"{self.name}(): {what} has {flat.numel()} elements where {self.given} has "
                f"{self.size}.\n  fix: there must be one {_ONE[self.given]}"
            )
        return flat.to(self.start.dtype)

    def tree(self, vector: Tensor) -> Any:
        """The structure that was given, of the numbers in ``vector``."""
        if self._complex:
            vector = ad.view_as_complex(vector.reshape(-1, 2))
        return self._unravel(vector)

    def stacked(self, rows: Tensor) -> Any:
        """Vectors in rows as the structure, with the rows as the last axis of every tensor."""
        if self._complex:
            rows = ad.view_as_complex(rows.reshape(len(rows), -1, 2))
        trees = [self._unravel(row) for row in rows]
        return (
            ad.map(lambda *parts: ad.stack(parts, -1), *trees) if trees else self._unravel(rows[0])
        )

    def function(
        self, fun: Callable[..., Any], args: tuple[Any, ...], what: str = "the residual"
    ) -> Callable[[Tensor], Tensor]:
        """``fun`` from a vector to a vector of the same size."""
        if not callable(fun):
            raise TypeError(
                f"{self.name}(): expected a function first, got {type(fun).__name__}: {fun!r}"
            )
        return lambda v: self.vector(fun(self.tree(v), *args), what)


def reads(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether derivatives can tell that a function depends on what it is given."""
    at = x.detach().clone().requires_grad_()
    with ad.enable_grad():
        value = function(at)
        if not value.requires_grad:
            return False
        return ad.autograd.grad(value.sum(), at, allow_unused=True)[0] is not None


def raise_unless_read(
    name: str, what: str, function: Callable[[Tensor], Tensor], x: Tensor
) -> None:
    """Refuse a function that does not read what it is given, or reads it as plain numbers."""
    if not reads(function, x):
        raise TypeError(
            f"{name}(): {what} does not depend on x, as far as derivatives can tell.\n"
            "  fix: make it of adjoint's operations: float(), .item() and NumPy's functions lose "
            "where numbers come from; other code goes into adjoint.external"
        )


def _kind(thing: Any) -> str:
    return (
        f"{thing.dtype} {list(thing.shape)}" if isinstance(thing, Tensor) else type(thing).__name__
    )


def _tensors(thing: Any) -> Any:
    """Plain numbers and arrays as tensors, each place one of its own."""
    if isinstance(thing, Tensor):
        return thing
    if isinstance(thing, _NUMBERS) or (_is_list(thing) and _plain(thing)):
        return _float(thing)
    if not (_is_list(thing) or type(thing) is dict):
        return thing
    return _Places(thing).made(thing)


class _Places:
    """Makes tensors of what stands in lists and dicts."""

    def __init__(self, whole: Any) -> None:
        self._seen: set[int] = set()
        self._dtype = dtype_in(whole)

    def made(self, thing: Any, of_dict: bool = False) -> Any:
        if isinstance(thing, Tensor):
            # A tensor that stands in two places has an unknown for each.
            first = id(thing) not in self._seen
            self._seen.add(id(thing))
            return thing if first else thing.view_as(thing)
        if _is_list(thing):
            return type(thing)(self.made(part) for part in thing)
        if type(thing) is dict:
            return {key: self.made(part, True) for key, part in thing.items()}
        # Integers under a name are settings; in a row with others they are numbers.
        if isinstance(thing, _NUMBERS) and not (of_dict and isinstance(thing, int)):
            made = _float(thing)
            number = not isinstance(thing, np.ndarray) and not made.is_complex()
            return made.to(self._dtype) if number and self._dtype is not None else made
        return thing


def dtype_in(thing: Any) -> Any:
    """Of the first tensor of floating-point numbers."""
    if isinstance(thing, Tensor):
        return thing.dtype if thing.is_floating_point() else None
    parts = thing.values() if type(thing) is dict else thing if _is_list(thing) else ()
    return next((d for part in parts if (d := dtype_in(part)) is not None), None)


def _is_list(thing: Any) -> bool:
    return isinstance(thing, (list, tuple)) and not hasattr(thing, "_fields")


def _plain(thing: Any) -> bool:
    if isinstance(thing, (list, tuple)):
        return all(_plain(x) for x in thing)
    return isinstance(thing, (bool, int, float, complex, np.number))


def _float(thing: Any) -> Tensor:
    array = np.asarray(thing)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if isinstance(thing, (np.ndarray, np.generic)) and array.ndim:
        return ad.from_numpy(np.array(array))
    return ad.tensor(array.tolist(), dtype=_dtype(array))  # of a recording: a constant


def _dtype(array: Any) -> Any:
    names = {"f4": ad.float32, "f8": ad.float64, "c8": ad.complex64, "c16": ad.complex128}
    return names.get(array.dtype.str[1:], ad.float64)
