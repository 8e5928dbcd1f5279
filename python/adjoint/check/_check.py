"""`check`: the inputs are prepared, both orders examined, a report returned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._tensor.creation import as_tensor
from adjoint._tensor.typeinfo import finfo
from adjoint.autograd._gradcheck.projection import OUTPUT_SEED, draw
from adjoint.autograd._structures import argument_names as forward_names
from adjoint.autograd.function import Function
from adjoint.external._arguments import Static, name_of
from adjoint.external._external import External
from adjoint.numeric._difference_tally import difference_tally

from ._bounds import keep_within
from ._report import CheckError, CheckReport
from ._run import examine
from ._subject import Subject, second_subject, tensors_of

__all__ = ["CheckError", "check"]


def check(
    f: Callable[..., Any],
    *x: Any,
    order: int = 2,
    tolerance: float | None = None,
    dtype: _core.dtype | None = None,
    seed: int = 0,
    bounds: Any = None,
    plot: str | Path | None = None,
    name: str | None = None,
) -> CheckReport:
    """Check the derivative of any function of tensors, and report what was found.

    Backward is compared with differences along random directions and element by element, with
    forward mode by the dot-product test, and with the Taylor series; kinks, jumps, noise and
    rounding are told from wrong derivatives. Inputs are put back as they were.

    Parameters
    ----------
    f
        A function of tensors, composites or anything else: ops, custom functions, externals. An
        ``nn.Module`` is checked by its parameters too.
    *x
        Its arguments. Those tensors are checked that require grad; if none does, all
        floating-point and complex ones; if there are no tensors, arrays and floats become such.
    order
        2 for first and second derivatives, 1 for first ones only: far cheaper for externals by
        differences, whose gradients each take as many evaluations as they have inputs, or twice.
    tolerance
        The relative error of an element above which a derivative is wrong. Default: 1e-5, or what
        the dtype can tell (1.9e-4 in float32); 1e-3 at least for second derivatives.
    dtype
        Check copies of the inputs in this dtype, float64 for instance.
    seed
        Of the random directions. The random stream of the caller is left alone.
    bounds
        Where the function may be evaluated: (low, high), with None for no bound, or a dict of such
        pairs by argument or path; at a bound differences are taken on the inner side. Default:
        those of an external that is checked.
    plot
        A file for the plots (PNG); needs matplotlib: ``pip install 'adjoint[plot]'``.
    name
        What the report calls the function.

    Returns
    -------
    CheckReport
        True if the derivatives are right; print it to read it.

    Raises
    ------
    ValueError
        There is nothing to check: no tensor among the arguments or the results.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, -1.5, 2.0], dtype=ad.float64)
    >>> bool(ad.check(ad.sin, x))
    True
    >>> report = ad.check(lambda x: x * x.detach(), x)
    >>> report.ok, report.verdict
    (False, 'wrong')
    """
    if order not in (1, 2):
        raise ValueError(f"check(): order= is 1 or 2, got {order!r}")
    if tolerance is not None and not 0 < tolerance < 1:
        raise ValueError(f"check(): tolerance= is a relative error, 0 to 1; got {tolerance!r}")
    function, arguments, names = _with_parameters(f, x)
    subject = Subject(function, _prepared(arguments, dtype), names)
    keep_within(subject, f.bounds if bounds is None and isinstance(f, External) else bounds)
    subject.second = order == 2
    unit = subject.unit
    # Keyed to what differences can tell in this dtype, as gradcheck's are.
    used = tolerance or max(1e-5, 8 * unit ** (2 / 3))
    report = CheckReport(name or _name(f), subject.dtype, used)
    with difference_tally() as tally:
        report.first = examine(subject, 1, used, seed)
        if order == 2:
            _second(report, subject, tolerance or max(1e-3, used), seed)
    report.external_evaluations = tally.evaluations
    if plot is not None:
        report.save_plot(plot)
    return report


def _function_class(f: Any) -> Any:
    """The custom function whose ``apply`` this is, or None."""
    cls = getattr(f, "__self__", None)
    return cls if isinstance(cls, type) and issubclass(cls, Function) else None


def _argument_names(f: Callable[..., Any], count: int) -> list[str]:
    cls = _function_class(f)
    return Static(f, ()).roots(count) if cls is None else forward_names(cls, count)


def _name(f: Callable[..., Any]) -> str:
    cls = _function_class(f)
    if cls is not None:
        return str(cls.__name__)
    found = name_of(f)
    return type(f).__name__ if found == "the function" and not hasattr(f, "__name__") else found


def _with_parameters(
    f: Callable[..., Any], x: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], list[str]]:
    """A module as a function of its arguments and its parameters."""
    from adjoint.nn import Module

    if not isinstance(f, Module):
        return f, x, _argument_names(f, len(x))
    parameters = dict(f.named_parameters())
    count = len(x)
    names = _argument_names(f.forward, count) + [f"{type(f).__name__}.{n}" for n in parameters]

    def call(*arguments: Any) -> Any:
        return f(*arguments[:count])

    arguments = tuple(
        a.detach().clone().requires_grad_() if _free(a) and not a.requires_grad else a for a in x
    )
    return call, (*arguments, *parameters.values()), names


def _free(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _prepared(arguments: tuple[Any, ...], dtype: _core.dtype | None) -> tuple[Any, ...]:
    """The arguments with inputs that require grad; copies of those that did not."""
    leaves, spec = _tree.flatten(arguments)
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        leaves = [_as_tensor(leaf) for leaf in leaves]
    tensors = tensors_of(tuple(leaves))
    if not tensors:
        kinds = ", ".join(_tree.kind_of(leaf) for leaf in leaves) or "no arguments"
        raise ValueError(
            f"there is nothing to check: no argument is a floating-point tensor (got {kinds}).\n"
            "  fix: pass tensors of float64, or composites of them"
        )
    asked = [t for t in tensors if t.requires_grad] or tensors
    made: dict[int, Tensor] = {}
    for tensor in asked:
        if id(tensor) in made:
            continue
        wanted = _wanted(tensor, dtype)
        if tensor.requires_grad and wanted == tensor.dtype:
            made[id(tensor)] = tensor  # as it is: a function may reach it by another way
        else:
            made[id(tensor)] = tensor.detach().to(wanted).clone().requires_grad_()
    if dtype is not None:
        for tensor in tensors:
            made.setdefault(id(tensor), tensor.detach().to(_wanted(tensor, dtype)))
    fresh = [made.get(id(leaf), leaf) for leaf in leaves]
    return tuple(_tree.unflatten(spec, fresh))


def _wanted(tensor: Tensor, dtype: _core.dtype | None) -> _core.dtype:
    if dtype is None:
        return tensor.dtype
    if tensor.is_complex() and not dtype.is_complex:
        return _core.complex64 if finfo(dtype).eps > 1e-10 else _core.complex128
    return dtype


def _as_tensor(leaf: Any) -> Any:
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, bool):
        return as_tensor(np.asarray(leaf))
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "fc":
        return as_tensor(np.array(leaf))
    return leaf


def _second(report: CheckReport, subject: Subject, tolerance: float, seed: int) -> None:
    if report.first.verdict != "right":
        report.second_note = f"not looked at: the first derivative is {report.first.verdict}"
        return
    if report.first.no_second:
        report.second_note = f"not looked at: {report.first.no_second}"
        return
    if subject.second_error is not None:
        report.second_note = _no_second(subject.second_error)
        return
    if not subject.differentiable:
        report.second_note = "not looked at: there is no first one"
        return
    weights = [
        draw(size, OUTPUT_SEED + 500 + 1000 * seed + k) for k, size in enumerate(subject.y.sizes)
    ]
    try:
        gradient = second_subject(subject, weights)
        # The second derivative of an external by differences is as good as differences are.
        report.second = examine(gradient, 2, max(tolerance, gradient.blur), seed, report.first)
    except Exception as error:  # a backward that cannot be differentiated says so in many ways
        report.second_note = _no_second(error)


def _no_second(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"not available ({type(error).__name__}: {first})"
