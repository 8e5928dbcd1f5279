"""Numerical checks of custom functions: ``Function.check`` and check mode.

The derivatives are compared with differences by ``gradcheck``, in float64 where the function can
compute in it.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from adjoint import _core, _tree
from adjoint._core import Tensor

from ._structures import argument_names
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

if TYPE_CHECKING:
    from .function import Function

__all__ = ["CheckReport", "FunctionCheckError", "check", "check_first_call", "set_check_mode"]


class FunctionCheckError(RuntimeError):
    """A custom function whose derivative is wrong was called in check mode."""


@dataclass
class Finding:
    """One thing that was checked: ``passed`` is None where there was nothing to check."""

    what: str
    passed: bool | None
    detail: str = ""

    def __str__(self) -> str:
        word = {True: "ok", False: "WRONG", None: "not checked"}[self.passed]
        first, _, rest = self.detail.partition("\n")
        line = f"  {self.what:<16} {word}" + (f": {first}" if first else "")
        return line + "".join(f"\n      {row}" for row in rest.splitlines())


@dataclass
class CheckReport:
    """What `Function.check` found. True when nothing is wrong; prints as a readable report."""

    name: str
    findings: list[Finding] = field(default_factory=list)

    def __bool__(self) -> bool:
        return all(finding.passed is not False for finding in self.findings)

    def __str__(self) -> str:
        wrong = [finding.what for finding in self.findings if finding.passed is False]
        title = f"{self.name}: {', '.join(wrong)} wrong" if wrong else f"{self.name}: all right"
        return "\n".join([title, *map(str, self.findings)])

    __repr__ = __str__


def check(
    cls: type[Function],
    inputs: tuple[Any, ...],
    tolerances: dict[str, Any],
    second: bool,
) -> CheckReport:
    """Compare the derivatives of a custom function with differences."""
    from .function import Function

    report = CheckReport(cls.__name__)
    try:
        subject = _Subject(cls, inputs)
    except Exception as error:
        report.findings.append(Finding("forward", False, f"{type(error).__name__}: {error}"))
        return report
    tensors = subject.tensors
    if not tensors:
        raise ValueError(
            f"{cls.__name__}.check: there is nothing to check: no argument is a floating-point or "
            "complex tensor (an attribute of an object, or an item of a set, is not an argument)"
        )
    backward = _attempt("backward", _gradcheck, subject, tolerances)
    if backward.passed:
        count = "1 input" if len(tensors) == 1 else f"{len(tensors)} inputs"
        dtypes = ", ".join(sorted({str(t.dtype) for t in tensors}))
        backward.detail = f"{count} in {dtypes}"
    report.findings.append(backward)
    report.findings.append(_second(cls, subject, tolerances, backward, second))
    if cls.jvp is Function.jvp:
        report.findings.append(Finding("jvp", None, "there is none"))
    else:
        report.findings.append(_attempt("jvp", _forward_gradcheck, subject, tolerances))
    return report


def _second(
    cls: type[Function],
    subject: _Subject,
    tolerances: dict[str, Any],
    backward: Finding,
    wanted: bool,
) -> Finding:
    what = "double backward"
    rule = cls.backward if "vjp" not in _defined(cls) else cls.vjp
    if not wanted:
        return Finding(what, None, "it was not asked for")
    if not backward.passed:
        return Finding(what, None, "backward itself is wrong")
    if getattr(rule, "_once_differentiable", False):
        return Finding(what, None, "backward is marked @once_differentiable")
    finding = _attempt(what, _gradgradcheck, subject, tolerances)
    if finding.passed is False:
        finding.detail += (
            "\nfix: if second derivatives are not wanted, mark backward @once_differentiable: "
            "asking for one then raises"
        )
    return finding


def _defined(cls: type[Function]) -> set[str]:
    from .function import Function

    return {
        name for name in ("backward", "vjp") if getattr(cls, name) is not getattr(Function, name)
    }


def _attempt(
    what: str,
    test: Callable[[_Subject, dict[str, Any]], bool],
    subject: _Subject,
    tolerances: dict[str, Any],
) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of single precision, if it must be
            test(subject, tolerances)
    except GradcheckError as error:
        return Finding(what, False, f"{error}\n({subject.legend()})")
    except Exception as error:  # whatever the user's rule raises belongs into the report
        return Finding(what, False, f"{type(error).__name__}: {error}")
    return Finding(what, True)


def _gradcheck(subject: _Subject, tolerances: dict[str, Any]) -> bool:
    return gradcheck(subject, subject.tensors, **tolerances)


def _forward_gradcheck(subject: _Subject, tolerances: dict[str, Any]) -> bool:
    return gradcheck(
        subject,
        subject.tensors,
        check_forward_ad=True,
        check_backward_ad=False,
        check_undefined_grad=False,
        **tolerances,
    )


def _gradgradcheck(subject: _Subject, tolerances: dict[str, Any]) -> bool:
    return gradgradcheck(subject, subject.tensors, **tolerances)


# --- the function under test ----------------------------------------------------------------------


class _Subject:
    """``cls.apply`` as a function of the tensors among its arguments, in float64 if it can."""

    def __init__(self, cls: type[Function], inputs: tuple[Any, ...]) -> None:
        self.cls = cls
        self.given, self.spec = _tree.flatten(inputs)
        places = [i for i, leaf in enumerate(self.given) if _differentiable(leaf)]
        self.chosen = [i for i in places if self.given[i].requires_grad] or places
        self.outputs: list[int] | None = None  # which of the results are checked
        self.leaves: list[Any] = []
        try:
            self._prepare(wide=True)
        except Exception:  # forward may refuse in float64 what it takes in float32
            self._prepare(wide=False)

    def _prepare(self, wide: bool) -> None:
        self.leaves = [_prepared(x, i in self.chosen, wide) for i, x in enumerate(self.given)]
        results = self._results(self.tensors)
        self.outputs = [
            i for i, out in enumerate(results) if isinstance(out, Tensor) and out.requires_grad
        ]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.leaves[i] for i in self.chosen)

    def _results(self, tensors: tuple[Tensor, ...]) -> list[Any]:
        given = list(self.leaves)
        for i, tensor in zip(self.chosen, tensors, strict=True):
            given[i] = tensor.clone()  # forward may change its arguments in place
        outputs, _ = _tree.flatten(self.cls.apply(*_tree.unflatten(self.spec, given)))
        return outputs

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        results = self._results(tensors)
        return tuple(results[i] for i in self.outputs or ())

    def legend(self) -> str:
        """Which input is which argument."""
        names = argument_names(self.cls, self.spec.num_children)
        paths: list[str] = []
        for name, spec in zip(names, self.spec.children(), strict=True):
            paths += [name] if spec.is_leaf() else _tree.paths(spec, name)
        return ", ".join(f"input {k} is {paths[i]!r}" for k, i in enumerate(self.chosen))


def _differentiable(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _prepared(leaf: Any, chosen: bool, wide: bool) -> Any:
    if not _differentiable(leaf):
        return leaf
    dtype = _core.complex128 if leaf.is_complex() else _core.float64
    copy = leaf.detach().clone()
    if wide:
        copy = copy.to(dtype)
    return copy.requires_grad_(chosen)


# --- check mode -----------------------------------------------------------------------------------
_seen: weakref.WeakKeyDictionary[type, set[Any]] = weakref.WeakKeyDictionary()
_busy = threading.local()


def set_check_mode(mode: bool) -> None:
    """What ``autograd.set_check_mode`` does."""
    _seen.clear()
    _core._set_check_functions(check_first_call if mode else None)


def check_first_call(cls: type[Function], args: tuple[Any, ...]) -> None:
    """Called by ``apply`` in check mode, before forward runs."""
    if getattr(_busy, "on", False):
        return
    leaves, _ = _tree.flatten(args)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if not any(t.requires_grad for t in tensors):
        return
    key = tuple((tuple(t.shape), t.dtype, t.requires_grad) for t in tensors)
    done = _seen.setdefault(cls, set())
    if key in done:
        return
    done.add(key)
    _busy.on = True
    try:
        report = check(cls, args, {}, second=True)
    finally:
        _busy.on = False
    if not report:
        raise FunctionCheckError(str(report))
