"""The derivative of an answer: by the implicit function theorem, never through a solver's steps.

Where ``residual(x) = 0`` holds for all values of what the residual reads, the derivative of ``x``
by any of them is ``-A⁻¹ B`` with ``A`` and ``B`` the derivatives of the residual by ``x`` and by
it. So the answer is one node, whose inputs are the tensors that the residual reads: its arguments,
tensors of the closure, parameters of a module. A recording of one call finds them. Backward the
node solves once with ``Aᵀ`` and evaluates the residual once more. It does so with operations that
are recorded where derivatives of higher order are asked for, so these are right as well.

Note [Answers in ordinary operations]: a node that is met again after its `vmap` has ended may not
evaluate a function that holds samples; tangents are there when the answer is made, not later; and
what a call reads is unknown where it cannot be recorded. In these cases the answer is made of
steps of Newton's method, whose value is known already. The first, from an ``x`` without history,
has the first derivative of the answer; a second, from there, the first three: as Newton's method
doubles the digits, it doubles the order of what is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import has_tangent, is_batched
from adjoint.autograd import Function
from adjoint.autograd._backward import gradients
from adjoint.func import jvp

from ._frozen import Frozen
from ._iteration import norm
from ._linear import Dense, Linear, singular
from ._often import Often

__all__ = ["answer"]

Residual = Callable[[Tensor], Tensor]

_VALUE = 1e3  # times the residual: a gradient that comes from the value at a minimum
_ROUNDINGS = 64.0  # of the answer: a step of Newton's from there that says nothing


class _Answer(Function):
    """``x`` as a function of the tensors that the residual reads."""

    @staticmethod
    def forward(x: Tensor, *rest: Any) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.equation, *read = inputs
        ctx.save_for_backward(output, *read)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        x, *read = ctx.saved_tensors
        needed = ctx.needs_input_grad[2:]
        if g is None:
            return None, None, *(None for _ in needed)
        again = ad.is_grad_enabled()
        residual, linear = ctx.equation()
        ctx.equation.refuse_multiple(residual, linear, x.detach(), g.detach())
        u = linear.solve_transposed(residual, x, g)
        r = None if again else ctx.equation.graph
        keep = again or r is not None
        if r is None:
            with ad.enable_grad():
                r = residual(x if again else x.detach())
            ctx.equation.check(residual, linear, x, r)
        # The pass ends at what is read, and at x: how x depends on it is what u stands for, and how
        # one of them depends on another is not the residual's business.
        wanted = [t for t, n in zip(read, needed, strict=True) if n]
        ends = (*wanted, x) if again and x.requires_grad else (*wanted,)
        found = iter(gradients((r,), (-u,), keep, again, ends, True, end_at_inputs=True))
        return None, None, *(next(found) if n else None for n in needed)


class _Equation:
    """A residual as it was when its answer was found.

    It can be called, since `Function.apply` searches other objects for hidden tensors.
    """

    def __init__(
        self, residual: Residual, linear: Linear, r: Tensor, graph: Tensor | None = None
    ) -> None:
        self._residual, self._linear, self._original = Frozen(residual), linear, residual
        self._r = r
        self._simple = False  # whether the root is known to be no multiple one
        self.graph = graph  # the residual with its history, if that is one node

    def __call__(self) -> tuple[Residual, Linear]:
        """What gives the residual, and how to solve with its derivative."""
        if self._residual.holds():
            return self._original, self._linear
        return self._residual.function(), self._linear.anew()

    def refuse_multiple(self, residual: Residual, linear: Linear, x: Tensor, g: Tensor) -> None:
        """Raise at a multiple root, near which the solver ended.

        The derivative of the residual is not quite singular there, but nothing else either: by a
        step of Newton's it changes as much as it is. Such a step is longer than rounding, while
        one from a simple root changes the derivative as little as it is short. The least value of
        a minimum has a derivative all the same: what comes from it is a multiple of ``r``.
        """
        r = self._r
        if self._simple or not isinstance(linear, Dense):
            return
        if _core._is_recording() or is_batched(r, x, g) or has_tangent(r) or r.shape != x.shape:
            return
        with ad.no_grad():
            if float(norm(g)) <= _VALUE * float(norm(r)):
                return
            step = linear.solve(residual, x, r)
            most = _ROUNDINGS * ad.finfo(x.dtype).eps * float(norm(x))
            if most < float(norm(step)) < float("inf"):
                _, there = jvp(residual, (x - 2 * step,), (step,))
                apart = linear.solve(residual, x, there) - step
                if float(norm(apart)) > 0.5 * float(norm(step)):
                    raise singular(x)
        self._simple = True

    def check(self, residual: Residual, linear: Linear, x: Tensor, r: Tensor) -> None:
        """Raise if the residual is that of another equation now."""
        if _core._is_recording() or is_batched(r, x) or has_tangent(r):
            return
        r = r.detach()
        if ad.equal(r, self._r) or not bool(ad.isfinite(self._r).all()):
            return
        with ad.no_grad():
            away = norm(linear.solve(residual, x.detach(), r - self._r))
        if not bool(away <= ad.finfo(r.dtype).eps ** 0.25 * (1 + norm(x))):
            raise RuntimeError(
                "the derivative of an answer was asked for, but the function that was solved gives "
                f"something else now, whose zero is {float(away):.3g} away: an attribute, an item "
                "or a variable that it reads was changed since.\n"
                "  fix: give what changes to the solver by args=(...), so that it is kept"
            )


def answer(
    residual: Residual, x: Tensor, linear: Linear | None = None, often: Often | None = None
) -> Tensor:
    """``x``, where the residual is zero, with the derivatives of the equation's answer.

    ``often`` is the residual as a solver has called it, perhaps by recordings.
    """
    linear = Dense() if linear is None else linear
    x = x.detach()
    duals = _core._current_dual_level() + 1
    if not (ad.is_grad_enabled() or duals):
        return x
    known = often.with_history(x) if often is not None and not duals else None
    if known is not None:
        r, read = known
        if not read:
            return x
        made: Tensor = _Answer.apply(x, _Equation(residual, linear, r.detach(), r), *read)
        return made
    recording = _core._Recording([x])

    def call() -> tuple[Tensor, Tensor, bool, bool, bool]:
        recording.start()
        try:
            r = residual(x)
        finally:
            recording.stop()
        moves = duals > 0 and has_tangent(r)
        return r, r.detach(), r.requires_grad, moves, is_batched(r)

    # The program around, if one is recorded, has nothing of this call.
    r, value, has_gradient, moves, samples = _core._unrecorded(call)
    if not (has_gradient or moves):
        return x
    if samples or moves or recording.refused() is not None:
        if _core._is_recording():
            r = residual(x)
        steps = 1 if duals == 1 and not has_gradient else 2
        return linear.by_steps(residual, x, r, steps)
    read = [t for t in recording.reached() if t is not x]
    answered: Tensor = _Answer.apply(x, _Equation(residual, linear, value), *read)
    return answered
