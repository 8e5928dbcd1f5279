"""Plain `for` loops of compiled functions, whose steps become a scan once they repeat themselves.

What a loop may be, and what keeps it as it is; in either case every bit is that of eager execution.
tests/property/test_random_taken_over_loops.py has random ones.
"""

from __future__ import annotations

import collections
import dataclasses
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core
from adjoint._for_loops import _takeover
from adjoint._for_loops._frames import understood
from tests.children import ENVIRONMENT

Function = Callable[..., Any]
pytestmark = pytest.mark.skipif(not understood(), reason="frames of this Python are not known")
N = 150


@pytest.fixture(autouse=True)
def look_at_short_programs() -> Iterator[None]:
    before = _core._follow_from(60), _core._roll_from(1000)
    yield
    _core._follow_from(before[0])
    _core._roll_from(before[1])


def tensors() -> list[ad.Tensor]:
    ad.manual_seed(3)
    return [ad.randn(3).requires_grad_(), (0.4 * ad.randn(3, 3)).requires_grad_()]


def outcome(function: Function, needs: bool) -> list[Any]:
    ad.manual_seed(3)
    a, w = ad.randn(3).requires_grad_(), (0.4 * ad.randn(3, 3)).requires_grad_()
    xs = (0.3 * ad.randn(160, 3)).requires_grad_(needs)
    result = function(a, w, xs)
    (result * ad.linspace(0.3, 1, result.numel()).reshape(result.shape)).sum().backward()
    return [t if t is None else t.tolist() for t in (result, a.grad, w.grad, xs.grad)]


def what_becomes_of(function: Function, needs: bool = False) -> list[str]:
    """That of its loops, in a first call; results and gradients are those of eager execution."""
    expected = outcome(function, needs)
    fast = ad.compile(function, fullgraph=True)
    _takeover.decisions.clear()
    assert outcome(fast, needs) == expected
    found = [*_takeover.decisions]
    assert outcome(fast, needs) == expected
    assert outcome(fast, needs) == expected
    assert len(fast.programs) == 1
    return found


# -- loops that become scans -----------------------------------------------------------------------


def plain(a: Any, w: Any, xs: Any) -> Any:
    for _ in range(N):
        a = ad.tanh(w @ a)
    return a


def rows(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a + xs[i])
    return a


def shifted_rows(a: Any, w: Any, xs: Any) -> Any:
    for i in range(1, N, 2):
        a = ad.tanh(w @ a + xs[i - 1])
    return a


def rows_from_the_end(a: Any, w: Any, xs: Any) -> Any:
    for i in reversed(range(N)):
        a = ad.tanh(w @ a + xs[i])
    return a


def columns(a: Any, w: Any, xs: Any) -> Any:
    batch = xs.T.reshape(1, 3, 160)
    for t in range(N):
        a = ad.tanh(w @ a + batch[:, :, t][0])
    return a


def rows_from_outside(a: Any, w: Any, xs: Any) -> Any:
    def inside(a: Any) -> Any:
        for i in range(N):
            a = ad.tanh(w @ a + xs[i])
        return a

    return inside(a)


def over_a_tensor(a: Any, w: Any, xs: Any) -> Any:
    for x in xs:
        a = ad.tanh(w @ a + x) * x
    return a


def numbered(a: Any, w: Any, xs: Any) -> Any:
    for _i, (x, y) in enumerate(zip(xs, xs[2:], strict=False)):
        a = ad.tanh(w @ a + x * y) + xs.detach()[0] * 0.1
    return a * _i


def path(a: Any, w: Any, xs: Any) -> Any:
    rows = []
    for _ in range(N):
        a = ad.tanh(w @ a)
        rows.append(a)
    return ad.stack(rows)


def path_before(a: Any, w: Any, xs: Any) -> Any:
    rows = []
    for _ in range(N):
        rows.append((a, a.sum()))
        a = ad.tanh(w @ a)
    return ad.stack([x * s for x, s in rows])


def loss(a: Any, w: Any, xs: Any) -> Any:
    total = 0.0
    for i in range(N):
        a = ad.tanh(w @ a)
        total = total + ((a - xs[i]) ** 2).mean()
    return total * a


def two_steps_back(a: Any, w: Any, xs: Any) -> Any:
    before = None
    for _ in range(N):
        after = ad.tanh(w @ a) if before is None else ad.tanh(w @ a) - 0.1 * before
        before, a = a, after
    return a


Pair = collections.namedtuple("Pair", "x v")


def named(a: Any, w: Any, xs: Any) -> Any:
    p = Pair(a, a * 0)
    for _ in range(N):
        p = Pair(p.x + 0.1 * p.v, p.v - 0.1 * (w @ p.x))
    return p.x


@dataclasses.dataclass
class State:
    x: Any
    v: Any


def with_a_class(a: Any, w: Any, xs: Any) -> Any:
    p = State(a, a * 0)
    for _ in range(N):
        p = State(p.x + 0.1 * p.v, p.v - 0.1 * (w @ p.x))
    return p.x


def a_new_dict(a: Any, w: Any, xs: Any) -> Any:
    s = {"x": a, "v": a * 0}
    for _ in range(N):
        s = {"x": s["x"] + 0.1 * s["v"], "v": s["v"] - 0.1 * (w @ s["x"])}
    return s["x"]


class Simulation:
    def __init__(self, w: Any) -> None:
        self.w, self.h = w, 0.1

    def step(self, x: Any, v: Any) -> Any:
        return x + self.h * v, v - self.h * (self.w @ x)

    def run(self, x: Any) -> Any:
        v = x * 0
        for _ in range(N):
            x, v = self.step(x, v)
        return x


def a_method(a: Any, w: Any, xs: Any) -> Any:
    return Simulation(w).run(a)


def inside_blocks(a: Any, w: Any, xs: Any) -> Any:
    with ad.enable_grad():
        try:
            for _ in range(N):
                try:
                    with ad.no_grad():
                        m = 0.1 * a
                    a = ad.tanh(w @ a) + m
                finally:
                    b = a
        except ValueError:
            a = a * 2
        else:
            a = a * 3
    return a + b


def loops_in_a_loop(a: Any, w: Any, xs: Any) -> Any:
    for _ in range(40):
        for i in range(40):
            a = ad.tanh(w @ a + xs[i])
        a = a * 0.5
    return a


def gradients_inside(a: Any, w: Any, xs: Any) -> Any:
    v = ad.zeros(3)
    for _ in range(N):
        energy = ((w @ a) ** 2).sum()
        (force,) = ad.autograd.grad(energy, a, create_graph=True)
        v = v - 0.01 * force
        a = a + 0.01 * v
    return a


doubled = ad.external(lambda v: np.tanh(v) * 0.5, vjp=lambda v, g: g * 0.5 / np.cosh(v) ** 2)


def an_external(a: Any, w: Any, xs: Any) -> Any:
    for _ in range(60):
        a = doubled(w @ a) + 0.1 * a
    return a


def other_loops(a: Any, w: Any, xs: Any) -> Any:
    for _ in range(60):
        a, _ys = ad.scan(lambda c, _: (ad.tanh(w @ c), None), a, length=20)
        a = ad.cond(a.sum() > 0, lambda x: x * 0.5, lambda x: x + 1, (a,))
    return a


def a_flag_at_first(a: Any, w: Any, xs: Any) -> Any:
    done = False
    for _ in range(N):
        if not done:
            a, done = a * 2, True
        a = ad.tanh(w @ a)
    return a


TAKEN = [
    *(plain, rows, shifted_rows, rows_from_the_end, columns, rows_from_outside, over_a_tensor),
    *(numbered, path, path_before, loss, two_steps_back, named, with_a_class, a_new_dict),
    *(a_method, inside_blocks, loops_in_a_loop, gradients_inside, an_external, other_loops),
    a_flag_at_first,
]


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("function", TAKEN)
def test_loops_that_become_scans(function: Function, needs: bool) -> None:
    assert "taken over" in what_becomes_of(function, needs)


# -- loops that stay what they are -----------------------------------------------------------------


def a_number_that_changes(a: Any, w: Any, xs: Any) -> Any:
    t = 0.0
    for _ in range(N):
        a, t = ad.tanh(w @ a) + 0.01 * t, t + 0.1
    return a


def a_counter(a: Any, w: Any, xs: Any) -> Any:
    n = 0
    for _ in range(N):
        n = min(n + 1, 90)
        a = ad.tanh(w @ a) * (1 if n < 90 else 0.9)
    return a


def the_item(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a) * (2 if i == 77 else 1)
    return a


def rows_otherwise(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a + xs[i % 7])
    return a


def rows_and_more(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a + xs[i] * xs.sum(0))
    return a


def an_item_that_is_written(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a + xs[i])
        i = 31
        a = a + xs[i]
    return a


def rows_of_what_is_written(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a + xs[i])
        xs = a.expand(160, 3) * 1
    return a


def a_row_before_the_first(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a + xs[i - 155])
    return a


def a_dict_that_is_written(a: Any, w: Any, xs: Any) -> Any:
    s = {"x": a, "v": a * 0}
    for _ in range(N):
        s["x"] = s["x"] + 0.1 * s["v"]
        s["v"] = s["v"] - 0.1 * (w @ s["x"])
    return s["x"]


class Counting(Simulation):
    calls = 0

    def step(self, x: Any, v: Any) -> Any:
        self.calls += 1
        return super().step(x, v)


def an_object_that_is_written(a: Any, w: Any, xs: Any) -> Any:
    one = Counting(w)
    return one.run(a) * one.calls


def a_list_with_two_names(a: Any, w: Any, xs: Any) -> Any:
    rows: list[Any] = []
    same = rows
    for _ in range(N):
        a = ad.tanh(w @ a)
        rows.append(a)
        same.append(a * 2)
    return sum(rows)


def a_list_that_grows(a: Any, w: Any, xs: Any) -> Any:
    items = [a] * 100
    for x in items:
        a = ad.tanh(w @ a + x)
        if len(items) < 120:
            items.append(a * 0.5)
    return a


def a_zipped_iterator_has_a_name(a: Any, w: Any, xs: Any) -> Any:
    left = iter(xs)
    for x, _ in zip(left, range(N), strict=False):
        a = ad.tanh(w @ a + x)
    return a * len([*left])


def the_iterator_has_a_name(a: Any, w: Any, xs: Any) -> Any:
    items = iter(range(2 * N))
    count = 0
    for _ in items:
        next(items)
        a, count = ad.tanh(w @ a), count + 1
    return a * count


def variables_by_name(a: Any, w: Any, xs: Any) -> Any:
    for _ in range(N):
        a = ad.tanh(locals()["w"] @ a)
    return a


def an_attribute(a: Any, w: Any, xs: Any) -> Any:
    for _ in range(N):
        factor = getattr(a, "factor", 0.5)
        a = ad.tanh(w @ a) * factor
        a.factor = 0.75
    return a * 1


def autocast(a: Any, w: Any, xs: Any) -> Any:
    with ad.autocast("cpu"):
        for _ in range(N):
            a = ad.tanh(w @ a)
    return a.float()


def break_(a: Any, w: Any, xs: Any) -> Any:
    for i in range(N):
        a = ad.tanh(w @ a)
        if i == 100:
            break
    return a


def a_generator(a: Any, w: Any, xs: Any) -> Any:
    def states(a: Any) -> Iterator[Any]:
        for _ in range(N):
            a = ad.tanh(w @ a)
            yield a

    for x in states(a):
        a = x
    return a


def a_global_that_is_written(a: Any, w: Any, xs: Any) -> Any:
    cell = 0

    def count() -> None:
        nonlocal cell
        cell += 1

    for _ in range(N):
        count()
        a = ad.tanh(w @ a)
    return a * cell


def gradients_that_add_up(a: Any, w: Any, xs: Any) -> Any:
    k = ad.ones(3, requires_grad=True)
    for _ in range(N):
        a = ad.tanh(k * a.detach() + 0.1)
        a.sum().backward()
    return w @ k.grad


def hooks(a: Any, w: Any, xs: Any) -> Any:
    k = w * 1
    for _ in range(N):
        a = ad.tanh(k @ a + 0.1)
        k.register_hook(lambda g: g * 1.001)
    return a * 1


def rows_across(a: Any, w: Any, xs: Any) -> Any:
    m, rows = w, []
    for _ in range(N):
        m = ad.tanh(m)
        rows.append(m.T)
    return rows[100] * sum(row.stride()[0] for row in rows)


def rows_with_one_memory(a: Any, w: Any, xs: Any) -> Any:
    rows, same, x = [], [], a.detach()
    for _ in range(N):
        x = ad.tanh(w.detach() @ x)
        rows.append(x)
        same.append(x.view(-1))
    same[100].zero_()
    return rows[100] * a + w @ a


def one_tensor_in_two_lists(a: Any, w: Any, xs: Any) -> Any:
    before, after = [], []
    for _ in range(N):
        following = ad.tanh(w @ a)
        before.append(a)
        after.append(following)
        a = following
    return a * sum(x is y for x, y in zip(before[1:], after, strict=False))


def one_list_in_a_list(a: Any, w: Any, xs: Any) -> Any:
    marks, rows = [1], []
    for _ in range(N):
        a = ad.tanh(w @ a)
        rows.append(marks)
    marks.append(2)
    return a * sum(map(len, rows))


def a_dict_that_is_handed_on(a: Any, w: Any, xs: Any) -> Any:
    s = {"x": a, "facts": {"n": 1}}
    facts = s["facts"]
    for _ in range(N):
        s = {"x": ad.tanh(w @ s["x"]), "facts": s["facts"]}
    s["facts"]["n"] = 7
    return s["x"] * facts["n"]


def keys_in_another_order(a: Any, w: Any, xs: Any) -> Any:
    s = {"x": a, "y": 2 * a}
    for _ in range(N):
        first, second = s
        s = {second: ad.tanh(w @ s[second]) + 0.1, first: ad.tanh(w @ s[first]) + 0.2}
        first = second = None
    x, y = s.values()
    return x - 0.5 * y


def an_attribute_that_is_no_field(a: Any, w: Any, xs: Any) -> Any:
    p: Any = State(a, a)
    p.n = 0
    for _ in range(N):
        q: Any = State(ad.tanh(w @ p.x), p.v)
        q.n = p.n + 1
        p = q
        del q
    return p.x * p.n


def tensors_in_turns(a: Any, w: Any, xs: Any) -> Any:
    p, q = a * 1, a * 2
    first = p
    for _ in range(N + 1):
        a = ad.tanh(w @ a) + (p if p is first else 0.5 * p)
        p, q = q, p
    return a


class Below(Simulation):
    def run(self, x: Any) -> Any:
        for _ in range(N):
            try:
                x, _v = super().step(x, x)
            except RuntimeError:
                x = 0.5 * x
        return x


def the_class_above(a: Any, w: Any, xs: Any) -> Any:
    return Below(w).run(a)


def items_with_attributes(a: Any, w: Any, xs: Any) -> Any:
    items: list[Any] = [row * 1 for row in xs]
    for x in items:
        a = ad.tanh(w @ a) + x
        x.seen = True
    return a * sum(hasattr(x, "seen") for x in items)


def conjugates(a: Any, w: Any, xs: Any) -> Any:
    z = ad.complex(a, 0.5 * a)
    for _ in range(N):
        z = (0.5 * z + (0.1 if z.is_conj() else 0.2)).conj()
    return ad.view_as_real(z * 1)


def a_view_of_a_view(a: Any, w: Any, xs: Any) -> Any:
    m = w * 1
    for _ in range(N):
        m = m.T
        a = ad.tanh(m @ a) + m[1:].sum(0)
    return a


def what_is_finalized(a: Any, w: Any, xs: Any) -> Any:
    count = [0]

    class Thing:
        def __del__(self) -> None:
            count[0] += 1

    for _ in range(N):
        thing = Thing()
        a = ad.tanh(w @ a)
    del thing
    return a * count[0]


def the_list_of_a_method(a: Any, w: Any, xs: Any) -> Any:
    rows: list[Any] = []
    for _ in range(N):
        rows.append(a)
        a = ad.tanh(w @ a) * (0.9 if len(rows.append.__self__) < 120 else 0.5)
    return a


def which_result(a: Any, w: Any, xs: Any) -> Any:
    a = a * 1
    for _ in range(N):
        factor = 0.5 if a.output_nr else 0.9
        a = ad.stack([a, factor * ad.tanh(w @ a)]).unbind(0)[1]
    return a * 1


def hooks_of_nodes(a: Any, w: Any, xs: Any) -> Any:
    k = w * 1
    for _ in range(N):
        a = ad.tanh(k @ a + 0.1)
        k.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else 1.001 * g for g in gi))
    return a * 1


LEFT = [
    *(gradients_that_add_up, hooks, rows_across, rows_with_one_memory, one_tensor_in_two_lists),
    *(one_list_in_a_list, a_dict_that_is_handed_on, keys_in_another_order, tensors_in_turns),
    *(an_attribute_that_is_no_field, the_class_above, items_with_attributes, conjugates),
    *(what_is_finalized, the_list_of_a_method, which_result, hooks_of_nodes),
    *(a_number_that_changes, a_counter, the_item, rows_otherwise, rows_and_more),
    *(a_row_before_the_first, a_dict_that_is_written, an_object_that_is_written, autocast),
    *(a_list_with_two_names, a_list_that_grows, the_iterator_has_a_name, variables_by_name),
    *(a_zipped_iterator_has_a_name, a_view_of_a_view),
    *(
        an_item_that_is_written,
        rows_of_what_is_written,
        an_attribute,
        break_,
        a_generator,
        a_global_that_is_written,
    ),
]


@pytest.mark.parametrize("function", LEFT)
def test_loops_that_stay_what_they_are(function: Function) -> None:
    assert "taken over" not in what_becomes_of(function)


def test_several_rows_of_what_gets_a_gradient() -> None:
    def function(a: Any, w: Any, xs: Any) -> Any:
        for i in range(N):
            a = ad.tanh(w @ a + xs[i] * xs[i + 1])
        return a

    assert "taken over" in what_becomes_of(function, False)
    assert "taken over" not in what_becomes_of(function, True)


# -- what surrounds them ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ad.func.grad(lambda a, w: f(a, w, None).sum(), (0, 1)),
        lambda f: ad.func.jacrev(lambda a, w: f(a, w, None)),
        lambda f: ad.func.jacfwd(lambda a, w: f(a, w, None)),
        lambda f: ad.func.hessian(lambda a, w: f(a, w, None).sum()),
        lambda f: lambda a, w: ad.func.jvp(lambda a: f(a, w, None), (a,), (a * 2,)),
        lambda f: lambda a, w: ad.func.vmap(f, (0, None, None))(ad.stack([a, 2 * a]), w, None),
        lambda f: lambda a, w: ad.utils.checkpoint.checkpoint(f, a, w, None, use_reentrant=False),
    ],
    ids=["grad", "jacrev", "jacfwd", "hessian", "jvp", "vmap", "checkpoint"],
)
def test_inside_transforms(transform: Function) -> None:
    function = transform(plain)
    a, w = tensors()
    expected = ad.utils._pytree.tree_leaves(function(a, w))
    fast = ad.compile(function)
    for _ in range(3):
        found = ad.utils._pytree.tree_leaves(fast(a, w))
        assert [t.tolist() for t in found] == [t.tolist() for t in expected]


def test_programs_and_first_calls_do_not_grow_with_the_length() -> None:
    sizes = []
    for count in (500, 5000):

        def function(a: Any, w: Any, count: int = count) -> Any:
            for _ in range(count):
                a = ad.tanh(w @ a)
            return a

        fast = ad.compile(function)
        a, w = tensors()
        for _ in range(2):
            fast(a, w).sum().backward()
        (one,) = fast.programs
        sizes.append((len(one.program.code()), len(one.backward.code())))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("asks", ["grad", "retain_grad", "hook"])
def test_a_state_that_is_differentiated_by(asks: str) -> None:
    """Later states are made of it inside the scan: then the loop is recorded as it is."""

    def function(a: Any, w: Any, xs: Any) -> Any:
        states = []
        for _ in range(N):
            a = ad.tanh(w @ a)
            states.append(a)
        if asks == "grad":
            return ad.autograd.grad(a.sum(), states[-30], create_graph=True)[0]
        if asks == "retain_grad":
            states[-30].retain_grad()
            ad.autograd.backward(a.sum(), inputs=[states[-30]], retain_graph=True)
            return states[-30].grad * a
        states[-30].register_hook(lambda g: g * 2)
        return a * 1

    assert what_becomes_of(function) == ["taken over"]


def test_a_state_that_is_differentiated_by_after_the_call() -> None:
    def function(a: Any, w: Any) -> Any:
        states = []
        for _ in range(N):
            a = ad.tanh(w @ a)
            states.append(a)
        return a, states

    a, w = tensors()
    end, states = ad.compile(function)(a, w)
    with pytest.raises(RuntimeError, match=r"(?s)test_plain_for_loops.py.*for _ in.*fix: "):
        ad.autograd.grad(end.sum(), states[100], retain_graph=True)
    assert ad.autograd.grad(end.sum(), a)[0].shape == (3,)


def test_a_state_that_is_differentiated_by_after_a_later_call() -> None:
    def function(a: Any, w: Any) -> Any:
        states = []
        for _ in range(N):
            a = ad.tanh(w @ a)
            states.append(a)
        return a, states[100]

    fast = ad.compile(function)
    a, w = tensors()
    fast(a, w)[0].sum().backward()
    end, state = fast(a, w)
    with pytest.raises(RuntimeError, match=r"(?s)result 1 of a compiled function.*fix: "):
        ad.autograd.grad(end.sum(), state, retain_graph=True, allow_unused=True)
    with pytest.raises(RuntimeError, match=r"(?s)result 1 of a compiled function.*fix: "):
        state.retain_grad()


def test_second_derivatives_inside_are_those_of_the_plain_loop() -> None:
    def function(a: Any, w: Any, xs: Any) -> Any:
        for _ in range(N):
            a = ad.sin(w @ a)
        (slope,) = ad.autograd.grad(a.sum(), w, create_graph=True)
        return (slope * slope).sum() + a

    assert what_becomes_of(function) == ["taken over"]


SIGNALS = """
import signal
import adjoint as ad

class Late(Exception):
    pass

def late(*_):
    raise Late

count = 30_000

def function(a):
    rows, was_late, x, out, i = [], 0, ad.zeros(()), ad.zeros(count), -1
    try:
        for i in range(count):
            x += 1
            a = a + 1
            rows.append(a)
            out[i] = a
    except Late:
        was_late = 1
        assert i + 1 - len(rows) in (0, 1), (i, len(rows))
    return a, len(rows), was_late, x, out

signal.signal(signal.SIGALRM, late)
for k in range(25):
    fast = ad.compile(function)
    signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.006 * k)
    try:
        a, size, was_late, x, out = fast(ad.zeros(()))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Late:
        continue
    assert was_late or size == count, (size, was_late)
    assert a.item() - size in (0, 1), (a.item(), size)
    assert x.item() - a.item() in (0, 1), (x.item(), a.item())
    assert size - int((out > 0).sum()) in (0, 1), (size, out)
"""


def test_an_error_of_a_signal_is_not_lost_and_nothing_is_half_done() -> None:
    """Wherever it comes: before the steps of the scan, between, or behind them."""
    command = [sys.executable, "-W", "ignore", "-c", SIGNALS]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_second_derivative_after_something_has_changed() -> None:
    scale = [0.5]

    def function(a: Any, w: Any) -> Any:
        for _ in range(N):
            a = ad.sin(w @ a) * scale[0]
        return a

    a, w = tensors()
    expected = ad.autograd.grad(
        ad.autograd.grad(function(a, w).sum(), a, create_graph=True)[0].sum(), w
    )
    for change in (False, True):
        result = ad.compile(function)(a, w)
        scale[0] = 0.25 if change else 0.5
        if change:
            with pytest.raises(RuntimeError, match=r"(?s)runs its steps again.*fix: "):
                ad.autograd.grad(result.sum(), a, create_graph=True)
        else:
            (first,) = ad.autograd.grad(result.sum(), a, create_graph=True)
            assert np.allclose(ad.autograd.grad(first.sum(), w)[0], expected[0], rtol=1e-4)


def test_an_error_is_raised_where_it_is() -> None:
    def function(a: Any, m: Any) -> Any:
        for _ in range(N):
            m = m - ad.eye(3) / 128  # singular in one of the last steps
            a = ad.linalg.solve(m, a) / 128
        return a

    def line_of(f: Function) -> int:
        with pytest.raises(RuntimeError) as caught:
            f(ad.ones(3), ad.eye(3))
        return next(one.lineno + 1 for one in caught.traceback if one.name == "function")

    assert line_of(ad.compile(function)) == line_of(function)


def test_results_are_not_kept_alive() -> None:
    """A program has what a step reads, and nothing of the call."""

    def function(a: Any, w: Any) -> Any:
        rows = []
        big = a * 2
        for _ in range(N):
            a = ad.tanh(w @ a)
            rows.append(a)
        return rows, big

    fast = ad.compile(function)
    a, w = tensors()
    _takeover.decisions.clear()
    rows, big = fast(a, w)
    assert [*_takeover.decisions] == ["taken over"]
    (rows[-1] * big).sum().backward()
    fast(a, w)[1].sum().backward()
    watched = [weakref.ref(t) for t in (rows[0], rows[70], rows[-1], big)]
    del rows, big
    gc.collect()
    assert [ref() for ref in watched] == [None] * 4


def test_parameters_that_change_between_calls() -> None:
    layer = ad.nn.Linear(3, 3)

    def function(a: Any) -> Any:
        for _ in range(N):
            a = ad.tanh(layer(a))
        return a

    fast = ad.compile(function)
    for _ in range(4):
        a = ad.ones(3)
        assert fast(a).tolist() == function(a).tolist()
        with ad.no_grad():
            layer.weight.mul_(0.9)


def test_programs_in_files(tmp_path: Path) -> None:
    def function(a: Any, w: Any) -> Any:
        rows = []
        for _ in range(N):
            a = ad.tanh(w @ a)
            rows.append(a)
        return ad.stack(rows)

    fast = ad.compile(function)
    a, w = tensors()
    _takeover.decisions.clear()
    for _ in range(2):
        expected = fast(a, w)
        expected.sum().backward()
    assert "taken over" in _takeover.decisions
    fast.save(tmp_path / "loop.safetensors")
    loaded = ad.compiler.load(tmp_path / "loop.safetensors", function)
    assert loaded(a, w).tolist() == expected.tolist()


@pytest.mark.parametrize("behind", range(14, 20))
def test_where_two_items_meet(behind: int) -> None:
    """Rows are told apart by their items, not by the numbers that these have at first."""

    def function(a: Any, w: Any, xs: Any) -> Any:
        for i, j in zip(range(behind, N), range(0, N, 2), strict=False):
            a = ad.tanh(w @ a + xs[i] + 2 * xs[j])
        return a

    what_becomes_of(function)
