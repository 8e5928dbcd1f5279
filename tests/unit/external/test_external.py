"""`external`: derivatives of functions that autograd cannot see.

The other files: test_external_methods.py (how exact, at what cost), test_external_workers.py,
test_external_programs.py (C libraries and executables).
"""

from __future__ import annotations

import dataclasses
import gc
import math
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import forward_ad as fw


def leaf(*values: Any, dtype: Any = ad.float64) -> ad.Tensor:
    data = values[0] if len(values) == 1 else list(values)
    return ad.tensor(data, dtype=dtype, requires_grad=True)


def close(actual: Any, expected: Any, tolerance: float = 1e-8) -> None:
    np.testing.assert_allclose(
        np.asarray(actual.detach().numpy() if isinstance(actual, ad.Tensor) else actual),
        np.asarray(expected.detach().numpy() if isinstance(expected, ad.Tensor) else expected),
        rtol=tolerance,
        atol=tolerance,
    )


# --- what goes in and comes out -------------------------------------------------------------------


def test_the_function_gets_arrays_and_gives_tensors() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(type(x))
        return np.sin(x)

    y = ad.external(f)(leaf(1.0, 2.0))
    assert seen == [np.ndarray] and isinstance(y, ad.Tensor) and y.requires_grad
    assert "External" in type(y.grad_fn).__name__


def test_nothing_is_recorded_for_inputs_that_need_no_gradient() -> None:
    f = ad.external(np.sin)
    assert not f(ad.tensor([1.0])).requires_grad
    assert not f(np.array([1.0])).requires_grad
    with ad.no_grad():
        assert not f(leaf(1.0)).requires_grad


def test_a_single_number_arrives_as_a_numpy_scalar() -> None:
    f = ad.external(lambda x: math.sin(x))
    x = leaf(0.5)
    f(x).backward()
    close(x.grad, math.cos(0.5))


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_the_dtype_is_kept(dtype: Any) -> None:
    x = leaf(0.5, 1.5, dtype=dtype)
    y = ad.external(np.exp)(x)
    y.sum().backward()
    assert y.dtype == dtype and x.grad.dtype == dtype
    plain = ad.external(lambda v: float(v.sum()))(x)
    assert plain.dtype == dtype and plain.shape == ()


def test_axes_of_any_number_go_in_and_out() -> None:
    x = ad.rand(2, 3, dtype=ad.float64, requires_grad=True)
    w = ad.rand(3, 4, dtype=ad.float64, requires_grad=True)
    u = ad.rand(2, 4, dtype=ad.float64)
    (ad.external(lambda a, b: a @ b)(x, w) * u).sum().backward()
    close(x.grad, u @ w.detach().T)
    close(w.grad, x.detach().T @ u)


def test_several_outputs_and_one_that_is_not_used() -> None:
    x = leaf(0.3, 0.4)
    s, c = ad.external(lambda v: (np.sin(v), np.cos(v)))(x)
    assert c.requires_grad
    s.sum().backward()
    close(x.grad, x.cos())


def test_integer_outputs_and_declared_ones_have_no_gradient() -> None:
    x = leaf(0.3, 1.7)
    n, y, z = ad.external(lambda v: (np.rint(v).astype(int), v * v, v), nondifferentiable=2)(x)
    assert not n.requires_grad and n.dtype == ad.int64
    assert y.requires_grad and not z.requires_grad
    y.sum().backward()
    close(x.grad, 2 * x.detach())
    out = ad.external(lambda v: {"a": v, "steps": v}, nondifferentiable="steps")(x)
    assert out["a"].requires_grad and not out["steps"].requires_grad


def test_a_declared_output_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"nondifferentiable=\['q'\].*returned 'a', not 'q'"):
        ad.external(lambda v: {"a": v}, nondifferentiable="q")(leaf(1.0))


def test_text_and_none_in_a_result_are_handed_on() -> None:
    y, word, nothing, count = ad.external(lambda v: (v, "ok", None, 3))(leaf(1.0))
    assert isinstance(y, ad.Tensor) and (word, nothing, count) == ("ok", None, 3)


@dataclasses.dataclass
class Params:
    k: Any
    name: str = "p"


class State(NamedTuple):
    u: Any
    v: Any


def test_composites_go_in_and_out() -> None:
    def f(state: State, params: Params) -> dict[str, Any]:
        assert isinstance(state, State) and isinstance(params, Params)
        return {"e": (state.u**2).sum() * params.k[1], "s": State(state.v, params.k * 2)}

    state, params = State(leaf(1.0, 2.0), leaf(3.0)), Params(leaf(0.5, 0.25))
    out = ad.external(f)(state, params)
    (out["e"] + out["s"].v.sum()).backward()
    close(state.u.grad, [0.5, 1.0])
    close(params.k.grad, [2.0, 7.0])


def test_static_arguments_are_handed_on_as_they_are() -> None:
    seen = []

    def f(x: Any, n: int, mode: dict[str, float]) -> Any:
        seen.append((n, mode))
        return x**n * mode["factor"]

    x, mode = leaf(2.0), {"factor": 3.0}
    ad.external(f, static=("n", "mode"))(x, 3, mode).backward()
    close(x.grad, 36.0)
    assert seen[0][1] is mode
    x.grad = None
    ad.external(f, static=2)(x, n=2, mode={"factor": 1.0}).backward()
    close(x.grad, 4.0)


def test_an_unknown_static_argument_is_named() -> None:
    with pytest.raises(ValueError, match=r"has no argument 'q'; it has 'x', 'n'"):
        ad.external(lambda x, n: x, static="q")
    with pytest.raises(TypeError, match="names or positions"):
        ad.external(lambda x, n: x, static=1.5)


def test_arrays_and_keywords_are_no_gradients_but_are_kept() -> None:
    weights = np.array([1.0, 2.0])
    x = leaf(1.0, 1.0)
    y = ad.external(lambda x, w: (x * w).sum())(x, w=weights)
    weights[:] = 100.0
    y.backward()
    close(x.grad, [1.0, 2.0])


def test_tensors_for_functions_that_want_them() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        assert isinstance(x, ad.Tensor) and not x.requires_grad
        return x.sin()

    x = leaf(0.1, 0.2)
    ad.external(f, arrays="tensor")(x).sum().backward()
    close(x.grad, x.cos())


def test_complex_inputs_follow_pytorchs_convention() -> None:
    z = ad.tensor([1 + 2j, -0.5 + 0.1j], dtype=ad.complex128, requires_grad=True)
    reference = z.detach().clone().requires_grad_()
    u = ad.tensor([0.3 - 1j, 2 + 0.5j], dtype=ad.complex128)
    (ad.external(lambda a: a * a * np.conj(a))(z) * u).abs().sum().backward()
    (reference * reference * reference.conj() * u).abs().sum().backward()
    close(z.grad, reference.grad, 1e-7)


def test_bfloat16_is_refused_with_a_fix() -> None:
    with pytest.raises(TypeError, match=r"no bfloat16.*fix: pass x.float\(\)"):
        ad.external(np.sin)(ad.ones(2, dtype=ad.bfloat16))


# --- never silently wrong -------------------------------------------------------------------------


def test_a_buffer_that_the_function_uses_again_is_copied() -> None:
    buffer = np.zeros(2)

    def f(x: Any) -> Any:
        np.multiply(x, x, out=buffer)
        return buffer

    g = ad.external(f)
    x = leaf(1.0, 3.0)
    y, z = g(x), g(2 * x.detach())
    close(y, [1.0, 9.0])
    close(z, [4.0, 36.0])
    y.sum().backward()
    close(x.grad, [2.0, 6.0])


def test_returning_the_argument_is_not_sharing_it() -> None:
    x = leaf(1.0, 2.0)
    y = ad.external(lambda v: v)(x)
    with ad.no_grad():
        y.add_(1)
    close(x, [1.0, 2.0])


def test_a_function_that_writes_into_its_argument_is_told_how() -> None:
    def f(x: Any) -> Any:
        x += 1
        return x.sum()

    with pytest.raises(ValueError, match="read-only") as caught:
        ad.external(f)(leaf(1.0, 2.0))
    assert "writable=True" in str(caught.value)
    x = leaf(1.0, 2.0)
    ad.external(f, writable=True)(x).backward()
    close(x, [1.0, 2.0])
    close(x.grad, [1.0, 1.0])


def test_an_input_changed_before_backward_is_an_error() -> None:
    x = leaf(1.0, 2.0)
    h = x * 1
    y = ad.external(np.sin)(h)
    h.add_(1)
    with pytest.raises(RuntimeError, match=r"in place|inplace"):
        y.sum().backward()


def test_the_call_keeps_nothing_alive() -> None:
    f = ad.external(np.sin)
    x = leaf(1.0, 2.0)
    y = f(x).sum()
    y.backward()
    watch = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert watch() is None


def test_results_are_freed_without_the_garbage_collector() -> None:
    made: list[Any] = []

    def f(x: Any) -> Any:
        y = np.sin(x)
        made.append(weakref.ref(y))
        return y

    e = ad.external(f, vjp=lambda u, x: u * np.cos(x))
    x = leaf(1.0, 2.0)
    gc.disable()
    try:
        e(x).sum().backward()
        assert made[0]() is None
    finally:
        gc.enable()


def test_errors_of_the_function_come_through() -> None:
    def f(x: Any) -> Any:
        raise ZeroDivisionError("inside")

    with pytest.raises(ZeroDivisionError, match="inside"):
        ad.external(f)(leaf(1.0))


# --- given derivatives ----------------------------------------------------------------------------


def square(x: Any, a: Any) -> Any:
    return a * x**2


def test_a_jacobian_given_as_an_array_or_sparse() -> None:
    x = leaf(1.0, 2.0)
    for given in (
        lambda v: np.diag(2 * v),
        lambda v: __import__("scipy.sparse").sparse.diags(2 * v),
    ):
        x.grad = None
        ad.external(lambda v: v**2, jacobian=given)(x).sum().backward()
        close(x.grad, [2.0, 4.0], 1e-15)


def test_a_jacobian_of_two_inputs_and_two_outputs() -> None:
    def f(x: Any, a: Any) -> Any:
        return a * x**2, x.sum()

    def jacobian(x: Any, a: Any) -> Any:
        return ((np.diag(2 * a * x), x**2), (np.ones((1, 2)), None))

    x, a = leaf(1.0, 2.0), leaf(3.0)
    y, s = ad.external(f, jacobian=jacobian)(x, a)
    (y.sum() + s).backward()
    close(x.grad, [7.0, 13.0], 1e-15)
    close(a.grad, 5.0, 1e-15)
    only = leaf(1.0, 2.0)
    ad.external(f, jacobian=jacobian)(only, 3.0)[0].sum().backward()
    close(only.grad, [6.0, 12.0], 1e-15)


def test_a_jacobian_in_dicts_goes_by_their_keys() -> None:
    def f(p: Any, a: Any) -> Any:
        return {"z": a * p["x"], "b": a + p["y"]}

    def jacobian(p: Any, a: Any) -> Any:
        return {
            "z": {"p": {"y": None, "x": a * np.eye(2)}, "a": p["x"]},
            "b": (None, np.eye(2), np.ones(2)),  # p['x'], p['y'], a
        }

    x, y, a = leaf(1.0, 2.0), leaf(3.0, 5.0), leaf(7.0)
    out = ad.external(f, jacobian=jacobian)({"x": x, "y": y}, a)
    (out["z"][0] + 10 * out["b"][1]).backward()
    close(x.grad, [7.0, 0.0], 1e-15)
    close(y.grad, [0.0, 10.0], 1e-15)
    close(a.grad, 11.0, 1e-15)
    wrong = ad.external(f, jacobian=lambda p, a: {"z": None, "c": None})
    with pytest.raises(
        ValueError, match=r"\(output\['b'\], output\['z'\]\), got a dict of 'z', 'c'"
    ):
        wrong({"x": x, "y": y}, a)["z"].sum().backward()


def test_a_jacobian_of_the_wrong_shape_says_both() -> None:
    with pytest.raises(
        ValueError, match=r"returned shape \[3, 2\] for d output / d v; expected \[2, 2\]"
    ):
        ad.external(lambda v: v, jacobian=lambda v: np.ones((3, 2)))(
            leaf(1.0, 2.0)
        ).sum().backward()
    with pytest.raises(
        ValueError, match=r"one block for each of its 2 inputs \(x, a\), got a ndarray"
    ):
        ad.external(square, jacobian=lambda x, a: np.eye(2))(
            leaf(1.0, 2.0), leaf(1.0)
        ).sum().backward()


def test_a_vjp_gives_the_others() -> None:
    f = ad.external(square, vjp=lambda g, x, a: (2 * a * x * g, (x**2 * g).sum()))
    x, a = leaf(1.0, 2.0), leaf(3.0)
    f(x, a).sum().backward()
    close(x.grad, [6.0, 12.0], 1e-15)
    close(a.grad, 5.0, 1e-15)
    close(f.jacobian(x, a), [[6.0, 0.0, 1.0], [0.0, 12.0, 4.0]], 1e-15)
    close(pushed(f, x, a), [7.0, 16.0], 1e-15)


def test_a_jvp_gives_the_others() -> None:
    f = ad.external(square, jvp=lambda t, x, a: 2 * a * x * t[0] + x**2 * t[1])
    x, a = leaf(1.0, 2.0), leaf(3.0)
    f(x, a).sum().backward()
    close(x.grad, [6.0, 12.0], 1e-15)
    close(a.grad, 5.0, 1e-15)
    close(pushed(f, x, a), [7.0, 16.0], 1e-15)


def test_a_jacobian_gives_the_others() -> None:
    f = ad.external(lambda x: x**2, jacobian=lambda x: np.diag(2 * x))
    close(pushed(f, leaf(1.0, 2.0)), [2.0, 4.0], 1e-15)


def test_a_vjp_that_asks_for_the_output_gets_it() -> None:
    f = ad.external(np.exp, vjp=lambda g, x, output: g * output)
    x = leaf(1.0, 2.0)
    f(x).sum().backward()
    close(x.grad, x.exp(), 1e-15)


def test_a_vjp_may_leave_static_arguments_out() -> None:
    f = ad.external(lambda n, x: n * x, vjp=lambda g, n, x: n * g, static="n")
    x = leaf(1.0, 2.0)
    f(3, x).sum().backward()
    close(x.grad, [3.0, 3.0], 1e-15)


def test_wrong_results_of_a_vjp_are_named() -> None:
    x, a = leaf(1.0, 2.0), leaf(3.0)
    with pytest.raises(ValueError, match=r"one gradient per argument \(2\).*got 3"):
        ad.external(square, vjp=lambda g, x, a: (g, g, g))(x, a).sum().backward()
    with pytest.raises(ValueError, match=r"returned shape \[2\] for a, which has shape \[\]"):
        ad.external(square, vjp=lambda g, x, a: (g, g))(x, a).sum().backward()
    with pytest.raises(TypeError, match="returned complex128 for x, a real input"):
        ad.external(square, vjp=lambda g, x, a: (g * 1j, None))(x, a).sum().backward()
    with pytest.raises(ValueError, match=r"jvp= of .* must return a tangent built like its result"):
        pushed(ad.external(square, jvp=lambda t, x, a: (x, x)), x, a)


def pushed(f: Any, *inputs: ad.Tensor) -> Any:
    """The tangent of f along ones."""
    with fw.dual_level():
        duals = [fw.make_dual(x.detach(), ad.ones_like(x)) for x in inputs]
        return fw.unpack_dual(f(*duals)).tangent


# --- when and how often ---------------------------------------------------------------------------


def test_the_jacobian_is_computed_lazily_and_once() -> None:
    f = ad.external(np.sin, step=1e-5)
    x = leaf(1.0, 2.0, 3.0)
    y = f(x)
    assert f.evaluator.count == 1
    for _ in range(3):
        y.backward(ad.ones(3, dtype=ad.float64), retain_graph=True)
    assert f.evaluator.count == 1 + 1 + 6  # one to see whether it repeats
    close(x.grad, 3 * x.detach().cos())


@pytest.mark.parametrize(
    ("options", "vjp"),
    [
        ({}, 10),
        ({"derivative": "forward"}, 5),
        ({"derivative": "complex-step"}, 5),
        ({"derivative": "spsa", "directions": 3}, 6),
        ({"elementwise": True}, 4),
        ({"sparsity": np.eye(5)}, 4),
        ({"elementwise": True, "verify": False}, 2),
    ],
)
def test_cost_tells_before_it_runs(options: dict[str, Any], vjp: int) -> None:
    f = ad.external(np.sin, probe=False, **options)
    x = leaf(*np.linspace(0.1, 1, 5))
    cost = f.cost(x)
    assert f.evaluator.count == 0
    f(x).sum().backward()
    assert (cost.forward, cost.vjp) == (1, vjp) and f"takes {vjp} more" in str(cost)
    assert f.evaluator.count == 1 + cost.vjp + cost.first
    f(x).sum().backward()
    assert f.evaluator.count == 2 * (1 + cost.vjp) + cost.first


# --- second order and forward mode ----------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["central", "forward", "complex-step", "richardson", "jacobian", "vjp", "jvp"]
)
def test_second_derivatives_by_differences_of_the_first(kind: str) -> None:
    options: dict[str, Any] = {
        "jacobian": {
            "jacobian": lambda x: np.exp(x[0]) * np.array([np.sin(x[1]), np.cos(x[1])])[None]
        },
        "vjp": {"vjp": lambda g, x: g * np.exp(x[0]) * np.array([np.sin(x[1]), np.cos(x[1])])},
        "jvp": {"jvp": lambda t, x: np.exp(x[0]) * (np.sin(x[1]) * t[0] + np.cos(x[1]) * t[1])},
    }.get(kind, {"derivative": kind})
    f = ad.external(lambda x: np.exp(x[0]) * np.sin(x[1]), **options)
    x = leaf(0.3, 0.7)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    rows = [ad.autograd.grad(g[i], x, retain_graph=True)[0] for i in range(2)]
    e, s, c = math.exp(0.3), math.sin(0.7), math.cos(0.7)
    close(ad.stack(rows), [[e * s, e * c], [e * c, -e * s]], 1e-4 if kind == "forward" else 1e-6)


def test_second_derivatives_through_a_vjp_of_tensors_are_exact() -> None:
    f = ad.external(lambda x: x.sin(), vjp=lambda g, x: g * x.cos(), arrays="tensor")
    x = leaf(0.3, 0.7)
    (g,) = ad.autograd.grad(f(x).sum(), x, create_graph=True)
    (h,) = ad.autograd.grad(g.sum(), x, create_graph=True)
    (third,) = ad.autograd.grad(h.sum(), x)
    close(h, -x.detach().sin(), 1e-15)
    close(third, -x.detach().cos(), 1e-15)


def test_a_gradient_reaches_the_gradient_of_the_output() -> None:
    f = ad.external(lambda x: x**3)
    x, u = leaf(2.0), leaf(5.0)
    (g,) = ad.autograd.grad(f(x), x, u, create_graph=True)
    by_x, by_u = ad.autograd.grad(g, (x, u))
    close(by_x, 60.0, 1e-6)
    close(by_u, 12.0)


def test_spsa_has_no_second_derivative() -> None:
    f = ad.external(lambda x: (x**2).sum(), derivative="spsa")
    x = leaf(1.0, 2.0)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    with pytest.raises(
        ad.external.ExternalError, match="has no second derivative: derivative='spsa'"
    ):
        g.sum().backward()


def test_there_is_no_third_order_by_differences() -> None:
    f = ad.external(lambda x: x**4)
    x = leaf(2.0)
    (g,) = ad.autograd.grad(f(x), x, create_graph=True)
    (h,) = ad.autograd.grad(g, x, create_graph=True)
    with pytest.raises(RuntimeError, match="no third derivative"):
        h.backward()


def test_forward_mode_takes_two_pairs_for_any_number_of_inputs() -> None:
    f = ad.external(lambda x: (x**2).sum())
    x = ad.linspace(0.1, 1, 50, dtype=ad.float64)
    close(pushed(f, x), (2 * x).sum())
    before = f.evaluator.count  # among them those that look at the function
    close(pushed(f, x), (2 * x).sum())
    assert f.evaluator.count == before + 1 + 2 + 2  # a pair, and one that verifies it
    f = ad.external(lambda x: (x**2).sum(), probe=False)
    close(pushed(f, x), (2 * x).sum())
    assert f.evaluator.count == 4  # one to see whether it repeats
    x[3] = 1e-6  # one near zero does not spoil the step of all: it has a pair of its own
    f.evaluator.count = 0
    close(pushed(f, x), (2 * x).sum())
    assert f.evaluator.count <= 1 + f.cost(x).jvp


def test_forward_over_reverse() -> None:
    f = ad.external(lambda x: (x**3).sum(), derivative="complex-step")
    x, v = leaf(1.0, 2.0), ad.tensor([0.5, 1.0], dtype=ad.float64)
    with fw.dual_level():
        dual = fw.make_dual(x.detach().requires_grad_(), v)
        (g,) = ad.autograd.grad(f(dual), dual, create_graph=True)
        tangent = fw.unpack_dual(g).tangent
    close(tangent, 6 * x.detach() * v, 1e-7)


def test_checkpoints_work_through_it() -> None:
    from adjoint.utils.checkpoint import checkpoint

    f = ad.external(np.sin)
    x = leaf(0.3, 0.4)
    checkpoint(lambda v: f(v * 2), x, use_reentrant=False).sum().backward()
    close(x.grad, 2 * (2 * x.detach()).cos())


def test_gradcheck_agrees() -> None:
    f = ad.external(lambda a, b: np.tanh(a) * b)
    assert ad.autograd.gradcheck(f, (leaf(0.3, -0.2), leaf(1.0, 2.0)), atol=1e-6)


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"derivative": "centre"}, "derivative= is one of 'central', 'complex-step'.*got 'centre'"),
        ({"arrays": "torch"}, "arrays= is 'numpy' or 'tensor'"),
        ({"noise": 2.0}, "noise= is the relative error"),
        ({"retries": -1}, "retries= must not be negative"),
        ({"directions": 0}, "directions= must be at least 1"),
        ({"workers": 0}, "workers= takes None"),
        ({"workers": True}, "workers= takes None"),
        ({"timeout": 3}, "timeout=3 needs workers"),
        ({"linear": True, "derivative": "forward"}, "omit one"),
        ({"elementwise": True, "derivative": "spsa"}, "go with derivative='central'"),
        ({"elementwise": True, "sparsity": np.eye(2)}, "omit sparsity="),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ad.external(np.sin, **options)


def test_functions_are_functions() -> None:
    with pytest.raises(TypeError, match="needs a function, got int"):
        ad.external(3)
    with pytest.raises(TypeError, match="vjp= takes a function, got str"):
        ad.external(np.sin, vjp="x")


def test_it_is_a_decorator_too() -> None:
    @ad.external(derivative="complex-step")
    def wave(x: Any) -> Any:
        """A wave."""
        return np.sin(x)

    assert wave.__doc__ == "A wave." and "wave: derivative='complex-step'" in repr(wave)
    x = leaf(0.5)
    wave(x).backward()
    close(x.grad, math.cos(0.5), 1e-15)


def test_the_transforms_work_through_it() -> None:
    from adjoint.func import grad, hessian, jacfwd, jacrev, vmap

    def plain(v: ad.Tensor) -> ad.Tensor:
        return v.sin() * v.sum()

    f = ad.external(lambda v: np.sin(v) * v.sum())
    x = ad.tensor([0.3, 0.5], dtype=ad.float64)
    rows = ad.rand(3, 2, dtype=ad.float64)
    close(jacrev(f)(x), jacrev(plain)(x))
    close(jacfwd(f)(x), jacrev(plain)(x))
    close(hessian(lambda v: f(v).sum())(x), hessian(lambda v: plain(v).sum())(x), 1e-6)
    close(vmap(f)(rows), vmap(plain)(rows))
    each = vmap(grad(lambda v: f(v).sum()))(rows)
    close(each, vmap(grad(lambda v: plain(v).sum()))(rows))
    batched = ad.external(lambda v: np.sin(v) * v.sum(-1, keepdims=True), batched=True)
    close(vmap(batched)(rows), vmap(plain)(rows))
    assert batched.evaluator.count == 1


def test_second_order_in_every_order_of_modes_and_no_third() -> None:
    from adjoint.func import jacfwd, jacrev

    f = ad.external(lambda v: (np.sin(v) * v.sum()).sum())
    x = ad.tensor([0.3, 0.5], dtype=ad.float64)
    expected = jacrev(jacrev(lambda v: (v.sin() * v.sum()).sum()))(x)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            close(outer(inner(f))(x), expected, 1e-6)
            with pytest.raises(RuntimeError, match="no third derivative"):
                jacfwd(outer(inner(f)))(x)


# --- calls on tensors alone ----------------------------------------------------------------------


def test_a_call_on_tensors_alone_gives_what_any_other_call_gives() -> None:
    def f(x: Any, k: Any) -> Any:
        return k * np.sin(x), x.sum()

    direct, general = ad.external(f), ad.external(f)
    general._direct = False
    for dtype in (ad.float64, ad.float32):
        x, k = leaf(0.3, 0.4, dtype=dtype), leaf(2.0, dtype=dtype)
        for made in (direct, general):
            y, total = made(x, k)
            assert y.dtype == total.dtype == dtype and y.shape == (2,) and total.shape == ()
            (y.sum() + total).backward()
        close(x.grad / 2, 2 * ad.cos(x) + 1, 1e-3)
        close(k.grad / 2, ad.sin(x).sum(), 1e-3)


@pytest.mark.parametrize("result", [1.5, np.float64(1.5), np.float32(1.5), np.array(1.5)])
def test_a_number_is_a_tensor_of_one_number(result: Any) -> None:
    y = ad.external(lambda x: result)(leaf(0.0, 1.0, dtype=ad.float32))
    assert y.shape == () and y.item() == 1.5
    wide = type(result) in (np.float64, np.ndarray)  # plain floats take the dtype of the input
    assert y.dtype == (ad.float64 if wide else ad.float32)


def test_a_result_that_somebody_holds_is_copied() -> None:
    kept = np.zeros(2)

    def f(x: Any) -> Any:
        kept[:] = x
        return kept

    e = ad.external(f)
    first = e(leaf(1.0, 2.0))
    e(leaf(3.0, 4.0))
    close(first, [1.0, 2.0])
    same = ad.external(lambda x: x)(leaf(1.0, 2.0))
    same.detach().add_(1)  # would change the input, were it shared


def test_new_results_are_not_copied() -> None:
    places: list[int] = []

    def f(x: Any) -> Any:
        made = (np.sin(x), np.cos(x))
        places.extend(a.ctypes.data for a in made)
        return made

    a, b = ad.external(f)(leaf(1.0, 2.0))
    assert [a.data_ptr(), b.data_ptr()] == places
    c = ad.external(lambda x: f(x)[0])(leaf(1.0, 2.0))
    assert c.data_ptr() == places[2]


def test_results_of_a_vjp_are_not_shared() -> None:
    kept = np.ones(2)
    x = leaf(1.0, 2.0)
    e = ad.external(lambda x: x * 2, vjp=lambda u, x: kept)
    e(x).sum().backward()
    x.grad.add_(1)
    assert kept.tolist() == [1.0, 1.0]


def test_a_new_result_becomes_the_tensor_without_a_copy_and_a_held_one_with_one() -> None:
    held: list[np.ndarray] = []
    addresses: list[int] = []

    def run(x: np.ndarray, keep: bool) -> np.ndarray:
        out = x * 2
        addresses.append(out.ctypes.data)
        if keep:
            held.append(out)
        return out

    x = ad.tensor([0.3, 0.8], dtype=ad.float64)
    new = ad.external(lambda x: run(x, False), probe=False)(x)
    kept = ad.external(lambda x: run(x, True), probe=False)(x)
    assert new.data_ptr() == addresses[0]
    assert kept.data_ptr() != addresses[1]
    held[0][:] = 7
    assert kept.tolist() == [0.6, 1.6]


def test_a_new_result_of_a_vjp_becomes_the_gradient_without_a_copy() -> None:
    places: list[int] = []

    def vjp(u: Any, x: Any) -> Any:
        made = u * 2
        places.append(made.ctypes.data)
        return made

    x = leaf(1.0, 2.0)
    e = ad.external(lambda x: x * 2, vjp=vjp)
    e(x).sum().backward()
    assert x.grad.data_ptr() == places[0]
    e(x).sum().backward()
    close(x.grad, [4.0, 4.0])


@pytest.mark.parametrize("how", ["weak", "view", "twice", "reads"])
def test_a_result_of_a_vjp_that_can_still_be_reached_is_copied(how: str) -> None:
    seen: list[Any] = []

    def vjp(u: Any, x: Any, y: Any) -> Any:
        made = u * 2
        if how == "weak":
            seen.append(weakref.ref(made))
        elif how == "view":
            seen.append(made)
            made = made[:]
        elif how == "reads":
            return u, u
        return made, made

    x, y = leaf(1.0, 2.0), leaf(1.0, 2.0)
    out = ad.external(lambda x, y: 2 * x + 2 * y, vjp=vjp)(x, y)
    given = ad.ones(2, dtype=ad.float64)
    out.backward(given)
    assert x.grad.data_ptr() != y.grad.data_ptr()
    x.grad.zero_()
    held = [r() if how == "weak" else r for r in seen]
    assert all(array is None or array.tolist() == [2.0, 2.0] for array in held)
    assert y.grad.tolist() == ([1.0, 1.0] if how == "reads" else [2.0, 2.0])
    assert given.tolist() == [1.0, 1.0]


def test_a_gradient_that_a_hook_keeps_is_copied() -> None:
    kept: list[Any] = []
    x = leaf(1.0, 2.0)
    x.register_hook(kept.append)
    ad.external(lambda x: x * 2, vjp=lambda u, x: u * 2)(x).sum().backward()
    x.grad.zero_()
    close(kept[0], [2.0, 2.0])


@pytest.mark.parametrize("dtype", [ad.float64, ad.float32])
def test_elementwise_slopes_of_a_large_array(dtype: Any) -> None:
    data = np.arange(-10000, 10001) * 3e-4
    assert 0.0 in data  # its step is taken from the others
    x = ad.tensor(data, dtype=dtype, requires_grad=True)
    e = ad.external(np.sin, elementwise=True)
    for _ in range(2):  # the first derivative verifies; the second takes the short way
        x.grad = None
        y = e(x)
        y.backward(ad.full_like(x, 2.0), retain_graph=True)
        close(x.grad, 2 * ad.cos(x), 1e-8 if dtype == ad.float64 else 3e-3)
    before = e.evaluator.count
    y.backward(ad.ones_like(x))
    assert e.evaluator.count == before  # kept


def test_elementwise_slopes_that_are_not_finite_are_told() -> None:
    limit = 1.0
    e = ad.external(lambda x: np.where(x > limit, np.nan, x), elementwise=True)
    x = leaf(0.5, 0.9)
    e(x).sum().backward()  # verified here
    limit = 0.9
    with pytest.raises(ad.external.EvaluationError, match="nan"):
        e(x).sum().backward()


def test_a_hidden_tensor_is_told_in_the_words_of_its_user() -> None:
    w, x = leaf(1.0, 2.0), leaf(1.0, 2.0)

    def model(x: Any) -> Any:
        return x * w

    f = ad.external(model, arrays="tensor")
    for argument in (x, x.detach()):
        y = f(argument).sum()
        with pytest.raises(
            RuntimeError,
            match=r"^the gradient of w \(a variable of model, float64 \[2\]\) is lost: model comp",
        ) as caught:
            y.backward()
        assert "fix: pass it to model as an argument; use its detach() in" in str(caught.value)
        assert "apply" not in str(caught.value)
        assert "ExternalFunction" not in str(caught.value)
    with pytest.raises(RuntimeError, match=r"^the tangent of w .* is lost: model computes"):
        ad.func.jvp(
            lambda w: ad.external(lambda x: x * w, arrays="tensor", name="model")(x), (w,), (w,)
        )


@pytest.mark.parametrize("derivative", ["forward", "central", "complex-step", "richardson"])
def test_inputs_in_any_memory_order(derivative: str) -> None:
    rows = ad.arange(6.0, dtype=ad.float64).reshape(2, 3) + 0.5
    sine = ad.external(lambda x: np.sin(x), derivative=derivative)
    for x in (rows.t(), rows.t().clone(), rows[:, ::2]):
        assert not x.is_contiguous()
        u = x.detach().requires_grad_()
        sine(u).sum().backward()
        close(u.grad, ad.cos(x), 1e-6)
        close(ad.func.jvp(sine, (x,), (x,))[1], ad.cos(x) * x, 1e-6)


@pytest.mark.parametrize("v", [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)])
def test_a_corner_of_the_bounds_has_derivatives_in_every_direction(v: Any) -> None:
    def inside(x: Any) -> Any:
        assert (x >= 0).all() and (x <= 1).all()
        return np.exp(x) * x[::-1]

    f, x, d = ad.external(inside, bounds=(0, 1)), leaf(0.0, 1.0).detach(), leaf(*v).detach()

    def known(x: Any) -> Any:
        return ad.exp(x) * x.flip(0)

    close(ad.func.jvp(f, (x,), (d,))[1], ad.func.jvp(known, (x,), (d,))[1], 1e-8)
    second = [ad.autograd.functional.hvp(lambda x, g=g: g(x).sum(), x, d)[1] for g in (f, known)]
    close(*second, 2e-3)


@pytest.mark.parametrize("options", [{}, {"batched": True}, {"static": "k"}], ids=str)
def test_vmap_over_an_integer_or_static_argument_says_what_to_do(options: Any) -> None:
    f = ad.external(lambda x, k: x * k, name="model", **options)
    x, k = ad.ones(3, 2, dtype=ad.float64), ad.arange(3)
    what = "a static argument" if "static" in options else "a tensor of torch.int64"
    with pytest.raises(RuntimeError, match=rf"vmap over k of the external model, {what}(.|\n)*fix"):
        ad.func.vmap(f)(x, k)
    close(ad.func.vmap(f, in_dims=(0, None))(x, ad.tensor(3)), np.full((3, 2), 3.0))
    as_floats = ad.external(lambda x, k: x * k.astype(int))
    close(ad.func.vmap(as_floats)(x, k.double()), x * k[:, None])


CAPTURED: dict[str, dict[str, Any]] = {
    "differences": {},
    "vjp": {"vjp": lambda u, x: u * (np.cos(x) * x + np.sin(x))},
    "jvp": {"jvp": lambda t, x: t * (np.cos(x) * x + np.sin(x))},
    "jacobian": {"jacobian": lambda x: np.diag(np.cos(x) * x + np.sin(x))},
    "complex step": {"derivative": "complex-step"},
    "elementwise": {"elementwise": True},
}


@pytest.mark.parametrize("kind", CAPTURED)
def test_what_captures_a_computation_captures_it_too(kind: str) -> None:
    """Linear maps, pullbacks, checkpoints and the graph: made once, used as often as wanted."""
    e = ad.external(lambda x: np.sin(x) * x, name="model", **CAPTURED[kind])

    def through(f: Any) -> Any:
        return lambda x: (f(2 * x) * x).exp()

    f, known = through(e), through(lambda x: x.sin() * x)
    x, v = leaf(0.3, 0.7).detach(), leaf(1.0, -2.0).detach()
    slope = ad.func.jvp(known, (x,), (v,))[1]
    value, push = ad.func.linearize(f, x)
    close(value, known(x))
    close(push(v), slope)
    close(push(3 * v), 3 * slope)
    _, pull = ad.func.vjp(f, x)
    first = pull(v)[0]
    count = e.evaluator.count
    close(pull(v)[0], first)
    assert e.evaluator.count == count  # the Jacobian is kept with the capture
    close(first, ad.func.vjp(known, x)[1](v)[0])
    close(ad.func.functionalize(f)(x), known(x))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    ad.utils.checkpoint.checkpoint(f, a, use_reentrant=False).sum().backward()
    known(b).sum().backward()
    close(a.grad, b.grad)
    assert "ExternalFunction" in str(ad.graph(f(a)))


def test_a_function_of_tensors_is_told_how_to_get_them() -> None:
    x = ad.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError, match="must be Tensor") as caught:
        ad.external(ad.sin)(x)
    assert "arrays='tensor'" in caught.value.__notes__[0]
    assert ad.external(ad.sin, arrays="tensor")(x).item() == ad.sin(x).item()
