"""``implicit``: the derivative of the answer of a solver of one's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._samples import batch_of

from ._choice import linear_for
from ._implicit import answer
from ._inside import Inside, is_inside
from ._solver import Solver
from ._unknowns import Unknowns

__all__ = ["implicit"]


def implicit(residual: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a solver of one's own the derivative of its answer.

    The solver may be anything: Python, a C library, an executable, another package. It runs without
    being recorded; samples of a `vmap` that it does not take together are given to it one by one.
    Inside `adjoint.compile` and `adjoint.scan` it is called in each run of the program, with the
    tensors that are its arguments there; its answer keeps its size.

    The derivative comes from the equation that its answer satisfies, by the implicit function
    theorem; so does that of higher order. An answer that does not satisfy the equation is refused,
    since its derivative would be that of something else.

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
        is_lasting = not _core._is_recording()  # else it may hold tensors of one run

        @functools.wraps(solver)
        def solve(*args: Any, **kwargs: Any) -> Any:
            given = ad.map(_plain, (args, kwargs))
            with ad.no_grad():
                unknowns = _solved_inside(solver, name, given) if is_lasting else None
                if unknowns is None:
                    unknowns = _solved(solver, name, given)
            equation = unknowns.function(lambda x: residual(x, *args, **kwargs), ())
            linear = linear_for(name, equation, unknowns.start)
            check = Solver(name, equation, linear, None, None, None)
            result = check.by_callable(lambda: unknowns.start)
            return unknowns.tree(answer(equation, result.x, linear))

        return solve

    return decorate


def _solved_inside(solver: Callable[..., Any], name: str, given: Any) -> Unknowns | None:
    """The same as an instruction of the program that is recorded; None where it cannot be one."""
    leaves, spec = _tree.flatten(given)
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, ad.Tensor)]
    if not is_inside():
        return None
    if not places:
        _core._refuse_recording(f"{name} gets no tensors, and may read others")
        return None
    made: list[Unknowns] = []
    rest = [None if k in places else leaf for k, leaf in enumerate(leaves)]

    def solve(_: Any, tensors: list[ad.Tensor]) -> list[ad.Tensor]:
        filled = list(rest)
        for k, tensor in zip(places, tensors, strict=True):
            filled[k] = tensor
        found = _solved(solver, name, _tree.unflatten(spec, filled))
        made.append(found)
        if found.size != made[0].size:
            raise ValueError(
                f"{name}(): the answer has {found.size} elements where it had {made[0].size} when "
                "the program was recorded\n  fix: call it outside of compile and scan"
            )
        del made[1:]
        return [found.start]

    tensors = [leaves[k] for k in places]
    place = Inside(lambda first: first, *tensors)
    (x,) = place.solved(solve, *tensors)
    return made[0].moved(x)


def _solved(solver: Callable[..., Any], name: str, given: Any) -> Unknowns:
    """What the solver finds; one sample after the other where it does not take them together."""
    args, kwargs = given
    leaves, spec = _tree.flatten(given)
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
        args, kwargs = _tree.unflatten(spec, one)
        x = solver(*args, **kwargs)
        unknowns = unknowns or Unknowns(x, name)
        found.append(unknowns.vector(x, "the answer").detach())
    assert unknowns is not None
    return unknowns.moved(batch.each(ad.stack(found).reshape(*batch.shape, -1)))


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, ad.Tensor) else value
