"""An external as nodes of the graph.

Four linear maps belong to a function f at x: ``pull`` (J'u), ``push`` (Jv), and the derivatives of
both along w, ``pull_derivative`` (d pull / dx w) and ``push_derivative`` (d push / dx w). Each is a
node whose own derivatives are among the others:

    f      backward: pull                               forward mode: push
    pull   backward: pull_derivative in x, push in u;   forward mode: pull_derivative + pull
    push   backward: pull_derivative in x, pull in v;   forward mode: push_derivative + push

Second derivatives are symmetric, so the gradient of u'J(x)w by x is the derivative of J'u along w:
a pair of Jacobians, whatever the number of inputs. There is no third order. Read next: _call.py.
"""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd._hidden_read_names import describe
from adjoint.autograd.function import Function

from ._host_calls import derivatives, evaluate, linear

__all__ = ["ExternalFunction"]


def _zeros_for(values: Any, like: list[Tensor]) -> list[Tensor]:
    return [_core.zeros_like(t) if v is None else v for v, t in zip(values, like, strict=True)]


class ExternalFunction(Function):
    """The function itself."""

    @staticmethod
    def forward(ctx: Any, call: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Evaluate once; keep inputs and outputs, in case a derivative is asked for."""
        outputs, fixed = evaluate(call, inputs)
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *outputs)
        if _core._current_dual_level() >= 0:  # elsewhere the outputs would be held in a cycle
            ctx.save_for_forward(*inputs, *outputs)
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """J'u, recorded if a graph of it is wanted."""
        call = ctx.call
        saved = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        count = len(wanted)
        if not any(wanted):  # recorded for the sake of what the function read in secret
            return (None,) * (count + 1)
        if _core.is_grad_enabled():
            user = call.recorded_vjp(saved, grads)
            if user is not None:
                return (None, *user)
        given = _zeros_for(grads, list(saved[count:]))
        maps = derivatives(call, saved, wanted)
        chosen = [t for t, w in zip(saved[:count], wanted, strict=True) if w]
        found = iter(Pull.apply(maps, len(chosen), *chosen, *maps.useful(given)))
        return (None, *(next(found) if w else None for w in wanted))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        """Jv."""
        call = ctx.call
        saved = ctx.saved_tensors
        wanted = [t is not None for t in tangents]
        maps = derivatives(call, saved, wanted)
        chosen = [t for t, w in zip(saved, wanted, strict=False) if w]
        given = [t for t in tangents if t is not None]
        found = iter(Push.apply(maps, len(chosen), *chosen, *given))
        useful = set(maps.useful_positions())
        outputs = range(len(saved) - len(tangents))
        return tuple(next(found) if k in useful else None for k in outputs)

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: Any, *inputs: Tensor) -> Any:
        """A batch: one call for a function that takes batches, else a loop over the workers."""
        return call.batch(info.batch_size, in_dims[1:], inputs)

    @staticmethod
    def _describe_reads(
        args: tuple[Any, ...], tensors: list[Tensor | None], tangents: bool
    ) -> tuple[list[str], str, str]:
        """What messages say of tensors that the function read although they are not arguments.

        In words of the function's user, who wrote no Function.
        """
        name = args[0].definition.name
        named = describe([], args[0].definition.function, tensors, name)
        cause = (
            f"{name} computes with it although it is not one of its arguments, and an external is "
            "differentiated by its arguments alone"
        )
        fix = f"pass it to {name} as an argument"
        if not tangents:
            fix += (
                f"; use its detach() in {name}, or call {name} under no_grad(), if no gradient is "
                "wanted"
            )
        return named, cause, fix


def _keep(ctx: Any, kind: str, maps: Any, count: int, given: tuple[Tensor, ...]) -> None:
    """What the rules of Pull and Push read: the ``count`` tensors of x, and the others."""
    ctx.kind, ctx.maps, ctx.count = kind, maps, count
    ctx.save_for_backward(*given)
    ctx.save_for_forward(*given)


def _backward(ctx: Any, u: Any, v: Any, other: type[Function], into: Any) -> tuple[Any, ...]:
    """The gradients of u'J(x)v: by x, and by what was given, which is ``other`` of ``into``."""
    x, needs = ctx.saved_tensors[: ctx.count], ctx.needs_input_grad
    by_x: Any = [None] * ctx.count
    if any(needs[2 : 2 + ctx.count]):
        by_x = _second(PullDerivative, ctx.maps, u, v, x)
    by_given: Any = [None] * (len(needs) - 2 - ctx.count)
    if any(needs[2 + ctx.count :]):
        by_given = other.apply(ctx.maps, ctx.count, *x, *into)
    return (None, None, *by_x, *by_given)


class Pull(Function):
    """J(x)'u."""

    @staticmethod
    def forward(ctx: Any, maps: Any, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        _keep(ctx, "pull", maps, count, given)
        return linear(maps, "pull", given[count:], like=given[:count])

    @staticmethod
    def vmap(info: Any, in_dims: Any, maps: Any, count: int, *given: Tensor) -> Any:
        return _each(info.batch_size, in_dims[2:], Pull, maps, count, given)

    @staticmethod
    def backward(ctx: Any, *w: Any) -> Any:
        return _backward(ctx, ctx.saved_tensors[ctx.count :], w, Push, w)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
        maps, u = ctx.maps, ctx.saved_tensors[ctx.count :]
        w, du = tangents[: ctx.count], tangents[ctx.count :]
        return _sum(
            _second(PullDerivative, maps, u, w, ctx.saved_tensors[: ctx.count])
            if _any(w)
            else None,
            _first(Pull, ctx, du) if _any(du) else None,
        )


class Push(Function):
    """J(x)v."""

    @staticmethod
    def forward(ctx: Any, maps: Any, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        _keep(ctx, "push", maps, count, given)
        return linear(maps, "push", given[count:])

    @staticmethod
    def vmap(info: Any, in_dims: Any, maps: Any, count: int, *given: Tensor) -> Any:
        return _each(info.batch_size, in_dims[2:], Push, maps, count, given)

    @staticmethod
    def backward(ctx: Any, *u: Any) -> Any:
        return _backward(ctx, u, ctx.saved_tensors[ctx.count :], Pull, u)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
        maps, v = ctx.maps, ctx.saved_tensors[ctx.count :]
        w, dv = tangents[: ctx.count], tangents[ctx.count :]
        return _sum(
            _second(PushDerivative, maps, v, w, ctx.saved_tensors[: ctx.count])
            if _any(w)
            else None,
            _first(Push, ctx, dv) if _any(dv) else None,
        )


class SecondDerivative(Function):
    """A derivative of a first derivative; differences go no further."""

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(_NO_THIRD)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(_NO_THIRD)


class PullDerivative(SecondDerivative):
    """The derivative of J(x)'u along w; ``count`` is the number of u."""

    @staticmethod
    def forward(ctx: Any, maps: Any, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        return linear(maps, "pull_derivative", given[:count], _middle(given, count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, maps: Any, count: int, *given: Tensor) -> Any:
        return _each(info.batch_size, in_dims[2:], PullDerivative, maps, count, given)


class PushDerivative(SecondDerivative):
    """The derivative of J(x)v along w; ``count`` is the number of v."""

    @staticmethod
    def forward(ctx: Any, maps: Any, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        return linear(maps, "push_derivative", given[:count], _middle(given, count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, maps: Any, count: int, *given: Tensor) -> Any:
        return _each(info.batch_size, in_dims[2:], PushDerivative, maps, count, given)


_NO_THIRD = (
    "an external has no third derivative by differences; "
    "fix: give a vjp= written with tensors (arrays='tensor'), which is recorded to any order"
)


def _second(of: Any, maps: Any, u: Any, w: Any, like: Any) -> Any:
    # x goes in too, though the values are with the maps: a third derivative must be noticed.
    return of.apply(maps, len(u), *u, *_zeros_for(w, list(like)), *like)


def _middle(given: Any, count: int) -> Any:
    """w, of u, w and x."""
    return given[count : count + (len(given) - count) // 2]


def _first(of: Any, ctx: Any, tangents: Any) -> Any:
    saved = ctx.saved_tensors
    given = _zeros_for(tangents, list(saved[ctx.count :]))
    return of.apply(ctx.maps, ctx.count, *saved[: ctx.count], *given)


def _each(size: int, dims: Any, of: Any, maps: Any, count: int, given: Any) -> Any:
    """A batch of vectors through one linear map, for vmap: the Jacobian is found once."""
    # An input that is batched for the sake of its tangent is the same in each sample.
    batched = [x for x, d in zip(given[:count], dims, strict=False) if d is not None]
    if of in (Pull, Push) and not all(_core._has_tangent(x) for x in batched):
        raise RuntimeError(
            "vmap over the derivative of an external whose input is batched too; "
            "fix: put the derivative inside the function that vmap gets: vmap(grad(f))"
        )
    if of is Push:
        maps.expected = size
    rows = []
    for i in range(size):
        # Applied as a node again: other transforms around this one must see it.
        pairs = zip(given, dims, strict=True)
        row = [v if d is None else v.select(d, i) for v, d in pairs]
        rows.append(of.apply(maps, count, *row))
    made = tuple(_core.stack(list(column)) for column in zip(*rows, strict=True))
    return made, (0,) * len(made)


def _any(items: Any) -> bool:
    return any(item is not None for item in items)


def _sum(a: list[Tensor] | None, b: list[Tensor] | None) -> tuple[Tensor, ...]:
    if a is None or b is None:
        return tuple(a or b or ())
    return tuple(p + q for p, q in zip(a, b, strict=True))
