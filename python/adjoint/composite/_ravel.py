"""A composite as one flat vector and back, both ways differentiable."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from adjoint import _core
from adjoint._core import Tensor

from ._functions import can_have_gradient
from ._structure import Structure, distinct, put_together, take_apart

__all__ = ["Unravel", "ravel"]

T = TypeVar("T")


class Unravel(Generic[T]):
    """Turns a vector into the composite that `adjoint.ravel` was given; differentiable.

    Slices of the vector take the place of the tensors, in their shapes and dtypes. What was not in
    the vector (integer and boolean tensors, other values) is that of the composite.
    """

    def __init__(self, tensors: list[Tensor], structure: Structure[Any]) -> None:
        self._structure = structure
        self._rest = [None if can_have_gradient(t) else t for t in tensors]
        each = [t for t in distinct(tensors) if can_have_gradient(t)]
        self._parts = [(t.shape, t.numel(), t.dtype) for t in each]
        order = {id(t): i for i, t in enumerate(each)}
        self._which = [order.get(id(t), -1) for t in tensors]
        self._length = sum(part[1] for part in self._parts)

    def __call__(self, vector: Tensor) -> T:
        """The composite whose tensors hold the elements of ``vector``."""
        if not isinstance(vector, Tensor) or vector.ndim != 1 or vector.numel() != self._length:
            got = list(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
            raise ValueError(f"unravel(): expected a vector [{self._length}], got {got}")
        pieces = vector.split([count for _, count, _ in self._parts]) if self._parts else ()
        made = [
            _as(piece, dtype).reshape(shape)
            for piece, (shape, _, dtype) in zip(pieces, self._parts, strict=True)
        ]
        values = [
            rest if which < 0 else made[which]
            for which, rest in zip(self._which, self._rest, strict=True)
        ]
        made_again: T = put_together(self._structure, values)
        return made_again

    def __repr__(self) -> str:
        return f"<unravel: a vector [{self._length}] into a {self._structure.root}>"


def _as(piece: Tensor, dtype: _core.dtype) -> Tensor:
    if piece.is_complex() and not dtype.is_complex:
        piece = piece.real
    return piece.to(dtype)


def ravel(composite: T) -> tuple[Tensor, Unravel[T]]:
    """The elements of a composite as one vector, and the function that turns it back.

    Floating-point and complex tensors are in the vector, in the order of `flatten`, each once even
    if it stands in several places; their dtypes are promoted. Other tensors are carried along.

    Examples
    --------
    >>> import adjoint as ad
    >>> vector, unravel = ad.ravel({"w": ad.ones(1, 2), "b": ad.zeros(1)})
    >>> vector
    tensor([0., 1., 1.])
    >>> unravel(vector + 1)
    {'w': tensor([[2., 2.]]), 'b': tensor([1.])}
    """
    tensors, structure = take_apart(composite, "ravel")
    flat = [t.reshape(-1) for t in distinct(tensors) if can_have_gradient(t)]
    vector = _core.cat(flat) if flat else _core.empty(0)
    return vector, Unravel(tensors, structure)
