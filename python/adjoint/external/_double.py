"""A function of float32 evaluated in float64, for the differences that need the digits.

Second differences of float32 numbers keep four of their seven digits at best. Most functions take
float64 as well (NumPy's compute in the dtype that they get): what they return then has sixteen. One
that refuses it, or returns float32 all the same, is differenced as it is; one that may look at the
memory of its arguments is not asked. Read next: _raw_memory.py, _point.py.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.numeric._plan import REFUSED

from ._outputs import Outputs
from ._point import ExternalPoint
from ._raw_memory import may_read_memory

__all__ = ["WIDE", "in_float64"]

WIDE: dict[Any, Any] = {
    np.dtype(np.float16): np.float64,
    np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}
_ROUNDINGS = 1e3  # of the inputs: what an output may be that float32 gave as zero
_NUMBERS = "takes any dtype"  # in Plan.verified: reads numbers, no memory
_ALIKE = 0.03  # of the largest of an output: how far it may be from what float32 gave


def in_float64(
    point: ExternalPoint, declared: Sequence[int | str], known: set[str]
) -> ExternalPoint | None:
    """The same point with inputs and outputs of double precision; None where there is none.

    ``declared`` are outputs without a derivative. That a function refuses is noted in ``known``.
    """
    places, leaves = point.arguments.inputs, list(point.leaves)
    for k in places:
        leaves[k] = _widened(leaves[k])
    if REFUSED in known or all(leaves[k] is point.leaves[k] for k in point.wanted):
        return None
    if _NUMBERS not in known:
        known.add(REFUSED if may_read_memory(point.evaluator.fresh) else _NUMBERS)
        if REFUSED in known:
            return None
    args, kwargs = point.arguments.rebuild(leaves)
    form = None
    # Whatever it makes of other dtypes than it was given: the function is then taken as it is.
    with contextlib.suppress(Exception), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        raw = [point.evaluator.one(args, kwargs, "x in float64")]
        form = Outputs(raw, declared, point.name)
    if form is None or not _has_form(form, point.form):
        known.add(REFUSED)
        return None
    least = _ROUNDINGS * np.finfo(np.float32).eps * np.max(np.abs(point.x), initial=0.0)
    pairs = [(form.leaves[k], point.form.leaves[k]) for k in form.differentiable]
    if not all(_is_alike(*pair, least) for pair in pairs):
        return None
    return ExternalPoint(point.evaluator, point.arguments, leaves, point.wanted, form)


def _widened(leaf: Any) -> Any:
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype not in WIDE:
        return leaf
    return leaf.astype(WIDE[leaf.dtype])


def _has_form(wide: Outputs, form: Outputs) -> bool:
    return (
        wide.spec == form.spec
        and wide.differentiable == form.differentiable
        and all(
            wide.leaves[k].shape == form.leaves[k].shape and wide.leaves[k].dtype not in WIDE
            for k in form.differentiable
        )
    )


def _is_alike(found: Any, known: Any, least: float) -> bool:
    """Whether an output is the one that float32 gave: C may have read floats from doubles."""
    there = np.isfinite(known)
    if (there != np.isfinite(found)).any():
        return False
    size = np.max(np.abs(known), initial=0.0, where=there) or least
    return bool((np.abs(found - known)[there] <= _ALIKE * size).all())
