"""adjoint.func: derivatives as functions of functions, on tensors and structures."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import adjoint as ad
from adjoint.func import (
    grad,
    grad_and_value,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vhp,
    vjp,
    vmap,
)

X = [0.3, -1.2, 2.0]


def x3() -> ad.Tensor:
    return ad.tensor(X, dtype=ad.float64)


def cubic(x: ad.Tensor) -> ad.Tensor:
    return (x**3).sum() + x[0] * x[1]


def cubic_hessian(x: ad.Tensor) -> ad.Tensor:
    h = ad.diag(6 * x)
    h[0, 1] += 1
    h[1, 0] += 1
    return h


@dataclass
class State:
    position: ad.Tensor
    velocity: ad.Tensor


# --- reverse --------------------------------------------------------------------------------------
def test_grad_of_grad_of_grad() -> None:
    f = lambda x: x**4  # noqa: E731
    x = ad.tensor(2.0)
    assert grad(f)(x) == 32 and grad(grad(f))(x) == 48 and grad(grad(grad(f)))(x) == 48


def test_grad_has_the_structure_of_its_argument() -> None:
    state = State(x3(), x3() * 2)
    g = grad(lambda s: (s.position * s.velocity).sum())(state)
    assert isinstance(g, State) and ad.equal(g.position, state.velocity)
    nested = grad(lambda p: (p["a"][0] * p["b"]).sum())({"a": [x3()], "b": x3()})
    assert ad.equal(nested["a"][0], x3())


def test_argnums_choose_and_order() -> None:
    f = lambda a, b, c: (a * b**2 * c).sum()  # noqa: E731
    one = ad.tensor(1.0)
    got = grad(f, argnums=(2, -2))(one, one * 3, one * 2)
    assert [g.item() for g in got] == [9.0, 12.0]
    assert isinstance(grad(f, argnums=(0,))(one, one, one), tuple)
    for wrong, message in (((0, 0), "unique"), (3, "argnum=3"), ((), "non-empty"), ("0", "int")):
        with pytest.raises(RuntimeError, match=message):
            grad(f, argnums=wrong)(one, one, one)


def test_values_and_aux_come_along_without_history() -> None:
    f = lambda x: ((x**2).sum(), {"double": x * 2, "name": "n"})  # noqa: E731
    g, (value, aux) = grad_and_value(f, has_aux=True)(x3())
    assert ad.equal(g, 2 * x3()) and not value.requires_grad and not aux["double"].requires_grad
    assert aux["name"] == "n"
    assert value_and_grad(lambda x: x * x)(ad.tensor(3.0)) == (9, 6)
    assert grad(f, has_aux=True)(x3())[1]["name"] == "n"


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x, "scalar tensor, got tensor with 1 dims"),
        (lambda x: 3.0, "return a tensor, got float"),
    ],
)
def test_grad_wants_a_scalar(f: object, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        grad(f)(x3())


def test_gradients_flow_through_to_the_tape_outside() -> None:
    w = ad.tensor(2.0, requires_grad=True)
    x = ad.tensor(3.0, requires_grad=True)
    g = grad(lambda x: w * x**2)(x)  # 2 w x
    assert g.requires_grad
    assert ad.autograd.grad(g, (w, x)) == (6, 4)
    assert not grad(lambda x: x**2)(x.detach()).requires_grad
    with ad.no_grad():
        assert grad(lambda x: w * x**2)(x) == 12 and not grad(lambda x: w * x**2)(x).requires_grad


def test_code_in_place_and_views_inside_are_differentiated() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        y = x.clone()
        y[0].mul_(y[1].clone())
        y[1:] = y[1:] * 2
        return (y**2).sum()

    want = jacrev(lambda x: ad.stack([x[0] * x[1], 2 * x[1], 2 * x[2]]).pow(2).sum())(x3())
    assert ad.allclose(grad(f)(x3()), want)
    assert ad.allclose(jacfwd(f)(x3()), want)
    assert ad.allclose(jacfwd(grad(f))(x3()), jacrev(grad(f))(x3()))


def test_vjp_can_be_called_again_and_checks_its_argument() -> None:
    y, pull = vjp(lambda a, b: {"s": a + b, "p": a * b}, x3(), x3())
    assert not y["s"].requires_grad
    ones = ad.ones(3, dtype=ad.float64)
    for _ in range(2):
        ga, gb = pull({"s": ones, "p": ones})
        assert ad.equal(ga, 1 + x3()) and ad.equal(ga, gb)
    with pytest.raises(RuntimeError, match="structure of cotangents"):
        pull((ones, ones))
    with pytest.raises(RuntimeError, match=r"cotangents\['p'\].*\[3\].*\[2\]"):
        pull({"s": ones, "p": ones[:2]})


# --- forward --------------------------------------------------------------------------------------
def test_jvp_and_linearize_agree() -> None:
    f = lambda a, b: (a * b, {"s": a.sin()})  # noqa: E731
    at, v = (x3(), x3() + 1), (x3() * 2, x3() * 3)
    y, moved = jvp(f, at, v)
    out, push = linearize(f, *at)
    again = push(*v)
    assert ad.allclose(moved[0], v[0] * at[1] + at[0] * v[1])
    assert ad.allclose(moved[0], again[0]) and ad.allclose(moved[1]["s"], again[1]["s"])
    assert ad.equal(y[0], out[0]) and not out[0].requires_grad


def test_jvp_refuses_what_does_not_fit() -> None:
    with pytest.raises(RuntimeError, match="Expected primals to be a tuple"):
        jvp(ad.sin, x3(), (x3(),))
    with pytest.raises(RuntimeError, match="same python structure"):
        jvp(ad.sin, (x3(),), (x3(), x3()))
    with pytest.raises(RuntimeError, match="strict"):
        jvp(lambda x: ad.ones(2), (x3(),), (x3(),), strict=True)


def test_perturbations_are_not_confused() -> None:
    inner = lambda x: jvp(lambda y: x + y, (ad.tensor(1.0),), (ad.tensor(1.0),))[1]  # noqa: E731
    assert jvp(lambda x: x * inner(x), (ad.tensor(3.0),), (ad.tensor(1.0),))[1] == 1
    assert grad(lambda x: x * grad(lambda y: x + y)(ad.tensor(1.0)))(ad.tensor(3.0)) == 1


# --- whole matrices -------------------------------------------------------------------------------
@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev, grad])
def test_second_derivatives_by_any_two(outer: object, inner: object) -> None:
    assert ad.allclose(outer(inner(cubic))(x3()), cubic_hessian(x3()))
    assert ad.allclose(hessian(cubic)(x3()), cubic_hessian(x3()))


def test_products_with_the_hessian() -> None:
    v = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64)
    for product in (hvp, vhp):
        value, (got,) = product(cubic, (x3(),), (v,))
        assert value == cubic(x3()) and ad.allclose(got, cubic_hessian(x3()) @ v)


@pytest.mark.parametrize("jac", [jacfwd, jacrev])
def test_jacobians_of_structures(jac: object) -> None:
    f = lambda p, k: {"y": p["a"] * p["b"].sum(), "z": p["b"] * k}  # noqa: E731
    p = {"a": x3(), "b": ad.ones(2, dtype=ad.float64)}
    got = jac(f)(p, 3.0)
    assert got["y"]["a"].shape == (3, 3) and got["y"]["b"].shape == (3, 2)
    assert ad.equal(got["z"]["b"], 3 * ad.eye(2, dtype=ad.float64))
    assert not got["z"]["a"].any()
    both = jac(lambda a, b: a * b, argnums=(0, 1))(x3(), x3())
    assert ad.equal(both[1], ad.diag(x3()))
    tree, aux = jac(lambda x: (x**2, "aux"), has_aux=True)(x3())
    assert aux == "aux" and ad.equal(tree, ad.diag(2 * x3()))


def test_jacrev_in_chunks() -> None:
    for size in (1, 2, 5):
        assert ad.equal(jacrev(lambda x: x**2, chunk_size=size)(x3()), ad.diag(2 * x3()))
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(ad.sin, chunk_size=0)


# --- with vmap ------------------------------------------------------------------------------------
def test_per_sample_gradients_of_shared_weights() -> None:
    w, x = ad.randn(4, 5), ad.randn(7, 4)
    loss = lambda w, x: (x @ w).tanh().sum()  # noqa: E731
    got = vmap(grad(loss), in_dims=(None, 0))(w, x)
    want = ad.stack([grad(loss)(w, row) for row in x])
    assert ad.allclose(got, want, atol=1e-6)


def test_transforms_inside_and_outside_of_vmap() -> None:
    x = ad.randn(4, 3, dtype=ad.float64)
    assert ad.allclose(vmap(hessian(cubic))(x), ad.stack([cubic_hessian(r) for r in x]))
    total = lambda x: vmap(cubic)(x).sum()  # noqa: E731
    assert ad.allclose(grad(total)(x), vmap(grad(cubic))(x))
    inner = vmap(lambda r: jvp(cubic, (r,), (ad.ones(3, dtype=ad.float64),))[1])
    assert ad.allclose(inner(x), vmap(grad(cubic))(x).sum(1))
    outer = jvp(vmap(cubic), (x,), (ad.ones_like(x),))[1]
    assert ad.allclose(outer, inner(x))
    twice = vmap(grad(lambda r: vmap(lambda s: s**2)(r).sum()))(x)
    assert ad.allclose(twice, 2 * x)
    assert ad.allclose(
        grad(lambda w: vmap(grad(lambda r: (r**2 * w).sum()))(x).sum())(ad.tensor(2.0)),
        2 * x.sum().float(),
    )


# --- as PyTorch does ----------------------------------------------------------------------------
def test_results_must_be_tensors_and_something() -> None:
    for output in (None, ()):
        with pytest.raises(RuntimeError, match=r"vjp\(f, \*primals\): Expected f to be a function"):
            vjp(lambda _, output=output: output, x3())
        with pytest.raises(RuntimeError, match=r"jvp\(f, primals, tangents\): Expected f to be"):
            jvp(lambda _, output=output: output, (x3(),), (x3(),))
    for output in (1, "abc", [1.5]):
        with pytest.raises(RuntimeError, match=r"expected f\(\*primals\) to return only tensors"):
            vjp(lambda _, output=output: output, x3())
        with pytest.raises(RuntimeError, match=r"expected f\(\*primals\) to return only tensors"):
            jacfwd(lambda _, output=output: output)(x3())


def test_primals_and_tangents_must_be_alike() -> None:
    x = x3()
    for primals, tangents, message in (
        (x, (x,), "Expected primals to be a tuple"),
        ((x,), x, "same python structure"),
        ((x,), [x], "same python structure"),
        ((1.0,), (x,), "Expected primals to only contain Tensors, got float"),
        ((x,), (1.0,), "Expected tangents to only contain Tensors, got float"),
        ((), (), "at least one Tensor"),
        (((),), ((),), "at least one Tensor"),
    ):
        with pytest.raises(RuntimeError, match=message):
            jvp(ad.sin, primals, tangents)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_of_complex_functions_are_refused(name: str) -> None:
    jacobian = getattr(ad.func, name)
    with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real"):
        jacobian(ad.conj)(ad.tensor([1j]))
    with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real"):
        jacobian(lambda x: x * 0.5j)(ad.tensor([1.0]))


def test_rows_one_at_a_time_do_without_vmap() -> None:
    shapes = []

    class Reads(ad.autograd.Function):
        @staticmethod
        def forward(x: ad.Tensor) -> ad.Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: object, inputs: object, output: object) -> None:
            pass

        @staticmethod
        def backward(ctx: object, g: ad.Tensor) -> ad.Tensor:
            shapes.append(g.tolist())  # what vmap refuses
            return 2 * g

    found = jacrev(Reads.apply, chunk_size=1)(x3())
    ad.testing.assert_close(found, 2 * ad.eye(3, dtype=ad.float64))
    assert shapes == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    tree = jacrev(lambda x: (x.sin(), [x.sum()]), chunk_size=1)(x3())
    ad.testing.assert_close(tree[0], ad.diag(x3().cos()))
    ad.testing.assert_close(tree[1][0], ad.ones(3, dtype=ad.float64))
    several = jacrev(lambda x: x.sin(), chunk_size=2, _preallocate_and_copy=True)(x3())
    ad.testing.assert_close(several, ad.diag(x3().cos()))


def test_a_pull_after_no_grad_has_ended_is_recorded() -> None:
    x = ad.tensor(3.0, requires_grad=True)
    with ad.no_grad():
        y, pull = vjp(lambda x: x**2, x)
        (inside,) = pull(ad.tensor(1.0))
    assert not y.requires_grad
    assert not inside.requires_grad
    (g,) = pull(ad.tensor(1.0))
    assert g.item() == 6
    assert ad.autograd.grad(g, x)[0].item() == 2


def test_jvp_inside_a_custom_function_and_where_forward_mode_is_off() -> None:
    class Sin(ad.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: ad.Tensor) -> ad.Tensor:
            ctx.save_for_backward(x)  # type: ignore[attr-defined]
            return -jvp(ad.cos, (x,), (ad.ones_like(x),))[1]

        @staticmethod
        def backward(ctx: object, g: ad.Tensor) -> ad.Tensor:
            (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
            return g * jvp(ad.sin, (x,), (ad.ones_like(x),))[1]

    x = x3().requires_grad_()
    y = Sin.apply(x)
    ad.testing.assert_close(y, x.sin())
    ad.testing.assert_close(ad.autograd.grad(y.sum(), x)[0], x.cos())
    with ad.autograd.forward_ad.set_fwd_grad_enabled(False):
        _, moved = jvp(ad.sin, (x3(),), (ad.ones(3, dtype=ad.float64),))
        assert not ad.autograd.forward_ad._is_fwd_grad_enabled()
    ad.testing.assert_close(moved, x3().cos())


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"])
def test_the_older_interface_is_refused_inside_a_transform(name: str) -> None:
    function = getattr(ad.autograd.functional, name)
    more = (ad.ones(3, dtype=ad.float64),) if name in ("jvp", "vhp", "hvp") else ()

    def inner(x: ad.Tensor) -> ad.Tensor:
        function(lambda x: x.sin().sum(), x, *more)
        return x.sum()

    message = f"torch.autograd.functional.{name} was called inside"
    with pytest.raises(RuntimeError, match=message):
        vmap(inner)(ad.ones(2, 3, dtype=ad.float64))
    for transform in (grad, jacrev, jacfwd, hessian):
        with pytest.raises(RuntimeError, match=message):
            transform(inner)(x3())
    with pytest.raises(RuntimeError, match=message):
        linearize(inner, x3())
    inner(x3())  # the refusals have left nothing behind


def test_the_older_forward_jacobian_works_inside_vmap_and_around_others() -> None:
    x = ad.stack([x3(), 2 * x3()])
    functional = ad.autograd.functional

    def rows(x: ad.Tensor) -> ad.Tensor:
        return functional.jacobian(ad.sin, x, strategy="forward-mode", vectorize=True)

    ad.testing.assert_close(vmap(rows)(x), ad.diag_embed(x.cos()))

    def squares(x: ad.Tensor) -> ad.Tensor:
        functional.vjp(lambda x: x.sum(), x)  # not inside a transform of the user's
        return x**2

    found = functional.jacobian(squares, x3(), strategy="forward-mode", vectorize=True)
    ad.testing.assert_close(found, ad.diag(2 * x3()))


def test_printing_inside_vmap_counts_levels_from_one() -> None:
    seen = []

    def look(x: ad.Tensor) -> ad.Tensor:
        seen.append(repr(x))
        return x

    for _ in range(2):  # the same at each call
        vmap(look)(ad.ones(2))
        assert seen.pop().startswith("BatchedTensor(lvl=1, bdim=0, value=")
    vmap(vmap(look))(ad.ones(2, 2))
    assert seen.pop().startswith("BatchedTensor(lvl=2, bdim=0, value=\n    BatchedTensor(lvl=1")


def test_linearize_nests_as_the_others_do() -> None:
    xs = ad.stack([x3(), 2 * x3()])

    def slope(x: ad.Tensor) -> ad.Tensor:
        return linearize(ad.sin, x)[1](ad.ones_like(x))

    ad.testing.assert_close(vmap(slope)(xs), xs.cos())
    ad.testing.assert_close(vmap(grad(lambda x: slope(x).sum()))(xs), -xs.sin())
    ad.testing.assert_close(jacfwd(slope)(x3()), ad.diag(-x3().sin()))


def test_a_sample_cannot_be_made_a_leaf() -> None:
    with pytest.raises(RuntimeError, match=r"Tensor\.requires_grad_\(\) was called on a sample"):
        vmap(lambda x: x.requires_grad_().sin())(x3())
    # What is differentiated by already requires gradients: nothing changes.
    found = vmap(grad(lambda x: x.requires_grad_().sin()))(x3())
    ad.testing.assert_close(found, x3().cos())


def test_a_gradient_inside_by_a_constant_leaves_no_history():
    x = ad.tensor([0.7], dtype=ad.float64)

    def slope(a):
        return grad(lambda x: ((x - a) ** 4).sum())(x).sum()

    def curvature(a):
        return jacrev(grad(lambda x: ((x - a) ** 4).sum()))(x).sum()

    a = ad.tensor([0.5, 1.0], dtype=ad.float64)
    for f, first, second in ((slope, -12.0, -24.0), (curvature, -24.0, 24.0)):
        once, twice = vmap(grad(f))(a), ad.vmap(grad(grad(f)))(a)
        assert not once.requires_grad and not twice.requires_grad
        power = (x - a) if f is curvature else (x - a) ** 2
        ad.testing.assert_close(once, first * power)
        ad.testing.assert_close(twice, second * (power * 0 + 1 if f is curvature else -(x - a)))


def test_a_value_beside_a_gradient_leaves_no_history_in_tangents():
    at = ad.tensor([0.5, 0.8], dtype=ad.float64)

    def value(x):
        return ad.func.grad_and_value(lambda x: x[0] ** 2 * x[1])(x)[1]

    def pulled(x):
        return ad.func.vjp(lambda x: x[0] ** 2 * x[1], x)[0]

    for f in (value, pulled):
        for by in (ad.func.jacfwd, ad.func.hessian, lambda f: ad.func.jacfwd(ad.func.jacfwd(f))):
            assert not by(f)(at).requires_grad
        ad.testing.assert_close(ad.func.jacfwd(f)(at), ad.tensor([0.8, 0.25], dtype=ad.float64))
        assert not ad.vmap(ad.func.jacfwd(f))(at[None]).requires_grad
    x = at.clone().requires_grad_()
    moved = ad.func.jvp(value, (x,), (at,))[1]
    assert moved.requires_grad  # to x, which is another's
