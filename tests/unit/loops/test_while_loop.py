"""`while_loop` and `map`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad

MEMORIES: list[dict[str, Any]] = [
    {},
    {"memory": "sqrt"},
    {"memory": "200B"},
    *({"snapshots": k} for k in (1, 2, 3, 7)),
]


@pytest.mark.parametrize("steps", [0, 1, 2, 8, 57])
@pytest.mark.parametrize("kept", MEMORIES, ids=str)
def test_it_is_the_loop(kept: dict[str, Any], steps: int) -> None:
    a = ad.tensor(0.7, requires_grad=True)

    def body(i: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return i + 1, x * a.sin() + 0.1 * x.roll(1)

    x = start = ad.arange(3.0, requires_grad=True)
    for i in range(steps):
        _, x = body(ad.tensor(i), x)
    i, y = ad.while_loop(lambda i, x: i < steps, body, (0, start), **kept)
    assert i == steps and bool((x == y).all())
    asked = [start, a] if steps else [start]
    of_x, of_y = (ad.autograd.grad(t.square().sum(), asked) for t in (x, y))
    assert all(bool((p == q).all()) for p, q in zip(of_x, of_y, strict=True))


def test_states_on_disk(tmp_path: Path) -> None:
    a = ad.tensor(0.99, requires_grad=True)
    for kept in ({}, {"snapshots": 4}, {"memory": "100B"}):
        x = ad.while_loop(
            lambda x: (x > 0.5).all(), lambda x: x * a, ad.ones(2), disk=tmp_path, **kept
        )
        (g,) = ad.autograd.grad(x.sum(), a)
        n = 69
        assert ad.allclose(g, 2 * n * a.detach() ** (n - 1), rtol=1e-4)
        del x
        assert not list(tmp_path.iterdir())


def test_newtons_method_has_the_derivative_of_the_root() -> None:
    def root(a: ad.Tensor) -> ad.Tensor:
        return ad.while_loop(
            lambda x: (x * x - a).abs() > 1e-12, lambda x: (x + a / x) / 2, ad.ones_like(a)
        )

    a = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    assert ad.allclose(root(a), a.detach().sqrt())
    assert ad.autograd.gradcheck(root, a) and ad.autograd.gradgradcheck(root, a)
    assert ad.allclose(ad.func.jvp(root, (a,), (ad.ones_like(a),))[1], 0.5 / a.sqrt())


def test_a_condition_of_python_runs_as_python() -> None:
    with pytest.warns(ad.compiler.CompileWarning, match="runs as Python"):
        x = ad.while_loop(lambda x: float(x) < 100, lambda x: x * 2, ad.tensor(1.0))
    assert x == 128
    with pytest.warns(ad.compiler.CompileWarning, match="runs as Python"):
        x = ad.while_loop(lambda x: x < 100, lambda x: x * 2 if x < 200 else x, ad.tensor(1.0))
    assert x == 128


def test_a_structure_is_one_argument_and_a_tuple_several() -> None:
    state = ad.while_loop(
        lambda s: s["n"] < 3, lambda s: {"n": s["n"] + 1, "x": s["x"] * 2}, {"n": 0, "x": 1.0}
    )
    assert state["n"] == 3 and state["x"] == 8
    assert ad.while_loop(lambda n: n < 3, lambda n: n + 1, [0]) == (ad.tensor(3),)


def test_a_condition_that_is_not_a_bool() -> None:
    with pytest.raises(TypeError, match="condition of a loop is a bool, not float32"):
        ad.while_loop(lambda x: 3.0 - x, lambda x: x + 1, 0.0)
    with pytest.raises(ValueError, match="returned it as"):
        ad.while_loop(lambda x: x.sum() < 3, lambda x: x.sum(), ad.ones(2))


@pytest.mark.parametrize(
    "body, error",
    [
        (lambda x: None, "not NoneType"),
        (lambda x: "on", "not str"),
        (lambda x: (x, x), "structure"),
    ],
)
def test_a_body_that_gives_no_state(body: Any, error: str) -> None:
    """It says so before the condition meets what it was not written for."""
    with pytest.raises((TypeError, ValueError), match=error):
        ad.while_loop(lambda x: x < 3, body, 0.0)


def test_map_is_a_stack_of_calls() -> None:
    w = ad.rand(3, requires_grad=True)
    xs = {"a": ad.rand(5, 3), "b": ad.rand(5)}

    def f(x: dict[str, ad.Tensor]) -> tuple[ad.Tensor, ad.Tensor]:
        return (x["a"] @ w) * x["b"], x["a"].sin()

    found = ad.loops.map(f, xs)
    want = [f({"a": xs["a"][i], "b": xs["b"][i]}) for i in range(5)]
    for k in range(2):
        assert bool((found[k] == ad.stack([row[k] for row in want])).all())
    g = ad.autograd.grad(found[0].sum(), w)[0]
    assert ad.allclose(g, (xs["a"] * xs["b"][:, None]).sum(0))


def test_pytorchs_addresses() -> None:
    from adjoint._higher_order_ops import cond, scan, while_loop

    xs = ad.arange(6.0).reshape(2, 3)
    last, ys = scan(lambda c, x: (c + x, c * x), ad.zeros(2), xs, dim=1, reverse=True)
    assert last.tolist() == [3.0, 12.0] and ys.tolist() == [[0.0, 2.0, 0.0], [27.0, 20.0, 0.0]]
    assert while_loop is ad.while_loop and cond is ad.cond


def test_pytorchs_map_hands_on_what_is_the_same_for_all_rows() -> None:
    from adjoint._higher_order_ops import map as map_rows

    k = ad.tensor(2.0, requires_grad=True)
    found = map_rows(lambda row, a, b: row.sum() * a + b, ad.ones(3, 4), k, 0.5)
    assert found.tolist() == [8.5] * 3
    assert ad.autograd.grad(found.sum(), k)[0].item() == 12.0


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_pytorchs_associative_scan_combines_all_rows_up_to_each(count: int, reverse: bool) -> None:
    from adjoint._higher_order_ops import associative_scan

    def compose(first: Any, second: Any) -> Any:  # of lines a x + b, which do not commute
        return first[0] * second[0], first[1] * second[0] + second[1]

    a, b = ad.rand(3, count, dtype=ad.float64), ad.rand(3, count, dtype=ad.float64)
    a.requires_grad_()
    order = list(range(count))[:: -1 if reverse else 1]
    rows: dict[int, Any] = {}
    for at, k in enumerate(order):
        row = (a[:, k], b[:, k])
        rows[k] = compose(rows[order[at - 1]], row) if at else row
    for mode in ("pointwise", "generic"):
        found = associative_scan(compose, (a, b), dim=1, reverse=reverse, combine_mode=mode)
        assert [t.shape for t in found] == [(3, count)] * 2
        if count == 0:
            continue
        want = [ad.stack([rows[k][part] for k in range(count)], 1) for part in range(2)]
        assert all(ad.allclose(x, y) for x, y in zip(found, want, strict=True))
        ends = [(x.cos() * y.sin()).sum() for x, y in (found, want)]
        assert ad.allclose(*(ad.autograd.grad(end, a, retain_graph=True)[0] for end in ends))
    with pytest.raises(ValueError, match="combine_mode"):
        associative_scan(compose, (a, b), 1, combine_mode="fast")


def newton(loop: Callable[..., Any], a: ad.Tensor, start: ad.Tensor) -> ad.Tensor:
    found: ad.Tensor = loop(
        lambda x: (x * x - a).abs().max() > 1e-9, lambda x: (x + a / x) / 2, start
    )
    return found


def plain(cond: Callable[..., Any], body: Callable[..., Any], state: Any) -> Any:
    while bool(cond(state)):
        state = body(state)
    return state


def test_in_a_compiled_function_it_is_one_instruction() -> None:
    a = ad.tensor([2.0, 3.0], dtype=ad.float64, requires_grad=True)
    compiled = ad.compile(lambda x: newton(ad.while_loop, a * 2, x).sin(), fullgraph=True)
    exact = (a * 2).sqrt().detach()
    for start in (exact * 0 + 1, exact * 5, exact, exact * 0.5):  # one of them needs no step
        x = start.clone().requires_grad_()
        found, wanted = compiled(x), newton(plain, a * 2, x).sin()
        assert bool((found == wanted).all())
        gradients = [ad.autograd.grad(t.sum(), [a, x], allow_unused=True) for t in (found, wanted)]
        for g, h in zip(*gradients, strict=True):
            assert ad.allclose(g, ad.zeros_like(g) if h is None else h)
    assert len(compiled.programs) == 1


def test_in_the_step_of_a_scan() -> None:
    """An implicit step: Newton's method until it has converged."""
    k = ad.tensor(3.0, dtype=ad.float64, requires_grad=True)

    def run(loop: Callable[..., Any], scan: Callable[..., Any]) -> Any:
        def step(u: Any, _: Any) -> Any:
            v = loop(
                lambda v: (v - u + 0.1 * k * v**3).abs() > 1e-10,
                lambda v: v - (v - u + 0.1 * k * v**3) / (1 + 0.3 * k * v**2),
                u,
            )
            return v, None

        return scan(step, ad.tensor(1.0, dtype=ad.float64), None, length=20)[0]

    def by_hand(step: Any, carry: Any, xs: Any, length: int) -> Any:
        for _ in range(length):
            carry, _y = step(carry, None)
        return carry, None

    found, wanted = run(ad.while_loop, ad.scan), run(plain, by_hand)
    assert found == wanted
    assert ad.allclose(*(ad.autograd.grad(t, k)[0] for t in (found, wanted)))


def test_effects_in_a_program_happen_as_often_as_there_are_steps() -> None:
    log: list[int] = []

    def body(x: ad.Tensor) -> ad.Tensor:
        log.append(1)
        return x * 2

    f = ad.compile(lambda x: ad.while_loop(lambda x: x < 50, body, x))
    with pytest.warns(ad.compiler.CompileWarning):
        assert f(ad.tensor(1.0)) == 64
    assert len(log) == 6


def test_effects_before_the_loop_stay() -> None:
    log: list[int] = []

    def f(x: ad.Tensor) -> ad.Tensor:
        log.append(1)
        return ad.while_loop(lambda x: x < 50, lambda x: x * 2, x)

    with pytest.warns(ad.compiler.CompileWarning, match="`log` is changed"):
        assert ad.compile(f)(ad.tensor(1.0)) == 64
    assert len(log) == 1


def _grown(x: Any) -> Any:
    def goes_on(i: Any, c: Any) -> Any:
        return (c.sum() < 50) & (i < 40)

    i, c = ad.while_loop(goes_on, lambda i, c: (i + 1, c * 1.3 + 0.1), (ad.tensor(0), x))
    return c.sum() * i


@pytest.mark.parametrize("transform", [lambda f: f, ad.func.grad, ad.func.jacfwd])
def test_samples_of_a_batch_end_one_by_one(transform: Callable[..., Any]) -> None:
    rows = ad.tensor([[1.0, 2.0], [-1.0, 0.5], [60.0, 4.0], [0.3, -4.0]], dtype=ad.float64)
    f = transform(_grown)
    assert ad.allclose(ad.vmap(f)(rows), ad.stack([f(row) for row in rows]), rtol=1e-13)
    both = ad.stack([rows, rows + 1])
    wanted = ad.stack([ad.stack([f(row) for row in some]) for some in both])
    assert ad.allclose(ad.vmap(ad.vmap(f))(both), wanted, rtol=1e-13)


def test_a_condition_that_is_a_number_is_refused() -> None:
    with pytest.raises(TypeError, match="not int"):
        ad.while_loop(lambda i: 3, lambda i: i + 1, ad.tensor(0))
    state = ad.while_loop(lambda c: c[0] < 3, lambda c: {0: c[0] + 1, 1: None}, {0: 0.0, 1: None})
    assert state[0].item() == 3 and state[1] is None


@pytest.mark.parametrize("around", ["compiled", "in a scan"])
@pytest.mark.parametrize("count", [0, 2])
def test_a_state_that_the_body_replaces_keeps_its_gradient_where_there_is_no_step(
    around: str, count: int
) -> None:
    a, b = ad.ones(3, requires_grad=True), ad.full((3,), 2.0, requires_grad=True)

    def loop(a: Any, b: Any) -> Any:
        def body(a: Any, b: Any, k: Any) -> Any:
            return a * b, ad.zeros(3), k + 1

        return ad.while_loop(lambda a, b, k: k < count, body, (a, b, ad.tensor(0)))[:2]

    def in_a_scan(a: Any, b: Any) -> Any:
        return ad.scan(lambda c, _: (loop(*c), None), (a, b), length=4)[0]

    found = ad.compile(loop)(a, b) if around == "compiled" else in_a_scan(a, b)
    slopes = ad.autograd.grad(sum((t * t).sum() for t in found), (a, b))
    if count == 0:
        assert all(map(ad.equal, slopes, (2 * a, 2 * b)))
    else:
        assert not any(t.any() for t in slopes)
