"""Products with Hessians: ``hvp``, forward over reverse, and ``vhp``, reverse over reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._forward import directions_like, primal_tensors, pushed
from ._reverse import gradient_of, pulled_back


def hvp(
    func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the value of ``func`` and the product of its Hessian with ``tangents``.

    Forward over reverse: one gradient with tangents.

    Parameters
    ----------
    func
        A function of tensors, or of structures of them, that returns a tensor of no axes.
    primals, tangents
        Its arguments and the vector: tuples of the same structure.

    Returns
    -------
    tuple
        ``(output, product)``; the product is a tuple like the primals.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, v = ad.tensor([1.0, 2.0]), ad.tensor([1.0, 0.0])
    >>> ad.func.hvp(lambda x: (x**3).sum(), (x,), (v,))
    (tensor(9.), (tensor([6., 0.]),))
    """
    name = "hvp(f, primals, tangents)"
    selected = primal_tensors(primals, name)
    both = gradient_of(func, tuple(range(len(primals))), False, name)
    directions = directions_like(selected, tangents, name)
    _, product, value = pushed(both, selected, directions, False, True, name)
    return value, product


def vhp(
    func: Callable[..., Any], primals: tuple[Any, ...], cotangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the value of ``func`` and the product of ``cotangents`` with its Hessian.

    The same numbers as `hvp`, in reverse over reverse.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, v = ad.tensor([1.0, 2.0]), ad.tensor([1.0, 0.0])
    >>> ad.func.vhp(lambda x: (x**3).sum(), (x,), (v,))
    (tensor(9.), (tensor([6., 0.]),))
    """
    name = "vhp(f, primals, cotangents)"
    selected = primal_tensors(primals, name)
    both = gradient_of(func, tuple(range(len(primals))), False, name)
    _, pull, value = pulled_back(both, tuple(primals), True, name, selected)
    return value, pull(cotangents)
