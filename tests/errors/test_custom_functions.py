"""Messages of rare mistakes in custom functions, saved values and functorch's internals."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import _core, func, nn
from adjoint._C import _functorch
from adjoint._functorch import make_functional as made
from adjoint.autograd import Function
from adjoint.func import _restore_vmap
from tests.errors.table import Row, check, refusals

core: Any = _core


def leaf(*shape: int) -> Any:
    return ad.ones(*shape, requires_grad=True)


def misused(step: str) -> type[Function]:
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if step == "field":
                ctx.to_save = 3
            if step == "many":
                ctx.save_for_backward(*[x] * 70_000)
            if step == "dirty":
                ctx.mark_dirty(x)
                return x
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g

    return Twice


def view_without_recording() -> Any:
    with ad.no_grad():
        return leaf(2)[:1]


def after_backward() -> Any:
    y = leaf(2) * ad.ones(2)
    y.sum().backward()
    return y.grad_fn._saved_other


def freed_while_unpacking(op: Any) -> Any:
    ran = []

    def unpack(t: Any) -> Any:
        if not ran:
            ran.append(True)
            y.backward(ad.ones_like(y))
        return t

    with ad.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = op(leaf(2))
    return y.grad_fn(ad.ones_like(y))


def asked_while_grad_runs() -> None:
    x = leaf(2)
    accumulator = x.view_as(x).grad_fn.next_functions[0][0]
    y = x * 2
    y.register_hook(lambda g: core._will_engine_execute_node(accumulator) and None)
    ad.autograd.grad(y.sum(), x)


def levels_left_in_the_wrong_order() -> None:
    outer = core._enter_dual_level()
    inner = core._enter_dual_level()
    try:
        core._exit_dual_level(outer)
    finally:
        core._exit_dual_level(inner)
        core._exit_dual_level(outer)


def two_zeros_twice() -> None:
    x, at = ad.zeros(2, requires_grad=True), ad.tensor([0, 0])
    y = ad.ones(1).scatter_reduce(0, at, x, "prod")
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()


def frequencies_twice() -> None:
    w = leaf(2, 2)
    y = nn.functional.embedding(ad.tensor([0, 0]), w, scale_grad_by_freq=True)
    (g,) = ad.autograd.grad((y**2).sum(), w, create_graph=True)
    g.sum().backward()


class Refusing(ad.Tensor):
    """Leaves every function to others."""

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented


class Early(nn.Module):
    """Assigns before nn.Module's __init__ has run."""

    def __init__(self) -> None:
        self.mean = nn.Buffer(ad.ones(1))


@refusals(
    (lambda: misused("field").apply(leaf(2)), TypeError, "expected a tuple or None"),
    (lambda: misused("many").apply(leaf(2)), RuntimeError, "70000 tensors are too many"),
    (
        lambda: misused("dirty").apply(ad.ones(4)[:2].requires_grad_()),
        RuntimeError,
        "a view of a leaf Variable that requires grad is being used in an in-place operation: Twi",
    ),
    (lambda: misused("dirty").apply(view_without_recording()), RuntimeError, "a view of a leaf"),
    (after_backward, RuntimeError, "freed"),
    (lambda: freed_while_unpacking(lambda x: x * leaf(2)), RuntimeError, "freed"),
    (lambda: freed_while_unpacking(lambda x: x.logsumexp(0)), RuntimeError, "freed"),
    (lambda: freed_while_unpacking(lambda x: x.prod()), RuntimeError, "freed"),
    (asked_while_grad_runs, RuntimeError, "This is currently not supported."),
    (levels_left_in_the_wrong_order, RuntimeError, "that was not the last one that was created"),
    (two_zeros_twice, RuntimeError, "fix: compute the products with prod() over an axis"),
    (frequencies_twice, RuntimeError, "double backward is not supported with scale_grad_by_freq"),
    (lambda: ad.ones(2).as_subclass(Refusing) + 1, TypeError, "Multiple dispatch failed for"),
    (
        lambda: core._run_backward((leaf(1),), (), False, False, (), False, False),
        RuntimeError,
        "got",
    ),
    (Early, AttributeError, "cannot assign buffer before Module.__init__() call"),
    (lambda: made.functional_init(nn.Linear, (2, 3))(1, 1), ValueError, "more than 1 element"),
    (lambda: made.functional_init(nn.Linear, (0,))(1, 1), ValueError, "num_models 0 should be > 0"),
    (
        lambda: _functorch.reshape_dim_outof(0, 2, ad.ones(3)),
        RuntimeError,
        "of size 3 cannot be spl",
    ),
    (
        lambda: _restore_vmap.restore_vmap(func.vmap, (0, 0), 2, "error")(ad.ones(2)),
        ValueError,
        "in_dims (0, 0) does not fit the structure of the arguments",
    ),
)
def test_rarer_mistakes(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        ("PyBUF_C_CONTIGUOUS", "not contiguous; use .contiguous()"),
        ("PyBUF_F_CONTIGUOUS", "not contiguous in Fortran's order"),
        ("PyBUF_ANY_CONTIGUOUS", "not contiguous; use .contiguous()"),
    ],
)
def test_buffers_of_an_order_that_is_not_there(flag: str, part: str) -> None:
    testbuffer = pytest.importorskip("_testbuffer")
    with pytest.raises(BufferError, match=part):
        testbuffer.ndarray(ad.ones(4, 4)[::2, ::2], getbuf=getattr(testbuffer, flag))
