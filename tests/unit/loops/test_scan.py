"""`scan`: the plain loop, to the last bit, with its gradients."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint.loops import _step
from tests.unit.loops.plain_loop import plain, same


class Ball(NamedTuple):
    x: Any
    v: Any


def swing(k: ad.Tensor) -> Callable[..., Any]:
    def step(ball: Ball, push: Any) -> tuple[Ball, ad.Tensor]:
        v = ball.v - 0.1 * k * ball.x.sin()
        if push is not None:
            v = v + push
        x = ball.x + 0.1 * v
        return Ball(x, v), x

    return step


MEMORIES: list[dict[str, Any]] = [
    {},
    {"memory": "sqrt"},
    {"memory": "300B"},
    {"snapshots": 1},
    {"snapshots": 2},
    {"snapshots": 5},
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kept", MEMORIES, ids=str)
def test_values_and_gradients_are_those_of_the_loop(kept: dict[str, Any], reverse: bool) -> None:
    ad.manual_seed(0)
    k = ad.rand(3, requires_grad=True)
    init = Ball(ad.rand(3, requires_grad=True), ad.rand(3))
    push = ad.rand(30, 3, requires_grad=True)
    leaves = [k, init.x, push]
    want, path = plain(swing(k), init, push, 30, reverse)
    last, rows = ad.scan(swing(k), init, push, reverse=reverse, **kept)
    assert isinstance(last, Ball)
    assert same(last.x, want.x) and same(last.v, want.v) and same(rows, path)
    for loss in (
        lambda b, p: b.x.sum(),
        lambda b, p: p.square().sum(),
        lambda b, p: (b.v * p).sum(),
    ):
        expected = ad.autograd.grad(loss(want, path), leaves, retain_graph=True)
        found = ad.autograd.grad(loss(last, rows), leaves, retain_graph=True)
        assert all(map(same, found, expected))


def test_a_carry_that_the_result_does_not_depend_on_costs_no_gradient() -> None:
    """Gradients that never arrive are not zeros: 0 * inf would be NaN."""
    a = ad.tensor(2.0, requires_grad=True)

    def step(carry: Any, _: Any) -> Any:
        x, energy = carry
        return (x * a, energy + (x - x).sqrt()), None

    (x, energy), _ = ad.scan(step, (1.0, 0.0), length=5)
    assert ad.autograd.grad(x, a, retain_graph=True)[0] == 80
    assert ad.autograd.grad(energy, a)[0].isnan()


def test_inputs_that_are_not_used_have_no_gradient() -> None:
    xs = ad.rand(4, 2, requires_grad=True)
    used = ad.rand(4, 2, requires_grad=True)
    last, _ = ad.scan(lambda c, x: (c + x[0], None), ad.zeros(2), (used, xs))
    found = ad.autograd.grad(last.sum(), [used, xs], allow_unused=True)
    assert same(found[0], ad.ones(4, 2)) and found[1] is None


def test_the_step_runs_once_as_python_whatever_the_length() -> None:
    calls = []

    def count() -> None:
        calls.append(1)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        if not ad.compiler.is_compiling():
            count()
        return c * 1.5, None

    last, ys = ad.scan(step, ad.ones(2), length=1000)
    assert not calls and ys is None
    assert ad.isinf(last).all()


def _outermost(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
    return c * x, c


def test_a_function_that_comes_again_is_recorded_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Any] = []

    def note(*args: Any) -> Any:
        recorded.append(args)
        return _step.record(*args)

    monkeypatch.setattr("adjoint.loops._scan_call.record", note)

    def step(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return c * x, c

    for function, most in ((_outermost, 1), (step, 2)):  # the other may be made anew in each call
        recorded.clear()
        for _ in range(4):
            first = ad.scan(function, ad.ones(2), ad.full((5, 2), 2.0))
            second = ad.scan(function, ad.ones(2) * 3, ad.full((7, 2), 2.0))
            assert first[0].tolist() == [32.0, 32.0] and second[0].tolist() == [384.0, 384.0]
        assert len(recorded) == most
        longer = ad.scan(function, ad.ones(3), ad.full((2, 3), 2.0))
        assert longer[0].tolist() == [4.0] * 3 and len(recorded) == most + 1


def test_steps_that_are_made_anew_do_not_stay() -> None:
    """A recording holds its step and what that reads: a training loop would fill the memory."""

    def gone() -> list[weakref.ref[Any]]:
        a = ad.randn(3, requires_grad=True)

        def step(c: Any, _: Any) -> Any:
            return (c * a).sin(), None

        last, _ = ad.scan(step, ad.ones(3), length=5)
        (g,) = ad.autograd.grad(last.sum(), a, create_graph=True)
        assert g is not None and ad.autograd.grad(g.sum(), a)
        return [weakref.ref(a), weakref.ref(step)]

    found = [ref for _ in range(3) for ref in gone()]
    gc.collect()
    assert all(ref() is None for ref in found)
    steps = [lambda c, _, k=k: (c + k, None) for k in range(40)]
    for step in steps * 2:
        ad.scan(step, ad.ones(3), length=5)
    refs = [weakref.ref(step) for step in steps]
    del steps, step
    gc.collect()
    assert sum(ref() is not None for ref in refs) <= 16


def test_parameters_may_be_changed_in_place_between_scans() -> None:
    def run(loop: Callable[..., Any]) -> list[Any]:
        w = ad.tensor([1.1, 0.9], requires_grad=True)
        optimizer = ad.optim.SGD([w], lr=0.1)

        def step(c: Any, _: Any) -> Any:
            x, energy = c
            x = x * w.sin()
            return (x, energy + (x * x).sum()), x

        found = []
        for turn in range(8):  # by turns other gradients are there
            (x, energy), ys = loop(step, (ad.ones(2), ad.tensor(0.0)), None, 5)
            optimizer.zero_grad()
            (ys.sum(), energy, x.sum() + energy)[turn % 3].backward()
            optimizer.step()
            found += w.tolist()
        return found

    with pytest.warns(ad.compiler.CompileWarning, match="backward pass of a loop runs as Python"):
        found = run(ad.scan)
    assert found == run(plain)


def test_a_step_may_change_its_carry_in_place() -> None:
    a = ad.tensor(2.0, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, ad.Tensor]:
        c.add_(1)
        return c * a, c.clone()

    start = ad.ones(2)
    with pytest.warns(ad.compiler.CompileWarning, match="changes a tensor from outside"):
        last, ys = ad.scan(step, start, length=3)
    assert last.tolist() == [22.0, 22.0] and ys[:, 0].tolist() == [2.0, 5.0, 11.0]
    assert ad.autograd.grad(last.sum(), a)[0] == 58


def test_what_a_step_reads_is_looked_at_again() -> None:
    state = {"gain": 2.0}

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return c * state["gain"], None

    assert ad.scan(step, 1.0, length=3)[0] == 8
    state["gain"] = 3.0
    assert ad.scan(step, 1.0, length=3)[0] == 27


def test_effects_run_as_python_and_as_often_as_the_loop_has_steps() -> None:
    log: list[int] = []
    a = ad.tensor(3.0, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        log.append(1)
        return c * a, None

    with pytest.warns(ad.compiler.CompileWarning, match="runs as Python.*`log` is changed"):
        last, _ = ad.scan(step, ad.ones(2), length=4)
    assert len(log) == 4
    assert ad.autograd.grad(last.sum(), a)[0] == 2 * 4 * 27


def test_a_loop_that_goes_on_as_python_requires_grad_where_the_plain_one_does() -> None:
    a = ad.tensor(3.0, requires_grad=True)
    log: list[int] = []

    def step(c: Any, _: None) -> Any:
        log.append(1)
        x, y, n = c
        return (x * 2, y * a, n + 1), x

    with pytest.warns(ad.compiler.CompileWarning, match="runs as Python"):
        (x, y, n), ys = ad.scan(step, (1.0, 1.0, 0), length=3)
    assert not x.requires_grad and y.requires_grad and not ys.requires_grad and n == 3
    assert ad.autograd.grad(y, a)[0] == 27


def test_a_custom_backward_may_read_what_its_forward_does_not() -> None:
    factor = ad.tensor(3.0)

    class Triple(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ad.Tensor) -> ad.Tensor:
            return x * 3.0

        @staticmethod
        def backward(ctx: Any, grad: ad.Tensor) -> ad.Tensor:
            return grad * factor

    x = ad.tensor(0.5, requires_grad=True)
    with pytest.warns(ad.compiler.CompileWarning, match="reads a tensor that the step does not"):
        last, _ = ad.scan(lambda c, _: (Triple.apply(c), None), x, length=4)
    assert ad.autograd.grad(last, x)[0].item() == 81.0


def test_derivatives_of_derivatives() -> None:
    def by_scan(x: ad.Tensor) -> ad.Tensor:
        return ad.scan(lambda c, _: (c * x.sin() + x, None), x, length=5)[0].sum()

    def by_loop(x: ad.Tensor) -> ad.Tensor:
        c = x
        for _ in range(5):
            c = c * x.sin() + x
        return c.sum()

    x = ad.tensor([0.3, 0.4], dtype=ad.float64, requires_grad=True)
    assert ad.allclose(ad.func.hessian(by_scan)(x), ad.func.hessian(by_loop)(x))
    (g,) = ad.autograd.grad(by_scan(x), x, create_graph=True)
    (h,) = ad.autograd.grad(by_loop(x), x, create_graph=True)
    assert same(g, h)
    assert ad.allclose(*(ad.autograd.grad(t.sum(), x)[0] for t in (g, h)))
    assert ad.autograd.gradcheck(by_scan, x) and ad.autograd.gradgradcheck(by_scan, x)


def test_transforms() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.scan(lambda c, _: (c * x + 1, None), x, length=4)[0]

    def g(x: ad.Tensor) -> ad.Tensor:
        c = x
        for _ in range(4):
            c = c * x + 1
        return c

    x = ad.tensor([0.5, 2.0, -1.0])
    assert same(ad.vmap(f)(x), ad.vmap(g)(x))
    assert same(ad.func.jacrev(f)(x), ad.func.jacrev(g)(x))
    assert same(ad.func.jacfwd(f)(x), ad.func.jacfwd(g)(x))
    assert same(ad.func.jvp(f, (x,), (x,))[1], ad.func.jvp(g, (x,), (x,))[1])
    assert same(ad.compile(f)(x), g(x))


def test_a_scan_inside_a_scan() -> None:
    a = ad.tensor(0.5, requires_grad=True)

    def inner(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, None]:
        return c * a + x, None

    def outer(c: ad.Tensor, row: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        c, _ = ad.scan(inner, c, row)
        return c, c

    xs = ad.rand(4, 3)
    last, ys = ad.scan(outer, 0.0, xs)
    c = ad.tensor(0.0)
    for x in xs.flatten():
        c = c * a + x
    assert same(last, c)
    assert same(ad.autograd.grad(ys.sum(), a, retain_graph=True)[0].sign(), ad.tensor(1.0))
    assert ad.allclose(*(ad.autograd.grad(t, a)[0] for t in (last, c)))


@pytest.mark.parametrize("kept", [{}, {"snapshots": 3}, {"memory": "sqrt"}], ids=str)
def test_random_numbers_are_those_of_the_loop(kept: dict[str, Any]) -> None:
    a = ad.tensor(0.9, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, ad.Tensor]:
        c = c * a + ad.randn(3) * c
        return c, c

    ad.manual_seed(3)
    want, ys = plain(step, ad.ones(3), None, 12)
    expected = ad.autograd.grad(ys.sum(), a)[0]
    after = ad.rand(2)
    ad.manual_seed(3)
    last, rows = ad.scan(step, ad.ones(3), length=12, **kept)
    assert same(last, want) and same(rows, ys)
    assert same(ad.autograd.grad(rows.sum(), a)[0], expected)
    assert same(ad.rand(2), after)


def test_the_second_derivative_is_taken_with_the_same_random_numbers() -> None:
    a = ad.tensor(0.9, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return c * a.sin() + ad.randn(3) * c, None

    found = []
    for loop in (ad.scan, plain):
        ad.manual_seed(5)
        last, _ = loop(step, ad.ones(3), None, 6)
        ad.rand(4)  # others are drawn before the backward pass
        (g,) = ad.autograd.grad(last.sum(), a, create_graph=True)
        found.append((g, ad.autograd.grad(g, a)[0], ad.rand(2)))
    assert all(map(same, *found))


def test_a_step_that_would_run_again_on_other_state_is_refused() -> None:
    state = {"gain": 2.0}
    a = ad.tensor(3.0, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return c * a * state["gain"], None

    last, _ = ad.scan(step, 1.0, length=3)
    state["gain"] = 1.0
    with pytest.raises(RuntimeError, match="what the step depends on has changed"):
        ad.autograd.grad(last, a, create_graph=True)


def test_externals_in_the_step() -> None:
    square = ad.external(lambda x: x * x)
    a = ad.tensor(1.1, dtype=ad.float64, requires_grad=True)
    start = ad.tensor(0.9, dtype=ad.float64)
    last, _ = ad.scan(lambda c, _: (square(c) * a, None), start, length=3)
    c = start
    for _ in range(3):
        c = c * c * a
    assert ad.allclose(last, c)
    assert ad.allclose(*(ad.autograd.grad(t, a)[0] for t in (last, c)))


def test_no_step_and_one_step() -> None:
    def step(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return c + x.sum(), x * 2

    last, ys = ad.scan(step, 1.0, ad.ones(0, 3))
    assert last == 1 and ys.shape == (0, 3)
    last, ys = ad.scan(step, 1.0, ad.ones(1, 3))
    assert last == 4 and ys.tolist() == [[2.0] * 3]


def test_outputs_may_be_structures_arguments_and_none() -> None:
    def step(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, dict[str, Any]]:
        return c + x, {"old": c, "row": x, "nothing": None, "view": x[:1], "number": 3}

    xs = ad.rand(5, 2, requires_grad=True)
    _, ys = ad.scan(step, ad.zeros(2), xs)
    assert same(ys["row"], xs) and ys["nothing"] is None and same(ys["view"], xs[:, :1])
    assert same(ys["old"][1:], xs.cumsum(0)[:-1]) and ys["number"].tolist() == [3] * 5
    found = ad.autograd.grad(ys["row"].sum() + ys["old"].sum() + ys["view"].sum(), xs)[0]
    assert found.tolist() == [[6.0 - t, 5.0 - t] for t in range(5)]


def test_a_second_backward_pass() -> None:
    a = ad.tensor(1.1, requires_grad=True)
    for kept in MEMORIES:
        last, _ = ad.scan(lambda c, _: (c * a, None), ad.ones(3), length=20, **kept)
        first = ad.autograd.grad(last.sum(), a, retain_graph=True)[0]
        second = ad.autograd.grad(last.sum(), a)[0]
        assert same(first, second)
        with pytest.raises(RuntimeError, match="second time"):
            ad.autograd.grad(last.sum(), a)


def test_a_change_in_place_of_what_backward_reads_is_refused() -> None:
    a = ad.ones(3, requires_grad=True)
    b = a * 1
    last, _ = ad.scan(lambda c, _: (c * b, None), ad.ones(3), length=3)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        last.sum().backward()


def test_integers_are_carried_too() -> None:
    a = ad.tensor(2.0, requires_grad=True)
    (count, total), _ = ad.scan(
        lambda c, _: ((c[0] + 1, c[1] + a * c[0]), None), (0, 0.0), length=4
    )
    assert count == 4 and count.dtype == ad.int64 and not count.requires_grad
    assert total == 12 and ad.autograd.grad(total, a)[0] == 6


def test_without_gradients_nothing_is_kept() -> None:
    a = ad.tensor(2.0, requires_grad=True)
    with ad.no_grad():
        last, ys = ad.scan(lambda c, _: (c * a, c), 1.0, length=5)
    assert last == 32 and not last.requires_grad and not ys.requires_grad
    last, _ = ad.scan(lambda c, _: (c * 2, c), 1.0, length=5)
    assert not last.requires_grad


@pytest.mark.parametrize("first", [True, False])
def test_an_output_that_is_a_tensor_from_outside(first: bool) -> None:
    """Whichever of two the step reads first: the gradient is its own, and so is the shape."""
    p, q = ad.ones(2, requires_grad=True), ad.ones(1, requires_grad=True)

    def step(c: Any, _: Any) -> Any:
        if first:
            p.sin()
        return c * q.cos() + p, p

    _, ys = ad.scan(step, ad.zeros(2), length=4)
    of_p, of_q = ad.autograd.grad(ys.sum(), [p, q], allow_unused=True)
    assert ys.shape == (4, 2) and of_q is None and of_p is not None and of_p.tolist() == [4, 4]


def test_a_carry_may_hold_none_and_texts() -> None:
    xs = ad.arange(5.0, requires_grad=True)
    (x, nothing, name), ys = ad.scan(
        lambda c, x: ((c[0] + x, c[1], c[2]), None if c[1] else x * 2), (0.0, None, "tank"), xs
    )
    assert (x.item(), nothing, name) == (10.0, None, "tank")
    assert ad.scan(lambda c, x: (None, x * 2), None, xs)[0] is None and ys.shape == (5,)
    with pytest.raises(ValueError, match=r"carry\[1\] as None and returned 'full'"):
        ad.scan(lambda c, x: ((c[0] + x, "full"), None), (0.0, None), xs)
    assert ad.checkpoint_loop(lambda c, x: ((c[0] + x, None), x), (0.0, None), xs)[0][1] is None


def test_what_depends_on_nothing_that_needs_a_gradient_needs_none() -> None:
    """As in the plain loop: a clock can be read, or become an array, at once."""
    k = ad.tensor(0.5, requires_grad=True)

    def step(c: Any, _: Any) -> Any:
        t, x, y, late = c
        return (t + 0.1, x * k, y * t, late + x), (t, y, x)

    start = (0.0, 1.0, 1.0, 0.0)
    (t, x, y, late), (times, ys, path) = ad.scan(step, start, length=6)
    on = [v.requires_grad for v in (t, x, y, late, times, ys, path)]
    assert on == [False, True, False, True, False, False, True]
    assert len(times.numpy()) == 6
    turned = ad.while_loop(lambda t, x: t < 1, lambda t, x: (t + 0.3, x * k), (ad.zeros(()), k))
    assert [v.requires_grad for v in turned] == [False, True]
    both = ad.compile(
        lambda k: ad.scan(lambda c, _: ((c[0] + 1, c[1] * k), None), (0.0, k), length=6)
    )
    for _ in range(3):
        (t, x), _ = both(k)
        assert [t.requires_grad, x.requires_grad] == [False, True]


def test_a_carry_that_lies_otherwise_in_memory() -> None:
    a, xs = ad.randn(3, 3, requires_grad=True), ad.randn(6, 3)

    def step(c: Any, x: Any) -> Any:
        return (c * a + x).T, (c.T, c.flip(0))

    def run(loop: Any) -> Any:
        last, (p, q) = loop(step, ad.ones(3, 3), xs)
        total = (last.sum() + (p * q).sum()).sin()
        return last, p, *ad.autograd.grad(total, a)

    def by_hand(step: Any, c: Any, xs: Any) -> Any:
        rows = []
        for x in xs:
            c, y = step(c, x)
            rows.append(y)
        return c, tuple(map(ad.stack, zip(*rows, strict=True)))

    assert all(map(same, run(ad.scan), run(by_hand)))


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no length": (lambda: ad.scan(lambda c, x: (c, x), 1.0), ValueError, "needs `length`"),
    "lengths": (
        lambda: ad.scan(lambda c, x: (c, x), 1.0, (ad.ones(3), ad.ones(4))),
        ValueError,
        r"xs\[0\] has 3 rows and xs\[1\] 4",
    ),
    "other length": (
        lambda: ad.scan(lambda c, x: (c, x), 1.0, ad.ones(3), length=4),
        ValueError,
        "xs has 3 rows and length 4",
    ),
    "scalar": (lambda: ad.scan(lambda c, x: (c, x), 1.0, ad.ones(())), ValueError, "no rows"),
    "negative": (lambda: ad.scan(lambda c, x: (c, x), 1.0, length=-1), ValueError, "negative"),
    "list": (lambda: ad.scan(lambda c, x: (c, x), 1.0, [1.0]), TypeError, "not a tensor; fix: "),
    "no pair": (lambda: ad.scan(lambda c, x: c, 1.0, length=2), TypeError, "returns a pair"),
    "structure": (
        lambda: ad.scan(lambda c, x: ((c, c), None), 1.0, length=2),
        ValueError,
        "carry of the structure",
    ),
    "shape": (
        lambda: ad.scan(lambda c, x: (c.sum(), None), ad.ones(3), length=2),
        ValueError,
        r"carry as torch.float32 \[3\] and returned it as torch.float32 \[\]",
    ),
    "dtype": (
        lambda: ad.scan(lambda c, x: (c * 0.5, None), 1, length=2),
        ValueError,
        "torch.int64 .* torch.float32",
    ),
    "a part of a step": (
        lambda: ad.scan(lambda c, x: (c, None), 1.0, length=2.5),  # type: ignore[arg-type]
        TypeError,
        "interpreted as an integer",
    ),
    "text": (lambda: ad.scan(lambda c, x: (c, None), "a", length=2), TypeError, "not str"),
    "memory": (
        lambda: ad.scan(lambda c, x: (c, None), 1.0, length=2, memory="much"),
        ValueError,
        "500MB",
    ),
    "snapshots": (
        lambda: ad.scan(lambda c, x: (c, None), 1.0, length=2, snapshots=0),
        ValueError,
        "snapshots=0",
    ),
    "both": (
        lambda: ad.scan(lambda c, x: (c, None), 1.0, length=2, snapshots=2, memory="sqrt"),
        ValueError,
        "give one of them",
    ),
    "folder": (
        lambda: ad.scan(lambda c, x: (c, None), 1.0, length=2, disk="/no/such/folder"),
        FileNotFoundError,
        "no such folder",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what: str) -> None:
    call, kind, text = BAD[what]
    with pytest.raises(kind, match=text):
        call()


def test_errors_name_the_step() -> None:
    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        ad.linalg.cholesky(c)
        return c - ad.eye(2), None

    with pytest.raises(ad.linalg.LinAlgError) as caught:
        ad.scan(step, 5.5 * ad.eye(2), length=10)
    (note,) = caught.value.__notes__
    assert note.startswith("in step 6 of those that ran, from 0, at  test_scan.py:")
    assert "ad.linalg.cholesky(c)" in note


def test_errors_name_the_step_where_steps_run_as_python() -> None:
    def step(c: ad.Tensor, x: ad.Tensor) -> tuple[ad.Tensor, None]:
        return c + x[int(c)], None

    with pytest.warns(ad.compiler.CompileWarning), pytest.raises(IndexError) as caught:
        ad.scan(step, ad.tensor(0), ad.ones(50, 3, dtype=ad.int64))
    assert caught.value.__notes__ == ["in step 3 of those that ran, from 0"]


def test_the_graph_shows_a_scan_as_one_node() -> None:
    k = ad.tensor(2.0, requires_grad=True)
    end, _ = ad.scan(lambda c, x: (c * k + x, None), ad.tensor(1.0), ad.ones(50))
    lines = ad.graph(end * 2).tree().splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["mul", "Loop"] and len(lines) == 4


def test_a_step_without_inputs_is_given_none() -> None:
    given: list[Any] = []

    def step(c: ad.Tensor, x: Any) -> tuple[ad.Tensor, None]:
        given.append(x)
        return c + 1, None

    for loop in (ad.scan, ad.checkpoint_loop):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ad.compiler.CompileWarning)  # it appends
            loop(step, ad.zeros(2), length=3)
    assert given == [None] * 6
