"""Derivatives that are given to `minimize`, in SciPy's forms, as functions of the unknowns' vector.

The search takes them in place of ours. The derivative of the answer stays that of the conditions
of a minimum: these are made of ``fun``, or of ``jac`` where derivatives cannot see into ``fun``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched

from ._often import Lately
from ._scipy import scipy_optimize
from ._unknowns import Unknowns, reads

__all__ = ["Given", "given_of"]

Function = Callable[[Tensor], Tensor]

_DIFFERENCES = ("2-point", "3-point")
_EXACT = "cs"  # complex steps are exact to rounding, as are the derivatives that we have
_WAYS = ("exact", "sparse", "products")
_NEED_A_FUNCTION = ("newton-cg", "dogleg", "trust-ncg", "trust-krylov", "trust-exact")


class Given(NamedTuple):
    """What the search is to use; None where ours are better.

    Each is a function of the vector, or the name of a way of SciPy's to take differences;
    ``value`` is that of the objective, where it comes along with the gradient.
    """

    jac: Any = None
    hess: Any = None
    hessp: Any = None
    value: Function | None = None

    def programs(self, start: Tensor) -> list[tuple[Any, list[Tensor]]]:
        """The functions among them, with tensors like their arguments."""
        kinds = ((self.jac, [start]), (self.hess, [start]), (self.hessp, [start, start]))
        return [(function, like) for function, like in kinds if callable(function)]

    def recorded(self, programs: Sequence[Any]) -> Given:
        """The same by the programs of these functions."""
        left = list(programs)
        jac, hess, hessp = (left.pop(0) if callable(f) else f for f in self[:3])
        return Given(jac, hess, hessp)


def given_of(
    fun: Callable[..., Any],
    jac: Any,
    hess: Any,
    hessp: Any,
    unknowns: Unknowns,
    args: tuple[Any, ...],
    method: Any,
) -> tuple[Given, Function | None]:
    """What was given; and the gradient by which the answer is differentiated, if it is not ours."""
    n = unknowns.size
    _check(jac, hess, hessp, method)

    def pair(v: Tensor) -> tuple[Any, Any]:
        found = fun(unknowns.tree(v), *args)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise TypeError(
                "minimize(): jac=True says that fun gives a value and its gradient, (f, g); it "
                f"gave {type(found).__name__}"
            )
        return found[0], found[1]

    def slope(v: Tensor) -> Tensor:
        given = pair(v)[1] if jac is True else jac(unknowns.tree(v), *args)
        return unknowns.vector(given, "jac")

    def matrix(v: Tensor) -> Tensor:
        made = hess(unknowns.tree(v), *args)
        made = ad.as_tensor(made.toarray() if hasattr(made, "toarray") else made, dtype=v.dtype)
        if made.numel() != n * n:
            raise ValueError(
                f"minimize(): hess has the shape {list(made.shape)} where x0 has {n} elements"
            )
        return made.reshape(n, n)

    def product(v: Tensor, p: Tensor) -> Tensor:
        made = hessp(unknowns.tree(v), unknowns.tree(p), *args)
        return unknowns.vector(made, "hessp")

    given = Given(
        hess=matrix if callable(hess) else None if hess in (*_WAYS, _EXACT) else hess,
        hessp=product if callable(hessp) and not callable(hess) else None,
    )
    if isinstance(jac, str):
        return given._replace(jac=jac if jac in _DIFFERENCES else None), None
    if not jac:
        return given, None
    given = given._replace(jac=slope)
    if jac is True:

        def both(v: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = pair(v)
            return ad.as_tensor(value, dtype=v.dtype).reshape(()), unknowns.vector(gradient, "jac")

        lately = Lately(both)
        given = given._replace(jac=lambda v: lately(v)[1], value=lambda v: lately(v)[0])

    def value(v: Tensor) -> Any:
        return pair(v)[0] if jac is True else fun(unknowns.tree(v), *args)

    def look() -> bool:
        return _sees(value, unknowns.start)

    if _core._unrecorded(look):
        return given, None
    if not _sees(slope, unknowns.start):
        raise TypeError(
            "minimize(): neither fun nor jac is made of adjoint's operations, so that the answer "
            "has no derivative\n  fix: write jac with tensors (float(), .item() and NumPy's "
            "functions lose where numbers come from), or wrap fun in adjoint.external with vjp="
        )
    return given, slope


def _sees(function: Callable[[Tensor], Any], x: Tensor) -> bool:
    """Whether derivatives can see how a function depends on ``x``."""

    def tensor(v: Tensor) -> Tensor:
        made = function(v)
        return made if isinstance(made, Tensor) else v.detach().sum()

    try:
        with ad.no_grad():
            if is_batched(tensor(x)):
                return True  # samples cannot become plain numbers
        return reads(tensor, x)
    except RuntimeError:  # an array of what is to be differentiated; the search meets other errors
        return False


def _check(jac: Any, hess: Any, hessp: Any, method: Any) -> None:
    """Refuse what SciPy does not take."""
    names = (*_DIFFERENCES, _EXACT)
    known = isinstance(jac, str) and jac in names
    if not (known or jac is None or isinstance(jac, bool) or callable(jac)):
        raise TypeError(
            "minimize(): jac is a function, True where fun gives its gradient as well, "
            f"{', '.join(map(repr, names))}, or None for the exact gradient; got {jac!r}"
        )
    if known and jac != _EXACT and str(method).lower() in _NEED_A_FUNCTION:
        raise ValueError(
            f"minimize(): the method {method} takes no differences for a gradient, got jac={jac!r}"
            "\n  fix: leave it out, as derivatives are exact; or give a function"
        )
    if not (hess is None or callable(hess) or isinstance(hess, str) or _is_update(hess)):
        raise TypeError(f"minimize(): hess is a function, a name or None, got {hess!r}")
    if isinstance(hess, str) and hess not in (*_WAYS, *names):
        raise TypeError(
            f"minimize(): hess is a function, one of {', '.join(map(repr, (*_WAYS, *names)))}, "
            f"or None; got {hess!r}"
        )
    if not (hessp is None or callable(hessp)):
        raise TypeError(f"minimize(): hessp is a function hessp(x, p, *args), got {hessp!r}")


def _is_update(hess: Any) -> bool:
    return isinstance(hess, scipy_optimize().HessianUpdateStrategy)
