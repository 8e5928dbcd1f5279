"""Plain `for` loops of compiled functions whose steps change tensors in place, and become scans.

Which tensors may be changed, and who sees that, behind the loop too. See test_plain_for_loops.py
for the loops themselves.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import adjoint as ad
from adjoint import _core
from adjoint._for_loops import _takeover
from adjoint._for_loops._frames import understood

Function = Callable[..., Any]
pytestmark = pytest.mark.skipif(not understood(), reason="frames of this Python are not known")
N = 150


@pytest.fixture(autouse=True)
def look_at_short_programs() -> Iterator[None]:
    before = _core._follow_from(60), _core._roll_from(1000)
    yield
    _core._follow_from(before[0])
    _core._roll_from(before[1])


def outcome(function: Function, needs: bool) -> list[Any]:
    ad.manual_seed(3)
    a, w = ad.randn(3).requires_grad_(needs), (0.4 * ad.randn(3, 3)).requires_grad_()
    try:
        result = function(a, w)
        (result * ad.linspace(0.3, 1, result.numel()).reshape(result.shape)).sum().backward()
    except RuntimeError as error:
        return [type(error)]
    return [t if t is None else t.tolist() for t in (result, a, a.grad, w.grad)]


def what_becomes_of(function: Function, needs: bool = True) -> list[str]:
    """That of its loops, in a first call; results and gradients are those of eager execution."""
    expected = outcome(function, needs)
    fast = ad.compile(function)
    _takeover.decisions.clear()
    with warnings.catch_warnings():
        if len(expected) == 1:  # an error of the backward pass
            warnings.simplefilter("ignore", ad.compiler.CompileWarning)
        assert outcome(fast, needs) == expected
        found = [*_takeover.decisions]
        assert outcome(fast, needs) == expected
        assert outcome(fast, needs) == expected
    return found


# -- loops that become scans -----------------------------------------------------------------------


def added_up(a: Any, w: Any) -> Any:
    x, v = ad.zeros(3), a * 1
    for _ in range(N):
        x += 0.1 * v
        v = ad.tanh(w @ v) - 0.01 * x
    return x * v


def by_methods(a: Any, w: Any) -> Any:
    x, v = ad.zeros(3), a * 1
    for _ in range(N):
        x.mul_(0.9)
        x.add_(v)
        v = ad.tanh(w @ v) - 0.01 * x
    return x + v


def boundaries(a: Any, w: Any) -> Any:
    u = a * 1
    for _ in range(N):
        before = u.clone()
        u[1:] = before[1:] + 0.1 * ad.tanh(before[:-1])
        u[0] = 0.5
    return u + w @ a


def made_and_changed(a: Any, w: Any) -> Any:
    for _ in range(N):
        a = ad.sin(w @ a)
        a[0] = 0.25
        a += 0.1
    return a


def without_gradients(a: Any, w: Any) -> Any:
    out = ad.zeros(3)
    for _ in range(N):
        a = ad.tanh(w @ a)
        with ad.no_grad():
            out.add_(a)
    return a * out


def values_alone(a: Any, w: Any) -> Any:
    x = a * 1
    for _ in range(N):
        with ad.no_grad():
            x.mul_(0.99)
        a = ad.tanh(w @ a)
    return x + a


def a_counter(a: Any, w: Any) -> Any:
    n = ad.zeros((), dtype=ad.int64)
    for _ in range(N):
        n += 1
        a = ad.tanh(w @ a) + 0.001 * n
    return a * n


def rows_of_copies(a: Any, w: Any) -> Any:
    x, rows = a * 1, []
    for _ in range(N):
        x *= 0.99
        x += 0.1 * (w @ a)
        rows.append(x.clone())
    return ad.stack(rows).sum(0) + x


def by_a_function(a: Any, w: Any) -> Any:
    def damp(x: Any) -> Any:
        x *= 0.5
        return x + 1

    x = a * 1
    for _ in range(N):
        a = ad.tanh(w @ a) + damp(x) * 0.1
        x += 1
    return a + x


def by_another_name(a: Any, w: Any) -> Any:
    x = a * 1
    for _ in range(N):
        y = x
        y += 0.1 * ad.tanh(w @ a)
    return x + y


def seen_from_elsewhere(a: Any, w: Any) -> Any:
    """Views, and who else has the tensor, see the last values."""
    x = a * 1
    view, same, copy = x[:2], [x], x.detach()
    for _ in range(N):
        x += 0.1 * ad.tanh(w @ a)
    return ad.cat([view, same[0], copy, x]) * (1.0 if same[0] is x else 2.0)


def loops_in_a_loop(a: Any, w: Any) -> Any:
    x, u = ad.zeros(3), ad.ones(3)
    for _ in range(30):
        for _ in range(40):
            x *= 0.75
            x += 0.1 * ad.tanh(w @ a)
        u += x
        a = 0.5 * a + 0.25 * ad.tanh(u)
    return a + x + u


def read_and_then_changed(a: Any, w: Any) -> Any:
    """What the loop reads is changed behind it: the plain loop keeps nothing of it."""
    x, y = a * 1, a * 2
    for _ in range(N):
        y = 0.5 * y + x
    x *= 2
    return x + y + w @ a


def detached_on_the_way(a: Any, w: Any) -> Any:
    x = a * 1
    for _ in range(N):
        x += 0.1 * ad.tanh(w @ a)
        x.detach_()
    return x + w @ a


def read_inside_and_changed_around(a: Any, w: Any) -> Any:
    """What the inner loop reads is changed before that is differentiated, in a way of its own."""
    p, rows = a * 1, []
    for _ in range(30):
        p.add_(0.1)
        for _ in range(40):
            a = 0.5 * ad.sin(w @ a)
            rows.append(p * 0.5)
    return rows[-1] + a


TAKEN = [
    *(added_up, by_methods, boundaries, made_and_changed, without_gradients, values_alone),
    *(a_counter, rows_of_copies, by_a_function, by_another_name, seen_from_elsewhere),
    *(loops_in_a_loop, read_and_then_changed, detached_on_the_way),
    read_inside_and_changed_around,
]


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("function", TAKEN)
def test_loops_that_become_scans(function: Function, needs: bool) -> None:
    assert "taken over" in what_becomes_of(function, needs)


# -- loops that stay what they are -----------------------------------------------------------------


def an_argument(a: Any, w: Any) -> Any:
    with ad.no_grad():
        for _ in range(N):
            a.mul_(0.99)
    return w @ a


def a_part_of_an_argument(a: Any, w: Any) -> Any:
    x = a.detach()
    for _ in range(N):
        x.mul_(0.99)
    return w @ x


def a_view(a: Any, w: Any) -> Any:
    whole = ad.zeros(2, 3)
    x = whole[1]
    for _ in range(N):
        x.mul_(0.9)
        x.add_(w @ a)
    return whole.sum(0)


def read_by_a_view(a: Any, w: Any) -> Any:
    x = a * 1
    y = x[:2]
    for _ in range(N):
        x *= 0.9
        a = ad.tanh(w @ a) + 0.1 * y.sum()
    return a + x


def read_by_another_name(a: Any, w: Any) -> Any:
    x = a * 1
    y = x
    for _ in range(N):
        x *= 0.9
        a = ad.tanh(w @ a) + 0.1 * y
    return a + x


def read_from_a_tuple(a: Any, w: Any) -> Any:
    x = a * 1
    both = (x, w)
    for _ in range(N):
        x *= 0.9
        a = ad.tanh(w @ a) + 0.1 * both[0]
    return a + x


def read_by_a_closure(a: Any, w: Any) -> Any:
    x = a * 1

    def read() -> Any:
        return x * 0.1

    for _ in range(N):
        x.mul_(0.9)
        a = ad.tanh(w @ a) + read()
    return a + x


def read_by_rows(a: Any, w: Any) -> Any:
    x = w.detach()[0].expand(160, 3).clone()
    for row in x.unbind(0):
        x.mul_(0.99)
        a = ad.tanh(w @ a) + row
    return a


def handed_on_too(a: Any, w: Any) -> Any:
    x, y = a * 1, a * 2
    for _ in range(N):
        a = ad.tanh(w @ a) + 0.1 * y[:2].sum()
        x *= 0.9
        y = x[:3]
    return a + x


def appended_itself(a: Any, w: Any) -> Any:
    x, rows = a * 1, []
    for _ in range(N):
        x *= 0.99
        rows.append(x)
    return ad.stack(rows).sum(0) + w @ a


def appended_as_a_view(a: Any, w: Any) -> Any:
    x, rows = a * 1, []
    for _ in range(N):
        x *= 0.99
        rows.append(x[:2])
    return ad.stack(rows).sum() + w @ a


def in_turns(a: Any, w: Any) -> Any:
    p, q = a * 1, a * 2
    first = p
    for _ in range(N + 1):
        p.mul_(0.99)
        p.add_(0.1 * q)
        p, q = q, p
    return p + 2 * q + 3 * first + w @ a


def changed_and_replaced(a: Any, w: Any) -> Any:
    rows = []
    for _ in range(N):
        a = ad.tanh(w @ a)
        rows.append(a)
        a = a + 1
        a[0] = 0.0
        rows[-1].mul_(0.5)
    return ad.stack(rows).sum(0)


def kept_by_the_graph(a: Any, w: Any) -> Any:
    """What one step keeps for the backward pass the next one changes: that is an error."""
    x, total = a * 1, 0.0
    for _ in range(N):
        x *= 0.9
        total = total + (x * w[0]).sum()
    return total * a


def kept_for_rows(a: Any, w: Any) -> Any:
    x, rows = a * 1, []
    for _ in range(N):
        x *= 0.9
        rows.append(x.sin())
    return rows[-10] + w @ a


def a_parameter(a: Any, w: Any) -> Any:
    k = ad.ones(3, requires_grad=True)
    for _ in range(N):
        a = ad.tanh(w @ a) + 0.1 * k.sum()
        with ad.no_grad():
            k.mul_(0.99)
    return a * k


def an_attribute(a: Any, w: Any) -> Any:
    x: Any = a * 1
    x.name = "x"
    for _ in range(N):
        x *= 0.9
        a = ad.tanh(w @ a) * (1.0 if hasattr(x, "name") else 2.0)
    return a + x


def read_by_a_method(a: Any, w: Any) -> Any:
    x = a.detach() * 1
    read = x.sum
    for _ in range(N):
        x.mul_(0.9)
        a = ad.tanh(w @ a) + read()
    return a + x


def read_by_a_partial_function(a: Any, w: Any) -> Any:
    x = a.detach() * 1
    half = functools.partial(ad.mul, x, 0.5)
    for _ in range(N):
        x.mul_(0.9)
        a = ad.tanh(w @ a) + half()
    return a + x


def read_as_an_item(a: Any, w: Any) -> Any:
    x = a.detach() * 1
    for y in [x] * N:
        x.mul_(0.9)
        a = ad.tanh(w @ a) + y
    return a + x


def changed_by_a_method(a: Any, w: Any) -> Any:
    x = a.detach() * 1
    damp = x.mul_
    for _ in range(N):
        damp(0.9)
        a = ad.tanh(w @ a) + x
    return a + x


def known_by_its_address(a: Any, w: Any) -> Any:
    x = a.detach() * 1
    seen = {id(x)}
    for _ in range(N):
        x.mul_(0.9)
        a = ad.tanh(w @ a) + (0.1 if id(x) in seen else 0.2)
    return a + x


def known_by_its_hash(a: Any, w: Any) -> Any:
    x = a.detach() * 1
    seen = {x: 0.1}
    for _ in range(N):
        x.mul_(0.9)
        a = ad.tanh(w @ a) + (0.1 if x in seen else 0.2)
    return a + x


LEFT = [
    *(an_argument, a_part_of_an_argument, a_view, read_by_a_view, read_by_another_name),
    *(read_from_a_tuple, read_by_a_closure, read_by_rows, handed_on_too, appended_itself),
    *(appended_as_a_view, in_turns, changed_and_replaced, kept_by_the_graph, kept_for_rows),
    *(a_parameter, an_attribute, read_by_a_method, read_by_a_partial_function, read_as_an_item),
    *(changed_by_a_method, known_by_its_address, known_by_its_hash),
]


@pytest.mark.parametrize("function", LEFT)
def test_loops_that_stay_what_they_are(function: Function) -> None:
    assert "taken over" not in what_becomes_of(function)
    if function is not an_argument:  # which requires grad there, and is a leaf
        assert "taken over" not in what_becomes_of(function, False) or function in (
            kept_by_the_graph,
            kept_for_rows,
        )


# -- what surrounds them ---------------------------------------------------------------------------


def test_the_tensor_stays_the_same_object() -> None:
    def function(a: Any, w: Any) -> Any:
        x = a * 1
        mine = x
        for _ in range(N):
            x += 0.1 * (w @ a)
        assert mine is x
        return mine

    assert what_becomes_of(function) == ["taken over"]


def test_a_gradient_by_the_last_values() -> None:
    def function(a: Any, w: Any) -> Any:
        x, y = a * 1, a * 2
        for _ in range(N):
            x += 0.1 * ad.tanh(w @ y)
            y = 0.5 * y + 0.1 * x
        return ad.autograd.grad((x * y).sum(), [x, y], create_graph=True)[0] + a

    what_becomes_of(function)


def test_programs_do_not_grow_with_the_length() -> None:
    sizes = []
    for count in (500, 5000):

        def function(a: Any, w: Any, count: int = count) -> Any:
            x = ad.zeros(3)
            for _ in range(count):
                x += 0.1 * a
                a = ad.tanh(w @ a)
            return x

        fast = ad.compile(function)
        a, w = ad.ones(3, requires_grad=True), ad.ones(3, 3)
        for _ in range(2):
            fast(a, w).sum().backward()
        (one,) = fast.programs
        sizes.append((len(one.program.code()), len(one.backward.code())))
    assert max(*sizes[0], *sizes[1]) < 300  # some steps are left, which make no whole round
