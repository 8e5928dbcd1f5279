"""Which tensor an argument is belongs to a recording: a function can ask for it in many ways.

Each case is a function of `compile`, run eagerly and compiled: what it returns is the same, to the
last bit, for every order of calls.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from tests.unit.compiler.test_compile_semantics import seen

Compile = Callable[..., Any]


def tensors(count: int = 3) -> list[Any]:
    return [ad.full((2,), float(k + 1)) for k in range(count)]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(ad.ones(2))

    def forward(self, x: Any) -> Any:
        return x * (3 if x is self.weight else 5)


Case = tuple[Callable[..., Any], list[tuple[Any, ...]]]  # a function, and arguments for it


def is_another() -> Case:
    a, b, c = tensors()
    return (lambda p, q: p * (2 if p is q else 3)), [(a, a), (a, b), (c, c), (b, c)]


def is_another_inside() -> Case:
    a, b, c = tensors()
    return (lambda ps: sum(ps) * (2 if ps[0] is ps[-1] else 3)), [([a, b, a],), ([a, b, c],)]


def is_another_across() -> Case:
    a, b, c = tensors()

    def f(d: Any, *, other: Any) -> Any:
        return d["p"] * (2 if d["p"] is other[0] else 3)

    return (lambda d, o: f(d, other=o)), [({"p": a}, (b,)), ({"p": a}, (a,)), ({"p": c}, (b,))]


def is_of_a_closure() -> Case:
    a, b, c = tensors()
    return (lambda p: p + (10 if p is b else 20)), [(a,), (b,), (c,)]


def is_read_of_a_closure() -> Case:
    a, b, c = tensors()
    return (lambda p: p + b * (10 if p is b else 20)), [(a,), (b,), (c,)]


def is_of_a_module() -> Case:
    layer = Layer()
    return layer, [(ad.ones(2),), (layer.weight.detach(),), (layer.weight,)]


def is_in_a_list() -> Case:
    a, b, c = tensors()
    chosen = [b, c]
    return (lambda p: p * (2 if any(p is q for q in chosen) else 3)), [(a,), (b,), (c,)]


def is_in_a_set() -> Case:
    a, b, c = tensors()
    no_decay = {a}
    return (lambda p: p if p in no_decay else p * 0.5), [(a,), (b,), (c,)]


def is_in_a_frozenset() -> Case:
    a, b, c = tensors()
    no_decay = frozenset((a,))
    return (lambda p: p if p in no_decay else p * 0.5), [(a,), (b,), (c,)]


def is_a_key() -> Case:
    a, b, c = tensors()
    rates = {a: 0.1, b: 0.2, c: 0.3}
    return (lambda p: p * rates[p]), [(a,), (b,), (c,)]


def is_a_key_by_get() -> Case:
    a, b, c = tensors()
    rates = {a: 0.1}
    return (lambda p: p * rates.get(p, 7.0)), [(a,), (b,), (c,)]


def has_a_state() -> Case:
    a, b, c = tensors()
    momentum = {p: ad.full((2,), 10.0 * k) for k, p in enumerate((a, b, c))}
    return (lambda p: p + momentum[p]), [(a,), (b,), (c,)]


def has_a_hash() -> Case:
    a, b, c = tensors()
    order = sorted((a, b, c), key=hash)
    known = [hash(t) for t in order]
    return (lambda p: p * known.index(hash(p))), [(a,), (b,), (c,)]


def is_counted_once() -> Case:
    a, b, c = tensors()

    def f(ps: Any) -> Any:
        total, done = ad.zeros(2), set()
        for p in ps:
            if p not in done:
                done.add(p)
                total = total + p
        return total

    return f, [([a, b, c],), ([a, a, b],), ([a, b, b],)]


def is_a_parameter() -> Case:
    def f(ps: Any) -> Any:
        return sum(p.detach() * (2 if isinstance(p, nn.Parameter) else 3) for p in ps)

    a, b = nn.Parameter(ad.ones(2)), ad.ones(2).requires_grad_()
    return f, [([a],), ([b],), ([nn.Parameter(ad.ones(2))],)]


def is_a_parameter_by_type() -> Case:
    a, b = nn.Parameter(ad.ones(2), requires_grad=False), ad.ones(2)
    return (lambda p, q: p + (type(p) is type(q))), [(a, b), (b, a), (a, a), (b, b)]


def is_of_a_class_of_parameters() -> Case:
    class Scale(nn.Parameter):
        def factor(self) -> float:
            return 4.0

    def f(d: Any) -> Any:
        return d["p"].detach() * (d["p"].factor() if hasattr(d["p"], "factor") else 1.0)

    return f, [({"p": Scale(ad.ones(2))},), ({"p": nn.Parameter(ad.ones(2))},)]


def has_an_attribute() -> Case:
    a, b, c = tensors()
    b.tag, c.tag = 7.0, "8"
    return (lambda p: p * float(getattr(p, "tag", 1.0))), [(a,), (b,), (c,)]


def has_an_attribute_inside() -> Case:
    a, b, c = tensors()
    b.no_decay = True
    return (lambda ps: sum(p for p in ps if not hasattr(p, "no_decay")) + 1), [([a, b],), ([a, c],)]


def has_an_entry_of_its_dict() -> Case:
    a, b, c = tensors()
    b.tag, c.tag = 2.0, 3.0
    return (lambda p: p * vars(p).get("tag", 1.0)), [(a,), (b,), (c,)]


CASES = [value for name, value in list(globals().items()) if name.startswith(("is_", "has_"))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.filterwarnings("ignore::adjoint.compiler.CompileWarning")
def test_which_tensor_an_argument_is_belongs_to_the_recording(case: Callable[[], Case]) -> None:
    for order in permutations(range(len(case()[1]))):
        function, calls = case()
        compiled = ad.compile(function)
        for k in (*order, *order):
            assert seen(compiled(*calls[k])) == seen(function(*calls[k])), (order, k)


@pytest.mark.parametrize("case", [is_another, is_a_key, is_of_a_closure, is_in_a_set])
def test_the_same_tensors_are_recorded_once(case: Callable[[], Case]) -> None:
    function, calls = case()
    compiled = ad.compile(function, fullgraph=True)
    for _ in range(3):
        for call in calls:
            compiled(*call)
    assert len(compiled.programs) <= len(calls)


def test_other_tensors_in_the_same_places_are_not_recorded_again() -> None:
    f = ad.compile(lambda p, q: p * (2 if p is q else 3), fullgraph=True)
    for _ in range(5):
        a, b = tensors(2)
        b.tag = "other"
        f(a, a)
        f(a, b)
    assert len(f.programs) == 2


def test_a_state_per_parameter_is_recorded_for_each() -> None:
    parameters = [ad.full((2,), float(k), requires_grad=True) for k in range(40)]
    momentum = {p: ad.full((2,), 10.0 * k) for k, p in enumerate(parameters)}
    step = ad.compile(lambda p: p + momentum[p], fullgraph=True)
    for _ in range(2):
        for k, p in enumerate(parameters):
            assert step(p).tolist() == [11.0 * k] * 2
    assert len(step.programs) == len(parameters)


@pytest.mark.parametrize("later", [2.0, True, 3, None, 1 + 1j, [2]])
def test_an_attribute_that_changes_is_seen(later: Any) -> None:
    f = ad.compile(lambda p: p * 2, fullgraph=True)
    p = ad.ones(2)
    p.scale = 2
    f(p)
    (recorded,) = f.programs
    assert recorded.accepts([p])
    p.scale = later
    assert not recorded.accepts([p])
    del p.scale
    assert not recorded.accepts([p])
    p.scale, p.shift = 2, 0
    assert not recorded.accepts([p])
    del p.shift
    assert recorded.accepts([p])


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (lambda a, b, w: [(a, a), (a, b)], "other arguments are the same tensor"),
        (lambda a, b, w: [(a, b), (a, w)], "an argument is a tensor that the function reaches"),
        (lambda a, b, w: [(a, w), (a, b)], "an argument was a tensor that the function reaches"),
        (lambda a, b, w: [(a, b), (a, nn.Parameter(b, False))], "a tensor is of another class"),
        (lambda a, b, w: [(a, b), (a, tagged(b.clone()))], "attributes that were set on a tensor"),
    ],
)
def test_why_a_recording_is_not_used(calls: Any, why: str) -> None:
    a, b, w = tensors()
    f = ad.compile(lambda p, q: p * q * w, fullgraph=True)
    first, second = calls(a, b, w)
    f(*first)
    assert f.programs[0].mismatch(list(second)).startswith(why)
    assert f.programs[0].mismatch(list(first)) is None


def test_why_a_recording_of_a_hash_is_not_used() -> None:
    a, b, _ = tensors()
    rates = {a: 2.0, b: 3.0}
    f = ad.compile(lambda p: p * rates[p], fullgraph=True)
    f(a)
    why = f.programs[0].mismatch([b])
    assert why.startswith(("the hash or id of an argument was used", "an argument was a tensor"))


def tagged(tensor: Any) -> Any:
    tensor.tag = 1
    return tensor


def test_asking_for_an_address_ties_a_recording_to_the_tensor() -> None:
    a, b, _ = tensors()
    f = ad.compile(lambda p: (hash(p), p * 2)[1], fullgraph=True)
    for p in (a, b, a, b):
        assert f(p).equal(p * 2)
    assert len(f.programs) == 2
    assert f.programs[0].program.is_pinned()
    assert "the hash or id of an argument was used" in f.programs[0].mismatch([b])


def test_recordings_of_certain_tensors_can_be_collected() -> None:
    a = ad.ones(2)
    f = ad.compile(lambda p: (hash(p), p * 2)[1], fullgraph=True)
    a.f = f  # a cycle through the recording
    f(a)
    gone = weakref.ref(a)
    del a, f
    ad.compiler.reset()
    gc.collect()
    assert gone() is None
