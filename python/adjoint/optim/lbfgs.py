"""L-BFGS, with or without a line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor
from adjoint.optim._options import _to_scalar, check_rate
from adjoint.optim.optimizer import Optimizer, ParamsT

__all__ = ["LBFGS"]

_Objective = Callable[[Any, Any, Tensor], tuple[float, Tensor]]


class LBFGS(Optimizer):
    """Quasi-Newton steps from a short history of gradients (Liu and Nocedal, 1989).

    All parameters form one group. `step` needs a closure that clears the gradients, computes the
    loss, and returns it after `backward()`.

    Parameters
    ----------
    params : iterable
        What to optimise: tensors or (name, tensor) pairs.
    lr : float or Tensor, default 1
        The length of a step, or the first guess of the line search.
    max_iter : int, default 20
        Directions to go in one call of `step`.
    max_eval : int, optional
        Calls of the closure in one call of `step`; max_iter * 5 // 4 if not given.
    tolerance_grad : float, default 1e-7
        Stop when no gradient is larger.
    tolerance_change : float, default 1e-9
        Stop when neither parameters nor loss change by more.
    history_size : int, default 100
        How many past steps are remembered.
    line_search_fn : {"strong_wolfe"}, optional
        Choose the lengths of steps by a line search.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]
        self._numel_cache: int | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]
        self._numel_cache = None

    # -- all parameters as one vector ------------------------------------------------------------

    def _numel(self) -> int:
        if self._numel_cache is None:
            self._numel_cache = sum(p.numel() * (1 + p.is_complex()) for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self) -> Tensor:
        parts = []
        for parameter in self._params:
            grad: Any = parameter.grad
            if grad is None:
                grad = ad.zeros_like(parameter, requires_grad=False)
            elif grad.is_sparse:
                grad = grad.to_dense()
            parts.append((ad.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return ad.cat(parts, 0)

    def _add_grad(self, step_size: Any, update: Tensor) -> None:
        """Move the parameters by `step_size` times a vector."""
        begin = 0
        for parameter in self._params:
            part = ad.view_as_real(parameter) if parameter.is_complex() else parameter
            end = begin + part.numel()
            part.add_(update[begin:end].view_as(part), alpha=_number(step_size))
            begin = end

    def _clone_param(self) -> list[Tensor]:
        return [p.clone(memory_format=ad.contiguous_format) for p in self._params]

    def _set_param(self, params_data: list[Tensor]) -> None:
        for parameter, saved in zip(self._params, params_data, strict=True):
            parameter.copy_(saved)

    def _directional_evaluate(
        self, closure: Callable[[], Any], x: list[Tensor], t: Any, d: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient a distance `t` along `d`; the parameters are put back to `x`."""
        self._add_grad(t, d)
        loss = float(closure())
        flat_grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, flat_grad

    # -- stepping --------------------------------------------------------------------------------

    @ad.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Go in up to `max_iter` directions.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss, calls `backward()` and returns the loss.

        Returns
        -------
        The loss before the step.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}"
            )
        evaluate = ad.enable_grad()(closure)
        group = self.param_groups[0]
        lr = _to_scalar(group["lr"])
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        before = evaluate()
        loss = float(before)
        evaluations = 1
        state["func_evals"] += 1
        flat_grad = self._gather_flat_grad()
        if _largest(flat_grad) <= group["tolerance_grad"]:
            return before
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            _next_direction(state, flat_grad, group["history_size"])
            d = state["d"]
            _remember(state, flat_grad, loss)
            first = state["n_iter"] == 1
            t = min(1.0, 1.0 / flat_grad.abs().sum()) * lr if first else lr
            state["t"] = t
            slope = flat_grad.dot(d)
            if slope > -group["tolerance_change"]:
                break
            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                loss, flat_grad, t, used = _strong_wolfe(
                    lambda x, t, d: self._directional_evaluate(evaluate, x, t, d),
                    self._clone_param(),
                    t,
                    d,
                    loss,
                    flat_grad,
                    slope,
                    max_ls=group["max_eval"] - evaluations,
                )
                state["t"] = t
                self._add_grad(t, d)
            else:
                self._add_grad(t, d)
                used = 0
                if not last:  # nobody would look at the gradient after the last move
                    loss = float(evaluate())
                    flat_grad = self._gather_flat_grad()
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if (
                last
                or evaluations >= group["max_eval"]
                or _largest(flat_grad) <= group["tolerance_grad"]
                or _largest(d.mul(t)) <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return before


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _largest(x: Tensor) -> Tensor:
    return x.abs().max()


def _remember(state: dict[str, Any], flat_grad: Tensor, loss: float) -> None:
    if state.get("prev_flat_grad") is None:
        state["prev_flat_grad"] = flat_grad.clone(memory_format=ad.contiguous_format)
    else:
        state["prev_flat_grad"].copy_(flat_grad)
    state["prev_loss"] = loss


def _next_direction(state: dict[str, Any], flat_grad: Tensor, history_size: int) -> None:
    """Set state["d"]: minus the inverse Hessian, as the history tells it, times the gradient."""
    if state["n_iter"] == 1:
        state.update(d=flat_grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return
    changes, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    change = flat_grad.sub(state["prev_flat_grad"])
    move = state["d"].mul(state["t"])
    curvature = change.dot(move)
    if curvature > 1e-10:
        if len(changes) == history_size:
            for oldest in (changes, moves, inverses):
                oldest.pop(0)
        changes.append(change)
        moves.append(move)
        inverses.append(1.0 / curvature)
        state["H_diag"] = curvature / change.dot(change)
    # The two loops of the recursion: newest to oldest, and back.
    weights = state.setdefault("al", [None] * history_size)
    q = flat_grad.neg()
    for i in reversed(range(len(changes))):
        weights[i] = moves[i].dot(q) * inverses[i]
        q.add_(changes[i], alpha=-weights[i].item())
    d = q.mul(state["H_diag"])
    for i in range(len(changes)):
        back = changes[i].dot(d) * inverses[i]
        d.add_(moves[i], alpha=(weights[i] - back).item())
    state["d"] = d


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """Where the cubic through two points, with values f and slopes g, is least within bounds."""
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    # A tensor, so that a division by zero is no error.
    d2 = (square if isinstance(square, Tensor) else ad.tensor(square, dtype=ad.float64)).sqrt()
    if x1 <= x2:
        least = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        least = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(least, low), high)


class _Point(NamedTuple):
    """A distance along the line with the loss, the gradient and the slope there."""

    t: Any
    loss: Any
    grad: Tensor
    slope: Any


def _strong_wolfe(
    obj_func: _Objective,
    x: Any,
    t: Any,
    d: Tensor,
    f: float,
    g: Tensor,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Any, Tensor, Any, int]:
    """A distance along `d` that meets the strong Wolfe conditions (Nocedal and Wright, 3.5).

    Parameters
    ----------
    obj_func : callable
        (x, t, d) -> loss and gradient at x + t * d.
    x, t, d : start, first distance, direction
    f, g, gtd : loss, gradient and slope at the start
    c1, c2 : float
        How much the loss must fall, and the slope flatten.
    tolerance_change : float
        Stop when the interval is shorter, times the largest entry of `d`.
    max_ls : int
        Steps to take at most.

    Returns
    -------
    tuple
        Loss, gradient, distance, and the number of evaluations.
    """
    evaluations = 0

    def at(t: Any) -> _Point:
        nonlocal evaluations
        evaluations += 1
        loss, grad = obj_func(x, t, d)
        return _Point(t, loss, grad.clone(memory_format=ad.contiguous_format), grad.dot(d))

    def too_high(point: _Point) -> bool:
        return bool(point.loss > f + c1 * point.t * gtd)

    def too_short(a: _Point, b: _Point) -> bool:
        return bool(abs(b.t - a.t) * longest < tolerance_change)

    longest = _largest(d)
    start = _Point(0, f, g.clone(memory_format=ad.contiguous_format), gtd)
    before, now = start, at(t)
    for taken in range(max_ls):  # go on until a minimum is enclosed
        if too_high(now) or (taken > 1 and now.loss >= before.loss):
            bracket = [before, now]
            break
        if abs(now.slope) <= -c2 * gtd:
            return now.loss, now.grad, now.t, evaluations
        if now.slope >= 0:
            bracket = [before, now]
            break
        further = _cubic_interpolate(
            before.t,
            before.loss,
            before.slope,
            now.t,
            now.loss,
            now.slope,
            bounds=(now.t + 0.01 * (now.t - before.t), now.t * 10),
        )
        before, now = now, at(further)
    else:
        best = start if start.loss <= now.loss else now
        return best.loss, best.grad, best.t, evaluations
    best = _zoom(at, too_high, too_short, bracket, -c2 * gtd, max_ls - taken)
    return best.loss, best.grad, best.t, evaluations


def _zoom(
    at: Callable[[Any], _Point],
    too_high: Callable[[_Point], bool],
    too_short: Callable[[_Point, _Point], bool],
    bracket: list[_Point],
    flat: Any,
    steps: int,
) -> _Point:
    """Narrow an interval that holds an acceptable point; the best one found."""
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    stuck = False
    for _ in range(steps):
        a, b = bracket
        if too_short(a, b):
            break
        t = _cubic_interpolate(a.t, a.loss, a.slope, b.t, b.loss, b.slope)
        t, stuck = _away_from_ends(t, min(a.t, b.t), max(a.t, b.t), stuck)
        now = at(t)
        if too_high(now) or now.loss >= bracket[low].loss:
            bracket[high] = now
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = abs(now.slope) <= flat
        if not done and now.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
        if done:
            break
    return bracket[low]


def _away_from_ends(t: Any, left: Any, right: Any, stuck: bool) -> tuple[Any, bool]:
    """A point close to an end twice in a row makes no progress: then take one a tenth inside."""
    margin = 0.1 * (right - left)
    if not min(right - t, t - left) < margin:
        return t, False
    if not (stuck or t >= right or t <= left):
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
