"""LBFGS: PyTorch's evaluations one by one, and its line search by itself."""

from __future__ import annotations

import pickle

import pytest

import adjoint as ad
from adjoint import optim
from adjoint.optim.lbfgs import _cubic_interpolate, _strong_wolfe

START = [0.3, 0.7, 1.3, -0.4, 0.2, 1.1]
OPTIONS = [
    {},
    {"lr": 0.5},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 7},
    {"line_search_fn": "strong_wolfe", "max_eval": 4},
    {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-3},
    {"tolerance_grad": 1e-2},
]


def _rosenbrock(w):
    return (100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()


def _losses(lib, options, steps: int = 3, dtype: str = "float64"):
    w = lib.tensor(START, dtype=getattr(lib, dtype), requires_grad=True)
    optimizer = lib.optim.LBFGS([w], **options)
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = _rosenbrock(lib.view_as_real(w).reshape(-1) if w.is_complex() else w)
        loss.backward()
        seen.append(loss.item())
        return loss

    returned = [optimizer.step(closure).item() for _ in range(steps)]
    return seen, returned, optimizer


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_every_evaluation_is_pytorchs(options, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _losses(ad, options, dtype=dtype), _losses(torch, options, dtype=dtype)
    assert len(ours[0]) == len(theirs[0])
    assert ours[0] == pytest.approx(theirs[0], rel=1e-4, abs=1e-8)
    assert ours[1] == pytest.approx(theirs[1], rel=1e-4, abs=1e-8)
    states = [list(o.state_dict()["state"][0].values()) for o in (ours[2], theirs[2])]
    assert states[0][:2] == states[1][:2]  # func_evals, n_iter
    assert set(ours[2].state_dict()["state"][0]) == set(theirs[2].state_dict()["state"][0])


def test_it_finds_the_minimum() -> None:
    seen, _, optimizer = _losses(
        ad, {"line_search_fn": "strong_wolfe", "tolerance_change": 0}, steps=12
    )
    assert seen[-1] < 1e-15
    assert optimizer.param_groups[0]["params"][0].tolist() == pytest.approx([1.0] * 6, abs=1e-6)


@pytest.mark.parametrize("how", ["state_dict", "pickle"])
def test_it_goes_on_from_saved_state(how: str) -> None:
    options = {"line_search_fn": "strong_wolfe", "max_iter": 4}
    _, _, first = _losses(ad, options, steps=2)
    (w,) = first.param_groups[0]["params"]
    if how == "pickle":
        second = pickle.loads(pickle.dumps(first))
        (again,) = second.param_groups[0]["params"]
        again.requires_grad_()
    else:
        again = w.detach().clone().requires_grad_()
        second = optim.LBFGS([again], **options)
        second.load_state_dict(first.state_dict())
    ends = []
    for optimizer, x in ((first, w), (second, again)):

        def closure(optimizer=optimizer, x=x):
            optimizer.zero_grad()
            loss = _rosenbrock(x)
            loss.backward()
            return loss

        optimizer.step(closure)
        ends.append(x.tolist())
    assert ends[0] == ends[1]


def test_the_line_search_meets_the_wolfe_conditions() -> None:
    generator = ad.Generator().manual_seed(0)
    for _ in range(50):
        x = ad.randn(5, generator=generator, dtype=ad.float64)
        scale = 10 ** ad.randn(5, generator=generator, dtype=ad.float64)

        def at(x, t, d, scale=scale):
            place = (x + t * d).requires_grad_()
            loss = (scale * place**2 + place.sin()).sum()
            return loss.item(), ad.autograd.grad(loss, place)[0]

        f, g = at(x, 0, ad.zeros(5, dtype=ad.float64))
        d = -g
        slope = g.dot(d)
        loss, grad, t, count = _strong_wolfe(at, x, 1.0, d, f, g, slope)
        assert loss <= f + 1e-4 * t * slope and abs(grad.dot(d)) <= 0.9 * abs(slope)
        assert (loss, count <= 26) == (at(x, t, d)[0], True)


def test_the_cubic_goes_through_its_points() -> None:
    def cubic(x: float) -> tuple[float, float]:
        return x**3 - 3 * x, 3 * x**2 - 3

    for a, b in ((0.0, 3.0), (3.0, 0.0), (0.5, 1.2)):
        assert _cubic_interpolate(a, *cubic(a), b, *cubic(b)) == pytest.approx(1.0)
    assert _cubic_interpolate(0.0, 0.0, -1.0, 1.0, 0.5, 9.0, bounds=(0.4, 0.6)) == 0.6
    assert _cubic_interpolate(0.0, 0.0, 1.0, 1.0, 1.0, 1.0) == 0.0
    assert _cubic_interpolate(0.0, 0.0, 1.0, 1.0, 0.5, 1.0) == 0.5  # no minimum


def test_what_it_refuses() -> None:
    w = ad.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"per-parameter options \(parameter groups\)"):
        optim.LBFGS([{"params": [w]}, {"params": [w.detach().requires_grad_()]}])

    def closure():
        loss = (w**2).sum()
        w.grad = None
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optim.LBFGS([w], line_search_fn="golden").step(closure)
    optimizer = optim.LBFGS([w])
    optimizer.add_param_group({"params": [ad.ones(1, requires_grad=True)]})
    with pytest.raises(AssertionError, match="Expected exactly one param_group, but got 2"):
        optimizer.step(closure)
