"""``implicit``: the derivative of the answer of a solver of one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _tree
from adjoint._samples import batch_of

from ._choice import linear_for
from ._implicit import answer
from ._solver import Solver
from ._unknowns import Unknowns

__all__ = ["implicit"]


def implicit(residual: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a solver of one's own the derivative of its answer.

    The solver may be anything: Python, a C library, an executable, another package. It runs without
    being recorded; samples of a `vmap` that it does not take together are given to it one by one.
    The derivative comes from the equation that its answer satisfies, by the
    implicit function theorem; so does that of higher order. An answer that does not satisfy the
    equation is refused, since its derivative would be that of something else.

    Parameters
    ----------
    residual
        ``residual(x, *args)``: zero at the answer, with as many numbers as ``x``, in any structure;
        made of adjoint's operations, or of externals.

    Returns
    -------
    callable
        A decorator for ``solver(*args)``, which returns ``x``.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.optimize.implicit(lambda x, a: x * x - a)
    ... def square_root(a):
    ...     return ad.tensor(float(a) ** 0.5, dtype=ad.float64)
    >>> a = ad.tensor(9.0, dtype=ad.float64, requires_grad=True)
    >>> square_root(a).backward()
    >>> a.grad
    tensor(0.1667, dtype=torch.float64)
    """

    def decorate(solver: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(solver, "__name__", "the solver")

        @functools.wraps(solver)
        def solve(*args: Any, **kwargs: Any) -> Any:
            with ad.no_grad():
                unknowns = _solved(solver, name, ad.map(_plain, args), kwargs)
            equation = unknowns.function(lambda x: residual(x, *args, **kwargs), ())
            linear = linear_for(name, equation, unknowns.start)
            check = Solver(name, equation, linear, None, None, None)
            result = check.by_callable(lambda: unknowns.start)
            return unknowns.tree(answer(equation, result.x, linear))

        return solve

    return decorate


def _solved(
    solver: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Unknowns:
    """What the solver finds; one sample after the other where it does not take them together."""
    leaves, spec = _tree.flatten(args)
    batch = batch_of(*(t for t in leaves if isinstance(t, ad.Tensor)))
    try:
        return Unknowns(solver(*args, **kwargs), name)
    except (RuntimeError, TypeError, ValueError):
        if not batch.levels:
            raise
    rows = [batch.whole(t).reshape(-1, *t.shape) if isinstance(t, ad.Tensor) else t for t in leaves]
    found, unknowns = [], None
    for k in range(math.prod(batch.shape)):
        one = [t[k] if isinstance(t, ad.Tensor) else t for t in rows]
        x = solver(*_tree.unflatten(spec, one), **kwargs)
        unknowns = unknowns or Unknowns(x, name)
        found.append(unknowns.vector(x, "the answer").detach())
    assert unknowns is not None
    return unknowns.moved(batch.each(ad.stack(found).reshape(*batch.shape, -1)))


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, ad.Tensor) else value
