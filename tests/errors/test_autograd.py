"""Messages of autograd: attributes, hooks, backward, saved values, custom functions, modes."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import Function
from adjoint.autograd.function import FunctionCtx
from adjoint.autograd.gradcheck import GradcheckError
from adjoint.autograd.graph import GradientEdge, saved_tensors_hooks
from tests.errors.table import Row, check, refusals


def leaf(*shape: int) -> Any:
    return ad.ones(*shape, requires_grad=True)


def give(t: Any, name: str, value: Any) -> None:
    setattr(t, name, value)


def lose(t: Any, name: str) -> None:
    delattr(t, name)


def with_grad(dtype: Any) -> Any:
    x = leaf(2)
    x.grad = ad.ones(2)
    x.data = ad.ones(2, dtype=dtype)
    return x


def own_grad() -> None:
    x = leaf(2)
    x.grad = x


@refusals(
    (lambda: lose(leaf(2), "requires_grad"), RuntimeError, "cannot be deleted; set it to False"),
    (lambda: give(leaf(2) * 2, "requires_grad", False), RuntimeError, "use var_no_grad = var.deta"),
    (lambda: give(ad.arange(2), "requires_grad", True), RuntimeError, "(this one is int64)"),
    (lambda: give(leaf(2), "grad", 3), TypeError, "Tensor or None but got grad of type int"),
    (own_grad, RuntimeError, "can't assign Variable as its own grad"),
    (
        lambda: give(leaf(2), "grad", ad.ones(2).double()),
        RuntimeError,
        "gradient with dtype 'float",
    ),
    (
        lambda: give(leaf(2), "grad", ad.ones(3)),
        RuntimeError,
        "has shape [3], the tensor has shape",
    ),
    (lambda: lose(leaf(2), "data"), RuntimeError, "Deleting tensor data is not allowed."),
    (lambda: give(leaf(2), "data", 3), TypeError, "Variable data has to be a tensor, but got int"),
    (lambda: with_grad(ad.float64), RuntimeError, "with dtype float64 while grad has float32"),
    (
        lambda: give(leaf(2), "data", ad.arange(2)),
        RuntimeError,
        "floating point or complex dtype, ",
    ),
    (lambda: leaf(2)[0].detach_(), RuntimeError, "Can't detach views in-place. Use detach() inste"),
    (lambda: give(leaf(2), "_backward_hooks", 3), TypeError, "must be None or a dict of hooks"),
    (lambda: delattr(leaf(2), "_backward_hooks"), RuntimeError, "use remove() of the handle"),
    (lambda: delattr(leaf(2), "_grad_fn"), RuntimeError, "Deletion of _grad_fn not allowed"),
    (lambda: give(leaf(2), "_grad_fn", 3), RuntimeError, "_grad_fn can be only set to None"),
    (lambda: ad.ones(2).retain_grad(), RuntimeError, "requires_grad=False"),
    (lambda: ad.ones(2).register_hook(print), RuntimeError, "doesn't require gradient"),
    (
        lambda: ad.ones(2).register_post_accumulate_grad_hook(print),
        RuntimeError,
        "cannot register a hook on a tensor that doesn't require gradient",
    ),
    (
        lambda: (leaf(2) * 2).register_post_accumulate_grad_hook(print),
        RuntimeError,
        "cannot be registered on non-leaf tensors",
    ),
    (lambda: (leaf(2) * 2).grad_fn.variable, AttributeError, "no attribute 'variable'"),
    (lambda: (leaf(2) * 2).grad_fn._saved_nothing, AttributeError, "attribute '_saved_nothing'"),
    (lambda: (leaf(2) * 2).grad_fn._raw_saved_nothing, AttributeError, "'_raw_saved_nothing'"),
)
def test_attributes(row: Row) -> None:
    check(row)


def other_edge(slot: int) -> GradientEdge:
    node = (leaf(2) * 2).grad_fn
    assert node is not None
    return GradientEdge(node, slot)


def after_backward(attribute: str) -> Any:
    y = leaf(2).exp()
    y.sum().backward()
    return getattr(y.grad_fn, attribute)


@refusals(
    (lambda: ad.autograd.backward(3), TypeError, "int"),  # type: ignore[arg-type]
    (lambda: ad.autograd.grad(leaf(2).sum(), [other_edge(3)]), IndexError, "there is no 3"),
    (lambda: ad.autograd.backward([other_edge(-1)]), IndexError, "there is no -1"),
    (lambda: ad.ones(2).sum().backward(), RuntimeError, "does not require grad"),
    (lambda: leaf(2).backward(), RuntimeError, "[2]"),
    (lambda: (leaf(2) * 2).backward(ad.ones(3)), RuntimeError, "[3]"),
    (lambda: after_backward("_saved_result"), RuntimeError, "freed"),
    (
        lambda: ad.autograd.Variable._execution_engine.queue_callback(print),
        RuntimeError,
        "backward",
    ),
    (
        lambda: ad.autograd.Variable._execution_engine.queue_callback(3),
        TypeError,
        "expected something callable, got int",
    ),
)
def test_backward(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("change", ["add_", "mul_", "exp_", "zero_"])
def test_what_may_not_be_changed_in_place_stays(change: str) -> None:
    x = leaf(2, 2)
    arguments = (1,) if change in ("add_", "mul_") else ()
    parts = (x * 1).unbind()
    with ad.inference_mode():
        inferred = ad.ones(2)
    base = leaf(2) * 1
    with ad.no_grad():
        aside = base[:1]
    read_only = ad.frombuffer(b"\0\0\x80?", dtype=ad.float32)
    refused = [
        (x, "a leaf Variable that requires grad"),
        (x[0], "a view of a leaf Variable that requires grad is being used in an in-place"),
        (parts[0], "function that returns multiple views"),
        (inferred, "Inplace update to inference tensor outside InferenceMode"),
        (aside, "created in no_grad mode and is being modified inplace with grad mode enabled"),
        (ad.ones(1).expand(2), "single memory location (shape [2], strides [0])"),
        (read_only, "shares read-only memory; use .clone()"),
    ]
    for tensor, part in refused:
        with pytest.raises(RuntimeError) as caught:
            getattr(tensor, change)(*arguments)
        assert part in str(caught.value)
        with ad.no_grad():
            assert (tensor == 1).all()
    assert x._version == 0 and base._version == 0


def once(step: str) -> type[Function]:
    """Return x * 2 as a custom function that misuses its context at one step."""

    class Doubled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if step == "save":
                ctx.save_for_backward([x])
            if step == "save dict":
                ctx.save_for_backward({"x": x})
            if step == "save number":
                ctx.save_for_backward(3)
            if step == "forward":
                ctx.save_for_forward(3)
            if step == "dirty":
                ctx.mark_dirty(3)
            if step == "aside":
                ctx.mark_non_differentiable(3)
            if step == "not returned":
                ctx.mark_dirty(x)
            if step == "silently":
                x.add_(1)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if step == "count":
                return g, g, g
            if step == "shape":
                return ad.ones(3)
            if step == "type":
                return 3
            return 2 * g

    return Doubled


@refusals(
    (lambda: once("save").apply(leaf(2)), TypeError, "one by one: ctx.save_for_backward(*tensors)"),
    (lambda: once("save dict").apply(leaf(2)), TypeError, "ctx.save_for_backward(*d.values())"),
    (lambda: once("save number").apply(leaf(2)), TypeError, "as attributes: ctx.name = value"),
    (lambda: once("forward").apply(leaf(2)), TypeError, "(argument 0 is of type int)"),
    (lambda: once("dirty").apply(leaf(2)), RuntimeError, "but argument 0 is of type int"),
    (lambda: once("aside").apply(leaf(2)), RuntimeError, "but argument 0 is of type int"),
    (lambda: once("not returned").apply(leaf(2)), RuntimeError, "were not returned as output"),
    (
        lambda: once("silently").apply(leaf(2) * 1),
        RuntimeError,
        "changed its argument 'x' in place",
    ),
    (lambda: once("count").apply(leaf(2)).sum().backward(), RuntimeError, "(expected 1, got 3)"),
    (
        lambda: once("shape").apply(leaf(2)).sum().backward(),
        RuntimeError,
        "of shape [3] for argumen",
    ),
    (lambda: once("type").apply(leaf(2)).sum().backward(), RuntimeError, "(got int)"),
    (lambda: FunctionCtx().save_for_forward(3), TypeError, "non-tensors as attributes on ctx."),  # type: ignore[arg-type]
    (lambda: type(once("").apply(leaf(2)).grad_fn)(), TypeError, "is made by Function.apply"),
    (lambda: Function.setup_context(None, (), None), NotImplementedError, "setup_context is not"),
)
def test_functions(row: Row) -> None:
    check(row)


def raw_saved(freed: bool = False) -> Any:
    y = leaf(2).exp()
    raw = y.grad_fn._raw_saved_result
    if freed:
        y.sum().backward()
    return raw


def hooked_twice() -> None:
    raw = raw_saved()
    raw.register_hooks(lambda x: x, lambda x: x)
    raw.register_hooks(lambda x: x, lambda x: x)


def changed_while_packed() -> None:
    raw_saved().register_hooks(lambda x: x.mul_(2), lambda x: x)


def unpacked_to_a_number() -> None:
    with saved_tensors_hooks(lambda x: x, lambda x: 3):
        y = leaf(2).exp()
    y.sum().backward()


def entered_while_disabled() -> None:
    with (
        ad.autograd.graph.disable_saved_tensors_hooks("no hooks here"),
        saved_tensors_hooks(lambda x: x, lambda x: x),
    ):
        pass


def disabled_while_entered() -> None:
    with (
        saved_tensors_hooks(lambda x: x, lambda x: x),
        ad.autograd.graph.disable_saved_tensors_hooks("no hooks here"),
    ):
        pass


@refusals(
    (hooked_twice, RuntimeError, "only one pair of hooks is allowed at a time"),
    (changed_while_packed, RuntimeError, "in place"),
    (unpacked_to_a_number, TypeError, "to be a Tensor but got result of type int"),
    (entered_while_disabled, RuntimeError, "no hooks here"),
    (disabled_while_entered, RuntimeError, "no hooks here"),
    (
        lambda: raw_saved(freed=True).register_hooks(lambda x: x, lambda x: x),
        RuntimeError,
        "on a saved tensor after it has been freed",
    ),
    (lambda: type(raw_saved())(), RuntimeError, "a SavedTensor object from Python is forbidden"),
    (
        lambda: ad.autograd.graph.disable_saved_tensors_hooks(3).__enter__(),  # type: ignore[arg-type]
        TypeError,
        "the error message must be a str, not int",
    ),
)
def test_saved_hooks(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_multi_grad_hook_outside_of_a_backward(mode: Any) -> None:
    x = leaf(2)
    ad.autograd.graph.register_multi_grad_hook([x], print, mode=mode)
    (hook,) = x._backward_hooks.values()
    with pytest.raises(RuntimeError, match="expected this hook to be called inside a backward"):
        hook(ad.ones(2))


def test_mark_shared_storage_is_not_needed_any_more() -> None:
    with pytest.warns(FutureWarning, match="shared storages are automatically tracked"):
        FunctionCtx().mark_shared_storage()


@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_a_backward_that_takes_no_gradient_for_a_missing_one_is_found() -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            if a is None or b is None:
                return b if a is None and b is None else a * 2 if b is None else b * 3
            return 1.5 * (a * 2 + b * 3)

    x = ad.ones(2, dtype=ad.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match="differs from the one with zer"):
        ad.autograd.gradcheck(Pair.apply, (x,))
