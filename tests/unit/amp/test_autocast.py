"""`autocast`: contexts, casts of weights, derivatives, checkpoints, custom functions, programs."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils.checkpoint import checkpoint

BF16, HALF = ad.bfloat16, ad.float16


def model(seed: int = 0) -> ad.nn.Sequential:
    ad.manual_seed(seed)
    return ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 3))


def gradients(module: ad.nn.Module) -> list[Any]:
    return [p.grad.numpy().copy() for p in module.parameters()]


# -- contexts --------------------------------------------------------------------------------------


def test_contexts_nest_and_put_back_what_was() -> None:
    a = ad.ones(2, 2)
    with ad.autocast("cpu", dtype=BF16):
        assert (a @ a).dtype == BF16
        with ad.autocast("cpu", enabled=False):
            assert (a @ a).dtype == ad.float32
            with ad.autocast("cpu", dtype=HALF):
                assert (a @ a).dtype == HALF
                assert ad.get_autocast_dtype("cpu") == HALF
            assert not ad.is_autocast_enabled("cpu")
        assert (a @ a).dtype == BF16
    assert (a @ a).dtype == ad.float32
    assert ad.get_autocast_dtype("cpu") == BF16
    assert ad.is_autocast_cache_enabled()


def test_an_error_leaves_the_context_too() -> None:
    with pytest.raises(KeyError), ad.autocast("cpu"):
        raise KeyError
    assert not ad.is_autocast_enabled("cpu")


def test_decorates_functions_that_call_themselves() -> None:
    @ad.autocast("cpu")
    def power(a: ad.Tensor, n: int) -> ad.Tensor:
        return a if n == 0 else power(a, n - 1) @ a

    assert power(ad.eye(2), 3).dtype == BF16
    assert not ad.is_autocast_enabled("cpu")


def test_a_state_belongs_to_its_thread() -> None:
    seen: list[bool] = []
    with ad.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(ad.is_autocast_enabled("cpu")))
        thread.start()
        thread.join()
    assert seen == [False]


def test_settings_take_effect_at_once() -> None:
    ad.set_autocast_enabled("cpu", True)
    ad.set_autocast_dtype("cpu", HALF)
    try:
        assert (ad.eye(2) @ ad.eye(2)).dtype == HALF
    finally:
        ad.set_autocast_enabled("cpu", False)
        ad.set_autocast_dtype("cpu", BF16)
    with pytest.raises(RuntimeError, match=r"torch\.bfloat16, torch\.float16, not torch\.float64"):
        ad.set_autocast_dtype("cpu", ad.float64)
    with pytest.raises(TypeError, match="must be str"):
        ad.set_autocast_enabled(3, True)  # type: ignore[arg-type]


def test_settings_of_other_devices_are_kept_and_change_nothing() -> None:
    ad.set_autocast_enabled(True)
    try:
        assert ad.is_autocast_enabled() and ad.is_autocast_enabled("cuda")
        assert (ad.eye(2) @ ad.eye(2)).dtype == ad.float32
        with pytest.warns(UserWarning, match="CUDA is not available"), ad.autocast("cuda"):
            assert not ad.is_autocast_enabled()
        assert ad.is_autocast_enabled()
    finally:
        ad.set_autocast_enabled(False)
    with pytest.raises(RuntimeError, match="no lower precision"):
        ad.get_autocast_dtype("meta")
    with pytest.warns(UserWarning, match="no mps device"):
        ad.autocast("mps")


def test_doubles_integers_and_what_is_written_in_place_stay_what_they_are() -> None:
    with ad.autocast("cpu"):
        assert (
            ad.ones(2, 2, dtype=ad.float64) @ ad.ones(2, 2, dtype=ad.float64)
        ).dtype == ad.float64
        assert (ad.ones(2, 2, dtype=ad.int64) @ ad.ones(2, 2, dtype=ad.int64)).dtype == ad.int64
        out = ad.empty(2, 2)
        ad.mm(ad.eye(2), ad.eye(2), out=out)
        assert out.dtype == ad.float32
        out.addmm_(ad.eye(2), ad.eye(2))
        assert out.dtype == ad.float32


def test_two_lower_precisions_do_not_mix() -> None:
    with ad.autocast("cpu"), pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
        ad.cat([ad.ones(2), ad.ones(2, dtype=HALF)])


# -- weights ---------------------------------------------------------------------------------------


def casts_of(result: ad.Tensor) -> list[Any]:
    """The nodes that convert, behind a result."""
    found, stack = {}, [result.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or id(node) in found:
            continue
        found[id(node)] = node
        stack += [edge[0] for edge in node.next_functions]
    return [n for n in found.values() if n.name() == "ToCopyBackward0"]


def test_a_weight_is_cast_once_in_a_context_and_gets_its_gradient() -> None:
    w = ad.ones(3, 3, requires_grad=True)
    x = ad.ones(3, 3)
    with ad.autocast("cpu"):
        y = x.to(BF16) @ w + (x.to(BF16) @ w)
        assert len(casts_of(y)) == 1
        with ad.autocast("cpu", cache_enabled=False):
            assert len(casts_of(x.to(BF16) @ w + x.to(BF16) @ w)) == 2
    y.sum().backward()
    assert w.grad.dtype == ad.float32
    np.testing.assert_array_equal(w.grad.numpy(), np.full((3, 3), 6.0, np.float32))


def test_casts_are_dropped_with_the_outermost_context() -> None:
    w = ad.ones(3, 3, requires_grad=True)
    with ad.autocast("cpu"):
        with ad.autocast("cpu"):
            first = weakref.ref((w @ w).grad_fn.next_functions[0][0])
        assert (w @ w).grad_fn.next_functions[0][0] is first()
    gc.collect()
    assert first() is None


def test_a_weight_that_was_changed_is_cast_again() -> None:
    w = ad.ones(2, 2, requires_grad=True)
    with ad.autocast("cpu"):
        assert (w @ w)[0, 0] == 2
        with ad.no_grad():
            w.mul_(2)
        assert (w @ w)[0, 0] == 8
        w.data = ad.full((2, 2), 3.0)
        assert (w @ w)[0, 0] == 18


def test_a_cast_made_without_gradients_does_not_serve_with_them() -> None:
    w = ad.ones(2, 2, requires_grad=True)
    with ad.autocast("cpu"):
        with ad.no_grad():
            assert not (w @ w).requires_grad
        y = (w @ w).sum()
        with ad.inference_mode():
            w @ w
        y = y + (w @ w).sum()
    y.backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((2, 2), 8.0, np.float32))


# -- derivatives -----------------------------------------------------------------------------------


def test_backward_inside_and_outside_the_context_give_the_same() -> None:
    x = ad.arange(8.0).reshape(2, 4)
    found = []
    for inside in (False, True):
        net = model()
        with ad.autocast("cpu"):
            loss = ad.nn.functional.mse_loss(net(x), ad.ones(2, 3))
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert all(p.grad.dtype == ad.float32 for p in net.parameters())
        found.append(gradients(net))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_graph_made_in_float32_keeps_its_precision_under_autocast() -> None:
    w = ad.full((4, 4), 1 + 2.0**-12, requires_grad=True)
    y = (w @ w).sum()
    with ad.autocast("cpu"):
        y.backward()
    assert w.grad[0, 0] == 8 * (1 + 2.0**-12)


def test_second_derivatives() -> None:
    x = ad.tensor([[0.5, 1.0]], requires_grad=True)
    with ad.autocast("cpu"):
        y = ((x @ x.mT) ** 2).sum()
    (g,) = ad.autograd.grad(y, x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x)
    assert g.dtype == h.dtype == ad.float32
    np.testing.assert_allclose(g.detach().numpy(), 4 * 1.25 * np.array([[0.5, 1.0]]), rtol=0.02)


def test_transforms() -> None:
    w = ad.arange(6.0).reshape(2, 3) / 4
    x = ad.arange(9.0).reshape(3, 3) / 8

    def f(w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
        return (w @ x).sum()

    with ad.autocast("cpu"):
        batched = ad.func.vmap(lambda row: w @ row)(x)
        grad = ad.func.grad(f)(w, x)
        value, tangent = ad.func.jvp(lambda w: w @ x, (w,), (ad.ones_like(w),))
        hessian = ad.func.hessian(lambda w: ((w @ x) ** 2).sum())(w)
        inside = ad.func.grad(lambda w: ad.autocast("cpu", enabled=False)(f)(w, x))(w)
    assert batched.dtype == value.dtype == tangent.dtype == BF16
    assert grad.dtype == hessian.dtype == inside.dtype == ad.float32
    np.testing.assert_allclose(batched.float().numpy(), (x @ w.mT).numpy(), rtol=0.01)
    np.testing.assert_allclose(grad.numpy(), x.sum(1).expand(2, 3).numpy(), rtol=0.01)
    np.testing.assert_allclose(tangent.float().numpy(), x.sum(0).expand(2, 3).numpy(), rtol=0.01)


# -- checkpoints and custom functions --------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_recompute_in_the_precision_of_the_call(use_reentrant: bool) -> None:
    x = ad.arange(8.0).reshape(2, 4).requires_grad_()
    found = []
    for wrapped in (False, True):
        net = model()
        x.grad = None
        with ad.autocast("cpu"):
            y = checkpoint(net, x, use_reentrant=use_reentrant) if wrapped else net(x)
            assert y.dtype == BF16
        y.float().sum().backward()
        found.append([*gradients(net), x.grad.numpy().copy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def make_product(cast_inputs: Any) -> Any:
    class Product(ad.autograd.Function):
        states: ClassVar[list[tuple[str, bool, Any]]] = []

        @staticmethod
        @ad.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
        def forward(ctx: Any, a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
            Product.states.append(("forward", ad.is_autocast_enabled("cpu"), a.dtype))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @ad.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: ad.Tensor) -> Any:
            Product.states.append(("backward", ad.is_autocast_enabled("cpu"), grad.dtype))
            a, b = ctx.saved_tensors
            return grad @ b.mT, a.mT @ grad

    return Product


def test_custom_functions_run_backward_as_they_ran_forward() -> None:
    a, b = (ad.eye(2, requires_grad=True) for _ in range(2))
    product = make_product(None)
    with ad.autocast("cpu"):
        y = product.apply(a, b)
    assert y.dtype == BF16
    y.sum().backward()
    product.apply(a, b).sum().backward()
    assert product.states == [
        ("forward", True, ad.float32),
        ("backward", True, BF16),
        ("forward", False, ad.float32),
        ("backward", False, ad.float32),
    ]
    assert a.grad.dtype == ad.float32


def test_custom_functions_may_ask_for_a_precision() -> None:
    a, b = (ad.eye(2, dtype=BF16).requires_grad_() for _ in range(2))
    product = make_product(ad.float32)
    with ad.autocast("cpu"):
        y = product.apply(a, b)
        y.sum().backward()
    assert y.dtype == ad.float32
    assert product.states == [("forward", False, ad.float32), ("backward", False, ad.float32)]
    assert a.grad.dtype == BF16


# -- programs --------------------------------------------------------------------------------------


def run(f: Any, net: Any, x: ad.Tensor, **options: Any) -> list[Any]:
    net.zero_grad()
    with ad.autocast("cpu", **options):
        y = f(x)
    y.float().sum().backward()
    return [y.detach().float().numpy(), *gradients(net)]


@pytest.mark.parametrize(
    "options",
    [{}, {"dtype": HALF}, {"enabled": False}, {"cache_enabled": False}],
    ids=["bfloat16", "float16", "off", "uncached"],
)
def test_compiled_functions_give_what_they_give_eagerly(options: dict[str, Any]) -> None:
    net, x = model(), ad.arange(8.0).reshape(2, 4) / 8

    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.nn.functional.cross_entropy(net(x) + net(x * 2), ad.tensor([0, 2]))

    compiled = ad.compile(f, fullgraph=True)
    for _ in range(3):
        for a, b in zip(run(f, net, x, **options), run(compiled, net, x, **options), strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(compiled.programs) == 1


def test_a_recording_serves_the_state_it_was_made_in_alone() -> None:
    compiled = ad.compile(lambda a: a @ a, fullgraph=True)
    a = ad.eye(3)
    for _ in range(2):
        assert compiled(a).dtype == ad.float32
        with ad.autocast("cpu"):
            assert compiled(a).dtype == BF16
        with ad.autocast("cpu", dtype=HALF):
            assert compiled(a).dtype == HALF
    assert len(compiled.programs) == 3


def test_a_context_inside_a_compiled_function() -> None:
    net, x = model(), ad.arange(8.0).reshape(2, 4) / 8

    def f(x: ad.Tensor) -> ad.Tensor:
        with ad.autocast("cpu"):
            y = net(x)
        return ad.einsum("ij,kj->ik", y.float(), y.float())

    compiled = ad.compile(f, fullgraph=True)
    for _ in range(2):
        net.zero_grad()
        f(x).sum().backward()
        want = gradients(net)
        net.zero_grad()
        compiled(x).sum().backward()
        for a, b in zip(want, gradients(net), strict=True):
            np.testing.assert_array_equal(a, b)


def test_contractions_inside_a_program() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.einsum("ij,kj->ik", x, x) + ad.tensordot(x, x.T, 1)

    compiled = ad.compile(f, fullgraph=True)
    x = ad.arange(6.0).reshape(2, 3) / 7
    for grad in (False, True):
        x = x.detach().requires_grad_(grad)
        for _ in range(2):
            with ad.autocast("cpu"):
                got, want = compiled(x), f(x)
            assert got.dtype == want.dtype == BF16
            np.testing.assert_array_equal(
                got.detach().float().numpy(), want.detach().float().numpy()
            )


def test_double_backward_of_a_program_runs_the_function_in_its_precision() -> None:
    compiled = ad.compile(lambda a: ((a @ a) ** 2).sum(), fullgraph=True)
    a = ad.eye(2, requires_grad=True)
    with ad.autocast("cpu"):
        y = compiled(a)
    (g,) = ad.autograd.grad(y, a, create_graph=True)
    assert g.dtype == ad.float32
    ad.autograd.grad(g.sum(), a)


# -- training --------------------------------------------------------------------------------------


def train(lower: Any, steps: int = 150) -> float:
    ad.manual_seed(1)
    x = ad.randn(64, 4)
    target = (x**2).sum(1, keepdim=True) / 4
    net = ad.nn.Sequential(ad.nn.Linear(4, 32), ad.nn.Tanh(), ad.nn.Linear(32, 1))
    optimizer = ad.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        with ad.autocast("cpu", dtype=lower or BF16, enabled=lower is not None):
            loss = ad.nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
    with ad.no_grad():
        return float(ad.nn.functional.mse_loss(net(x), target) / target.var())


def test_a_small_model_trained_in_bfloat16_reaches_its_float32_loss() -> None:
    """Of the variance that there was to explain, both leave the same share to within 2 %."""
    full, mixed = train(None), train(BF16)
    assert full < 0.05
    assert abs(mixed - full) < 0.02


def test_micro_batches_add_up_to_one_batch() -> None:
    x, target = ad.linspace(-1, 1, 48).reshape(12, 4), ad.ones(12, 3)
    found = []
    for parts in (1, 4):
        net = model()
        for xs, ts in zip(x.chunk(parts), target.chunk(parts), strict=True):
            with ad.autocast("cpu"):
                loss = ad.nn.functional.mse_loss(net(xs), ts) / parts
            loss.backward()
        found.append(gradients(net))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=0.01 * np.abs(a).max())
