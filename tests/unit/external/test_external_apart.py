"""adjoint used inside an external: nothing that is under way outside reaches in."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import adjoint as ad


def float64(values, **options):
    return ad.tensor(values, dtype=ad.float64, **options)


def solve(a):
    """The root of x**3 + x = a, by Newton's method with adjoint's derivatives."""
    a = ad.tensor(np.asarray(a))
    x = 0.5 * ad.ones_like(a)
    energy = ad.func.grad(lambda z: (z**4 / 4 + z**2 / 2 - a * z).sum())
    for _ in range(12):
        slope = ad.func.grad(lambda z: energy(z).sum())(x)
        x = x - energy(x) / slope
    return x.numpy()


A = np.array([1.0, 2.0, 3.0])


def expected():
    x = solve(A)
    first = 1 / (3 * x**2 + 1)
    return x, first, -6 * x * first**3


def by_backward(a):
    with ad.enable_grad():
        z = ad.tensor(np.asarray(a), requires_grad=True)
        (z**3).sum().backward()
        return z.grad.numpy()


def by_plain_backward(a):
    z = ad.tensor(np.asarray(a), requires_grad=True)  # as it would be written anywhere else
    (g,) = ad.autograd.grad((z**4 / 4).sum(), z, create_graph=True)
    g.sum().backward()
    return z.grad.numpy()


def by_tangents(a):
    z = ad.tensor(np.asarray(a))
    return ad.func.jvp(lambda q: q**3, (z,), (ad.ones_like(z),))[1].numpy()


def by_functional(a):
    return ad.autograd.functional.jacobian(lambda q: (q**3).sum(), ad.tensor(np.asarray(a))).numpy()


def by_batches(a):
    rows = ad.tensor(np.stack([a, 2 * a]))
    return ad.vmap(ad.func.grad(lambda q: (q**3).sum()))(rows).numpy()[0]


def test_a_solver_written_with_adjoint_goes_through_every_transform():
    f, a = ad.external(solve), float64(A)
    x, first, second = expected()
    total = ad.func.grad(lambda q: f(q).sum())
    rows = a.reshape(3, 1)
    np.testing.assert_allclose(ad.vmap(f)(a).numpy(), x)
    np.testing.assert_allclose(total(a).numpy(), first, rtol=1e-8)
    np.testing.assert_allclose(ad.vmap(total)(rows).numpy()[:, 0], first, rtol=1e-8)
    for jacobian in (ad.func.jacrev, ad.func.jacfwd):
        np.testing.assert_allclose(jacobian(f)(a).numpy(), np.diag(first), rtol=1e-7, atol=1e-9)
    hessian = ad.func.hessian(lambda q: f(q).sum())
    np.testing.assert_allclose(hessian(a).numpy(), np.diag(second), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ad.vmap(hessian)(rows).numpy().reshape(-1), second, rtol=1e-5)
    np.testing.assert_allclose(ad.compile(lambda q: f(q).sum())(a).item(), x.sum())


@pytest.mark.parametrize(
    "inner", [by_backward, by_plain_backward, by_tangents, by_functional, by_batches]
)
def test_every_way_to_differentiate_inside_works_under_transforms(inner):
    f, a = ad.external(inner), float64(A)
    np.testing.assert_allclose(ad.vmap(f)(a.reshape(3, 1)).numpy().reshape(-1), 3 * A**2)
    np.testing.assert_allclose(ad.func.jvp(f, (a,), (a,))[1].numpy(), 6 * A**2, rtol=1e-7)
    np.testing.assert_allclose(
        ad.func.hessian(lambda q: f(q).sum())(a).numpy(), 6 * np.eye(3), atol=1e-5
    )
    with ad.inference_mode():
        np.testing.assert_allclose(f(a).numpy(), 3 * A**2)


def test_autocast_and_hooks_outside_do_not_reach_in():
    def product(a):
        m = ad.tensor(np.asarray(a)).float()
        return (m @ m).numpy().astype(float)

    a = np.full((2, 2), 1.001)
    with ad.autocast("cpu"):
        np.testing.assert_allclose(ad.external(product)(float64(a)).numpy(), a @ a, rtol=1e-6)

    packed = []

    def pack(t):
        packed.append(t.shape)
        return t

    f, x = ad.external(by_backward), float64(A, requires_grad=True)
    with ad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = f(x)
        seen = len(packed)
        by_backward(A)
        assert len(packed) > seen  # what is not in an external is seen
    assert seen <= 2  # the input and the output of f
    y.sum().backward()


def test_workers_that_are_started_inside_a_transform_know_nothing_of_it():
    with_workers = ad.external(by_tangents, workers=1)
    found = ad.vmap(ad.func.grad(lambda q: with_workers(q).sum()))(float64(A).reshape(3, 1))
    with_workers.close()
    np.testing.assert_allclose(found.numpy().reshape(-1), 6 * A, rtol=1e-7)


def test_an_external_records_whatever_is_recorded_around_it():
    f, a = ad.external(by_plain_backward), float64(A)
    with ad.no_grad():
        np.testing.assert_allclose(f(a).numpy(), 3 * A**2)
    twice = ad.compile(lambda q: f(q).sum() * 2)
    _, sums = ad.scan(lambda c, _: (f(c), f(c).sum()), a / 10, length=2)
    np.testing.assert_allclose(
        sums.numpy(), [(3 * (A / 10) ** 2).sum(), (27 * (A / 10) ** 4).sum()]
    )
    for _ in range(3):
        x = float64(A, requires_grad=True)
        twice(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 12 * A, rtol=1e-7)
    recorded = ad.external(lambda v: v.clone().requires_grad_() * 2, arrays="tensor")(a)
    assert not recorded.requires_grad


def test_tensors_of_the_transform_outside_are_refused_and_not_taken_for_constants():
    def outer(w):
        return ad.external(lambda v: (ad.tensor(v) * w).numpy())(float64(2.0))

    w = float64(1.0)
    with pytest.raises(RuntimeError, match=r"tangent of w .* is lost"):
        ad.func.jvp(outer, (w,), (w,))
    with pytest.raises(RuntimeError, match=r"gradient of w .* is lost"):
        ad.func.grad(outer)(w)
    with pytest.raises(RuntimeError, match="vmap"):
        ad.vmap(outer)(float64([1.0, 2.0]))


def test_an_error_inside_leaves_the_transforms_outside_as_they_were():
    def wrong(v):
        raise ArithmeticError("no")

    def tried(x):
        with contextlib.suppress(ArithmeticError):
            ad.external(wrong)(x)
        return x * 2

    np.testing.assert_allclose(ad.vmap(tried)(float64(A)).numpy(), 2 * A)
    np.testing.assert_allclose(ad.func.jvp(tried, (float64(A),), (float64(A),))[1].numpy(), 2 * A)
