"""What is asked of one of torch's samples, of either library: values, derivatives, variants.

An aspect is a function of a `Side` that returns what it saw, by name; `replay.py` compares what the
two sides saw.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

import adjoint as ad
from tests.conformance.opinfo import convert, named, ours, rebound, seed_torch

torch = pytest.importorskip("torch")

Seen = dict[str, Any]
WIDE = {torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.float16: torch.float64}


@dataclass(frozen=True)
class Side:
    """A sample on one of the libraries; `wide` has torch compute it in double precision."""

    op: Any
    dtype: Any
    sample: Any
    library: Any
    wide: bool = False

    @property
    def mine(self) -> bool:
        return self.library is ad

    def ours(self) -> Side:
        return replace(self, library=ad)

    def truth(self) -> Side:
        return replace(self, wide=True)

    def convert(self, value: Any) -> Any:
        """Return fresh copies of torch's tensors, as this side wants them."""
        if self.mine:
            return convert(value)
        value = replaced(value, copied)
        return replaced(value, widened) if self.wide else value

    def given(self) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments in memory of their own."""
        return self.convert(([self.sample.input, *self.sample.args], self.sample.kwargs))

    def function(self) -> Callable[..., Any]:
        return ours(self.op) if self.mine else self.op.op  # type: ignore[return-value]

    def variant(self, theirs: Any) -> Any:
        """Return what this library has for a method or an operator of torch's."""
        if not self.mine:
            return theirs
        if isinstance(theirs, functools.partial):
            return functools.partial(self.variant(theirs.func), *theirs.args, **theirs.keywords)
        room = getattr(theirs, "__module__", None) or ""
        if isinstance(theirs, types.FunctionType) and room.startswith("torch.testing"):
            return rebound(theirs)
        if room == "torch.nn.functional":
            return named(f"nn.functional.{theirs.__name__}")
        if room == "_operator":
            return theirs
        return lambda t, *args, **kwargs: getattr(t, theirs.__name__)(*args, **kwargs)

    def processed(self, result: Any) -> Any:
        """Return the result as torch's own tests look at it: without a free phase or sign."""
        process = self.sample.output_process_fn_grad
        return (rebound(process) if self.mine else process)(result)

    def is_processed(self) -> bool:
        code = getattr(self.sample.output_process_fn_grad, "__code__", None)
        return code is None or code.co_code != (lambda x: x).__code__.co_code

    def random_like(self, given: list[Any], seed: int) -> list[Any]:
        """Return random tensors of these shapes, the same in both libraries."""
        seed_torch(seed)
        kinds = [getattr(torch, str(t.dtype).removeprefix("torch.")) for t in given]
        if self.wide:  # as the narrow ones were drawn
            kinds = [self.dtype if k is torch.float64 else k for k in kinds]
        shapes = [tuple(t.shape) for t in given]
        made = [torch.randn(s, dtype=k) for s, k in zip(shapes, kinds, strict=True)]
        return self.convert(made)  # type: ignore[no-any-return]


# --- nested values of both libraries --------------------------------------------------------------


def copied(t: Any) -> Any:
    """Return a copy of torch's tensor with its strides, and its place among the leaves."""
    if t.layout != torch.strided or t.is_conj() or t.is_neg():
        return t.detach().clone().requires_grad_(t.requires_grad)
    memory = t.detach().untyped_storage().clone()
    made = torch.empty(0, dtype=t.dtype).set_(memory, t.storage_offset(), t.shape, t.stride())
    return made.requires_grad_(t.requires_grad)


def widened(t: Any) -> Any:
    made = t.detach().to(WIDE.get(t.dtype, t.dtype))
    return made.requires_grad_(t.requires_grad)


def leaves(value: Any) -> list[Any]:
    """Return what a nested result consists of, in order: tensors, numbers, names."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size | ad.Size):
        return [leaf for v in value for leaf in leaves(v)]
    return [value]


def tensors(value: Any) -> list[Any]:
    return [v for v in leaves(value) if isinstance(v, torch.Tensor | ad.Tensor)]


def needing(value: Any) -> list[Any]:
    return [t for t in tensors(value) if t.requires_grad]


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value with its tensors changed."""
    if isinstance(value, torch.Tensor | ad.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: replaced(v, change) for k, v in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(replaced(v, change) for v in value)
    return value


def numbered(what: str, value: Any) -> Seen:
    parts = leaves(value)
    return {f"{what} {i}" if len(parts) > 1 else what: part for i, part in enumerate(parts)}


# --- the aspects ----------------------------------------------------------------------------------


def value(side: Side) -> Seen:
    args, kwargs = side.given()
    result = side.function()(*args, **kwargs)
    seen = {"requires_grad": [t.requires_grad for t in tensors(result)]}
    if side.is_processed():
        seen["kinds"] = [(str(t.dtype), tuple(t.shape)) for t in tensors(result)]
        return seen | numbered("processed value", side.processed(result))
    return seen | numbered("value", result)


def first_gradients(side: Side, second: bool) -> tuple[list[Any], list[Any]]:
    """Return the gradients of the sample, and what the sample and they depend on."""
    given = side.given()
    args, kwargs = given
    tops = needing(side.processed(side.function()(*args, **kwargs)))
    weights = [w.requires_grad_(second) for w in side.random_like(tops, 0)]
    inputs = needing(list(given))
    if not tops:
        return [], []
    grad = side.library.autograd.grad
    found = grad(tops, inputs, weights, allow_unused=True, create_graph=second)
    return list(found), inputs + weights


def gradient(side: Side) -> Seen:
    return numbered("gradient", first_gradients(side, second=False)[0])


def second_gradient(side: Side) -> Seen:
    first, inputs = first_gradients(side, second=True)
    places = [i for i, t in enumerate(first) if t is not None and t.requires_grad]
    if not places:
        return {}
    # By place, so that a gradient without a graph on one side leaves the other weights alone.
    weights = [side.random_like([first[i]], 1 + i)[0] for i in places]
    grad = side.library.autograd.grad
    found = grad([first[i] for i in places], inputs, weights, allow_unused=True)
    return numbered("second gradient", list(found))


def forward_mode(side: Side) -> Seen:
    mode = side.library.autograd.forward_ad
    given = list(side.given())
    directions = iter(side.random_like(needing(given), 2))
    with mode.dual_level():
        args, kwargs = replaced(
            given,
            lambda t: mode.make_dual(t.detach(), next(directions)) if t.requires_grad else t,
        )
        results = tensors(side.processed(side.function()(*args, **kwargs)))
        return numbered("tangent", [mode.unpack_dual(t).tangent for t in results])


def method(side: Side, theirs: Any) -> Seen:
    args, kwargs = side.given()
    return numbered("value", side.processed(side.variant(theirs)(*args, **kwargs)))


def in_place(side: Side, theirs: Any) -> Seen:
    args, kwargs = side.given()
    inputs = needing([args, kwargs])
    changed = args[0] = args[0].clone()  # a leaf may not be changed
    result = side.variant(theirs)(*args, **kwargs)
    seen = {"is the input": result is changed} | numbered("value", side.processed(result))
    if isinstance(result, side.library.Tensor) and result.requires_grad:
        weights = side.random_like([result], 0)
        grad = side.library.autograd.grad
        seen |= numbered("gradient", list(grad([result], inputs, weights, allow_unused=True)))
    return seen


def out(side: Side) -> Seen:
    """Give results to take, of several kinds; what is refused is seen as its exception."""
    args, kwargs = replaced(list(side.given()), lambda t: t.detach())
    plain = side.function()(*args, **kwargs)
    if len(tensors(plain)) != len(leaves(plain)):
        return {}
    kinds = [(tuple(t.shape), getattr(torch, str(t.dtype)[6:])) for t in tensors(plain)]
    other = torch.int64 if side.dtype != torch.int64 else torch.bool
    places = {
        "out": [torch.full(s, 3, dtype=d) for s, d in kinds],
        "strided out": [torch.full((*s, 2), 3, dtype=d)[..., 0] for s, d in kinds],
        "empty out": [torch.empty(0, dtype=d) for _, d in kinds],
        "double out": [torch.zeros(s, dtype=torch.float64) for s, _ in kinds],
        "other out": [torch.zeros(s, dtype=other) for s, _ in kinds],
    }
    seen: Seen = {}
    for what, theirs in places.items():
        made = side.convert(theirs)
        args, kwargs = replaced(list(side.given()), lambda t: t.detach())
        given = made[0] if len(tensors(plain)) == 1 and plain is tensors(plain)[0] else tuple(made)
        try:
            result = side.function()(*args, **kwargs, out=given)
        except Exception as error:
            seen[what] = error
            continue
        seen[what] = [a is b for a, b in zip(tensors(result), made, strict=True)]
        seen |= numbered(f"{what} value", side.processed(given))
    return seen


def aspects(side: Side) -> Iterator[tuple[str, Callable[[Side], Seen]]]:
    """Give what can be asked of a sample, by name."""
    op, sample = side.op, side.sample
    yield "value", value
    if needing([sample.input, sample.args, sample.kwargs]):
        yield "gradient", gradient
        if op.supports_gradgrad:
            yield "second gradient", second_gradient
        if op.supports_forward_ad:
            yield "forward mode", forward_mode
    if isinstance(sample.input, torch.Tensor):
        if op.method_variant is not None:
            yield "method", functools.partial(method, theirs=op.method_variant)
        if op.operator_variant is not None and not sample.kwargs:
            yield "operator", functools.partial(method, theirs=op.operator_variant)
        if not sample.broadcasts_input:
            if op.inplace_variant is not None:
                yield "in-place", functools.partial(in_place, theirs=op.inplace_variant)
            if op.inplace_operator_variant is not None and not sample.kwargs:
                form = functools.partial(in_place, theirs=op.inplace_operator_variant)
                yield "in-place operator", form
    if op.supports_out:
        yield "out", out
