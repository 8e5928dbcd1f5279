"""Messages of func, autograd.functional, vmap over custom functions, and checkpointing."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import func
from adjoint.autograd import Function, functional
from adjoint.utils.checkpoint import checkpoint, detach_variable
from tests.errors.table import Row, check, refusals

x = ad.ones(2)
pair = (x, x)


def total(*parts: Any) -> Any:
    return sum(p.sum() for p in parts)


def first(a: Any, b: Any) -> Any:
    return a.sum()


def double(a: Any) -> Any:
    return 2 * a


@refusals(
    (
        lambda: func.grad(total, argnums="0")(x),
        RuntimeError,
        "int or Tuple[int, ...], got: <class 'str'>",
    ),
    (lambda: func.grad(total, argnums=("0",))(x), RuntimeError, "got '0' in ('0',)"),
    (lambda: func.grad(total, argnums=3)(x), RuntimeError, "only 1 positional inputs"),
    (lambda: func.grad(total)("a"), ValueError, "expected tensors, but got str: 'a'"),
    (lambda: func.grad(total, has_aux=True)(x), RuntimeError, "(output, aux) if has_aux is True"),
    (lambda: func.vjp(lambda a: 3, x), RuntimeError, "its result holds int: 3"),
    (lambda: func.vjp(lambda a: (), x), RuntimeError, "non-empty output (got output = ())"),
    (lambda: func.jvp(double, (), ()), RuntimeError, "primals to hold at least one Tensor, got ()"),
    (
        lambda: func.jvp(double, (x,), (3,)),
        RuntimeError,
        "tangents to only contain Tensors, got int: 3",
    ),
    (lambda: func.jvp(double, (x,), (x, x)), RuntimeError, "the same python structure"),
    (lambda: func.jacfwd(double)("a"), ValueError, "jacfwd: expected tensors, but got str: 'a'"),
    (lambda: func.jacfwd(double, randomness="a"), RuntimeError, "allowed values for randomness"),
    (lambda: func.vjp(double, x)[1](3.0), TypeError, "cotangents: expected shape [2], got 3.0"),
    (lambda: func.vjp(double, x)[1](None), RuntimeError, "expected shape [2], got None"),
    (
        lambda: func.jacrev(lambda a: a > 1)(x),
        RuntimeError,
        "All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
        "torch.bool (output): it has no derivative",
    ),
    (
        lambda: func.vjp(lambda a: (a, a.long()), x),
        RuntimeError,
        "got Tensor with dtype torch.int64 (output[1])",
    ),
    (lambda: func.vjp(lambda a: {"n": a.long()}, x), RuntimeError, "torch.int64 (output['n'])"),
    (lambda: func.vmap(double, in_dims="a")(x), ValueError, "in_dims"),
    (lambda: func.vmap(double, in_dims=(1.5,))(x), ValueError, "Got in_dim=1.5 for an input but"),
    (lambda: func.vmap(double, out_dims=(0, 0))(x), ValueError, "out_dims is not compatible with"),
    (lambda: func.vmap(double, out_dims="a")(x), ValueError, "collection of ints, got 'a'"),
)
def test_func(row: Row) -> None:
    check(row)


def constant(a: Any) -> Any:
    return ad.ones(2)


def linear(a: Any) -> Any:
    return 2 * a


@refusals(
    (lambda: functional.vjp(first, pair, (x,)), RuntimeError, "v"),
    (lambda: functional.jvp(first, pair, (x,)), RuntimeError, "should be 2 but got 1."),
    (lambda: functional.vjp(first, pair, strict=True), RuntimeError, "independent of input 1"),
    (
        lambda: functional.vjp(lambda a: a.sum(), x, strict=True, create_graph=True),
        RuntimeError,
        "independent of input 0. This is not allowed in strict mode when create_graph=True.",
    ),
    (lambda: functional.hvp(total, x), RuntimeError, "v can only be None if the input"),
    (lambda: functional.vjp(lambda a: a, x), RuntimeError, "v"),
    (lambda: functional.jvp(linear, x), RuntimeError, "can only be None if the input to the user"),
    (
        lambda: functional.jacobian(constant, x, strict=True),
        RuntimeError,
        "does not require gradients",
    ),
    (
        lambda: functional.jacobian(linear, x, strict=True, create_graph=True),
        RuntimeError,
        "independent of input 0. This is not allowed in strict mode when create_graph=True.",
    ),
    (
        lambda: functional.jacobian(
            linear, x, create_graph=True, vectorize=True, strategy="forward-mode"
        ),
        NotImplementedError,
        "Please either set `create_graph=False`",
    ),
    (lambda: functional.jacobian(first, pair, strict=True), RuntimeError, "independent of input 1"),
    (lambda: functional.hessian(lambda a: pair, x), RuntimeError, "should return a single Tensor"),
    (lambda: functional.hessian(linear, x), RuntimeError, "should contain a single element"),
    (lambda: functional.hessian(total, x, strict=True), RuntimeError, "strict mode"),
    (
        lambda: functional.hessian(total, x, outer_jacobian_strategy="sideways"),
        ValueError,
        "got 'sideways'",
    ),
    (
        lambda: functional.vhp(lambda a: (a * 0 + 1).sum(), x, x, strict=True),
        RuntimeError,
        "strict",
    ),
    (lambda: functional.hvp(total, x, x, strict=True), RuntimeError, "strict mode"),
)
def test_functional(row: Row) -> None:
    check(row)


def batched_function(kind: str) -> type[Function]:
    """Return x * 2 as a function whose vmap support is wrong in one way."""

    class Twice(Function):
        generate_vmap_rule = kind in ("generated", "both")

        @staticmethod
        def forward(a: Any) -> Any:
            return 2 * a

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g

    def vmap(info: Any, in_dims: Any, a: Any) -> Any:
        return 2 * a if kind == "result" else (2 * a, (0, 0))

    if kind not in ("generated", "none"):
        Twice.vmap = staticmethod(vmap)  # type: ignore[method-assign]
    return Twice


@refusals(
    (lambda: func.vmap(batched_function("both").apply)(x), RuntimeError, "to avoid ambiguity."),
    (
        lambda: func.vmap(batched_function("none").apply)(x),
        RuntimeError,
        "set generate_vmap_rule=T",
    ),
    (lambda: func.vmap(batched_function("result").apply)(x), RuntimeError, "got a Tensor"),
    (
        lambda: func.vmap(batched_function("dims").apply)(x),
        RuntimeError,
        "out_dims=(0, 0) does not fit the structure of the output",
    ),
    (
        lambda: func.vmap(batched_function("generated").apply)(ad.ones(0, 2)),
        RuntimeError,
        "vmap over Twice: there are no samples",
    ),
    (lambda: Function.backward(None, x), NotImplementedError, "either the backward or vjp method"),
    (lambda: Function.vjp(None, x), NotImplementedError, "either the backward or vjp method"),
    (lambda: Function.jvp(None, x), NotImplementedError, "jvp"),
    (lambda: detach_variable([x]), RuntimeError, "Only tuple of tensors is supported."),  # type: ignore[arg-type]
)
def test_custom_functions(row: Row) -> None:
    check(row)


def test_a_checkpointed_value_is_unpacked_once() -> None:
    a = ad.ones(2, requires_grad=True)

    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, b: Any) -> Any:
            ctx.save_for_backward(b)
            return 2 * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert len(ctx.saved_tensors) == 1
            return ctx.saved_tensors[0] * 0 + 2 * g

    y = checkpoint(lambda b: Twice.apply(b * 1), a, use_reentrant=False)
    with pytest.raises(RuntimeError, match="make sure to do so only once"):
        y.sum().backward()
