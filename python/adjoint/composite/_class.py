"""``@adjoint.composite``: one's own classes as composites."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, overload

from adjoint import _tree
from adjoint._tree_classes import MARK

from ._arithmetic import VectorSpace
from ._printing import describe

__all__ = ["composite"]

C = TypeVar("C", bound=type)


@overload
def composite(cls: C, /) -> C: ...
@overload
def composite(*, arithmetic: bool = False) -> Callable[[C], C]: ...


def composite(cls: Any = None, /, *, arithmetic: bool = False) -> Any:
    """Make the objects of a class composites: their attributes are differentiated as one thing.

    Dataclasses, named tuples and attrs classes are composites without it; it gives them a tree for
    a ``repr``, and arithmetic if asked for. Subclasses are composites as well. Objects are
    rebuilt without running ``__init__``. A class with a method ``__tree_flatten__(self)``, which
    returns ``(children, metadata)``, and a class method ``__tree_unflatten__(metadata, children)``
    says itself how it is taken apart, decorated or not.

    Parameters
    ----------
    arithmetic
        Whether objects are vectors: ``a + b``, ``2 * a``, ``a / 2``, ``-a``, ``a += b``,
        ``a.dot(b)``, ``a.norm()``; see `adjoint.composite.VectorSpace`.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.composite
    ... class Affine:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = ad.tensor(a), ad.tensor(b)
    ...
    ...     def __call__(self, x):
    ...         return self.a * x + self.b
    >>> f = ad.requires_grad(Affine(2.0, 1.0))
    >>> f
    Affine: 2 tensors, 2 elements, 8 bytes
      a: float32 [] requires_grad
      b: float32 [] requires_grad
    >>> ad.autograd.grad(f(3.0), f).a
    tensor(3.)
    """
    if cls is None:
        return lambda decorated: _decorate(decorated, arithmetic)
    if not isinstance(cls, type):
        raise TypeError(
            f"composite() decorates classes, got {_tree.kind_of(cls)}; arithmetic is a keyword"
        )
    return _decorate(cls, arithmetic)


def _repr_html_(self: Any) -> str:
    from adjoint.notebook import structure_html

    return structure_html(self)


def _decorate(cls: C, arithmetic: bool) -> C:
    if not isinstance(cls, type):
        raise TypeError(f"composite() decorates classes, got {_tree.kind_of(cls)}")
    setattr(cls, MARK, True)
    _tree.forget(cls)
    if _repr_is_generated(cls):
        cls.__repr__ = describe  # type: ignore[assignment]
    if not hasattr(cls, "_repr_html_"):
        setattr(cls, "_repr_html_", _repr_html_)  # noqa: B010
    if arithmetic:
        for name in _OPERATORS:
            # A tuple has a + of its own, which joins; what the class itself defines stays.
            inherited = object if not issubclass(cls, tuple) else tuple
            if getattr(cls, name, None) is getattr(inherited, name, None):
                setattr(cls, name, vars(VectorSpace)[name])
    return cls


_OPERATORS = [
    name for name, item in vars(VectorSpace).items() if callable(item) or name == "__array_ufunc__"
]


def _repr_is_generated(cls: type) -> bool:
    """Whether nobody wrote the ``__repr__`` of a class: it is object's, or that of a dataclass."""
    method: Any = cls.__repr__
    if method is object.__repr__:
        return True
    if issubclass(cls, tuple):  # a named tuple's shows the numbers
        return "__repr__" not in vars(cls) or not hasattr(cls, "__dict__")
    code = getattr(getattr(method, "__wrapped__", None), "__code__", None)
    generated = code is not None and code.co_filename.startswith("<")
    return generated and (dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__"))
