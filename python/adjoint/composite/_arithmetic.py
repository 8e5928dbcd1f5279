"""Composites as vectors: ``state + 0.5 * dt * rate``, `VectorSpace.dot`, `VectorSpace.norm`.

Each operation is done, and recorded, tensor by tensor (natively where that is simple, see
``src/bindings/tensor/composite_arithmetic.cpp``). Integer and boolean tensors are not vectors:
they are carried along from the left operand, like everything that is not a tensor.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from adjoint import _core
from adjoint._core import Tensor

from ._agreement import check_shape, leaves_of_same
from ._functions import can_have_gradient
from ._structure import Structure, apply, distinct, put_together, take_apart

__all__ = ["VectorSpace"]

S = TypeVar("S", bound="VectorSpace")
Scalar: TypeAlias = float | complex | Tensor  # a tensor without axes


def _is_scalar(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 0
    return isinstance(value, numbers.Number)


class VectorSpace:
    """Arithmetic of composites: what ``@adjoint.composite(arithmetic=True)`` gives a class.

    Composites are added and subtracted if they agree in structure, shapes and in what they hold
    beside tensors, multiplied and divided by numbers (and tensors without axes, which get a
    gradient). A class may derive from it instead of being decorated, which type checkers follow.

    Examples
    --------
    >>> import adjoint as ad
    >>> from dataclasses import dataclass
    >>> @ad.composite(arithmetic=True)
    ... @dataclass
    ... class State:
    ...     position: ad.Tensor
    ...     velocity: ad.Tensor
    >>> state = State(ad.tensor([1.0, 2.0]), ad.tensor([0.0, 4.0]))
    >>> (state + 0.5 * state).velocity
    tensor([0., 6.])
    >>> state.dot(state), state.norm()
    (tensor(21.), tensor(4.5826))
    """

    __slots__ = ()

    def __add__(self: S, other: S) -> S:
        result: S = _combined("+", operator.add, self, other)
        return result

    def __sub__(self: S, other: S) -> S:
        result: S = _combined("-", operator.sub, self, other)
        return result

    def __radd__(self: S, other: int) -> S:
        # sum() starts with the number 0.
        zero = isinstance(other, int) and other == 0
        return self if zero else NotImplemented

    def __mul__(self: S, other: Scalar) -> S:
        result: S = _scaled(self, operator.mul, other)
        return result

    def __rmul__(self: S, other: Scalar) -> S:
        result: S = _scaled(self, operator.mul, other, left=True)
        return result

    def __truediv__(self: S, other: Scalar) -> S:
        result: S = _scaled(self, operator.truediv, other)
        return result

    def __neg__(self: S) -> S:
        result: S = _scaled(self, operator.neg)
        return result

    def __pos__(self: S) -> S:
        return self

    def __iadd__(self: S, other: S) -> S:
        result: S = _changed("+=", self, other, Tensor.add_)
        return result

    def __isub__(self: S, other: S) -> S:
        result: S = _changed("-=", self, other, Tensor.sub_)
        return result

    def __imul__(self: S, other: Scalar) -> S:
        result: S = _rescaled("*=", self, other, lambda t: t.mul_(other))
        return result

    def __itruediv__(self: S, other: Scalar) -> S:
        result: S = _rescaled("/=", self, other, lambda t: t.div_(other))
        return result

    # A NumPy number on the left must not take the composite for an array of objects.
    __array_ufunc__ = None

    def dot(self: S, other: S) -> Tensor:
        """The sum of the products of corresponding elements."""
        simple = _core._vector_pairs(self, other)
        if simple:
            return _sum([(a * b).sum() for a, b in simple])
        tensors, structure = take_apart(self, "dot")
        others = leaves_of_same(structure, other, "dot")
        check_shape(structure, tensors, others, "dot")
        pairs = {
            (id(a), id(b)): (a, b)
            for a, b in zip(tensors, others, strict=True)
            if can_have_gradient(a)
        }
        return _sum([(a * b).sum() for a, b in pairs.values()])

    def norm(self) -> Tensor:
        """The square root of the sum of the squares of all elements."""
        tensors, _ = take_apart(self, "norm")
        norms = [t.norm() for t in distinct(tensors) if can_have_gradient(t)]
        if len(norms) < 2:
            return norms[0] if norms else _core.zeros(())
        # Not the root of a sum of squares: its gradient at zero would be NaN, that of norm is 0.
        return _core.stack(_promoted(norms)).norm()


# Most composites need no closer look: native code adds their tensors up, and comes back for others.
for _name in ("add", "sub", "mul", "rmul", "truediv", "neg"):
    _method = vars(VectorSpace)[f"__{_name}__"]
    setattr(VectorSpace, f"__{_name}__", _core._vector_method(_name, _method))


def _promoted(tensors: list[Tensor]) -> list[Tensor]:
    wide = tensors[0].dtype
    for t in tensors[1:]:
        wide = _core.promote_types(wide, t.dtype)
    return [t.to(wide) for t in tensors]


def _sum(terms: list[Tensor]) -> Tensor:
    if not terms:
        return _core.zeros(())
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _agreeing(symbol: str, a: Any, b: Any) -> tuple[list[Tensor], list[Tensor], Structure[Any]]:
    tensors, structure = take_apart(a, symbol)
    others = leaves_of_same(structure, b, symbol)
    check_shape(structure, tensors, others, symbol)
    return tensors, others, structure


def _combined(symbol: str, f: Callable[..., Any], a: S, b: Any) -> Any:
    if type(a) is not type(b):
        return NotImplemented
    tensors, others, structure = _agreeing(symbol, a, b)

    def combine(x: Tensor, y: Tensor) -> Any:
        return f(x, y) if can_have_gradient(x) else x

    return put_together(structure, apply(combine, tensors, others))


def _scaled(a: S, f: Callable[..., Any], *factor: Any, left: bool = False) -> Any:
    """``f(tensor, *factor)`` of every tensor, or ``f(*factor, tensor)``."""
    if factor and not _is_scalar(factor[0]):
        return NotImplemented
    tensors, structure = take_apart(a, f.__name__)

    def scale(x: Tensor) -> Any:
        if not can_have_gradient(x):
            return x
        return f(*factor, x) if left else f(x, *factor)

    return put_together(structure, apply(scale, tensors))


def _changed(symbol: str, a: S, b: Any, f: Callable[..., Any]) -> Any:
    if type(a) is not type(b):
        return NotImplemented
    tensors, others, structure = _agreeing(symbol, a, b)
    _refuse_leaves(symbol, tensors, structure)
    added: dict[int, Tensor] = {}
    for i, (x, y) in enumerate(zip(tensors, others, strict=True)):
        if added.setdefault(id(x), y) is not y:
            first = next(k for k, t in enumerate(tensors) if t is x)
            paths = structure.paths()
            raise ValueError(
                f"{symbol}: {paths[first]} and {paths[i]} are one tensor, and the right side has "
                "two for it; nothing was changed"
            )
    # The right side may be the left one, or share memory with it: read it before it changes.
    memory = {x.untyped_storage().data_ptr() for x in tensors}
    safe = {
        id(y): y.clone() if y.untyped_storage().data_ptr() in memory else y for y in added.values()
    }
    for x in distinct(tensors):
        if can_have_gradient(x):
            f(x, safe[id(added[id(x)])])
    return a


def _rescaled(symbol: str, a: S, factor: Any, f: Callable[[Tensor], Any]) -> Any:
    if not _is_scalar(factor):
        return NotImplemented
    tensors, structure = take_apart(a, symbol)
    _refuse_leaves(symbol, tensors, structure)
    for x in distinct(tensors):
        if can_have_gradient(x):
            f(x)
    return a


def _refuse_leaves(symbol: str, tensors: list[Tensor], structure: Structure[Any]) -> None:
    """Refuse before anything is changed what the first leaf that requires grad would refuse."""
    if not _core.is_grad_enabled():
        return
    for i, tensor in enumerate(tensors):
        if tensor.requires_grad and tensor.is_leaf and can_have_gradient(tensor):
            raise RuntimeError(
                f"{symbol}: {structure.paths()[i]} is a leaf Variable that requires grad and "
                "cannot be changed in place; nothing was changed.\n"
                f"  fix: use state = state {symbol[0]} ..., or wrap the step in no_grad()"
            )
