"""Programs add methods to the class `Tensor`, and wrap those it has."""

from __future__ import annotations

import gc
import weakref

import pytest

import adjoint as ad
from adjoint import Tensor


@pytest.fixture
def patched(monkeypatch):
    """Sets attributes of the class, until the end of the test."""
    return lambda name, value: monkeypatch.setattr(Tensor, name, value, raising=False)


class Sub(Tensor):
    pass


def test_methods_properties_and_values_are_found_on_tensors(patched):
    patched("scaled", lambda self, by=2: self * by)
    patched("total", property(lambda self: self.sum()))
    patched("made", staticmethod(lambda: ad.ones(1)))
    patched("kind", "mine")
    for x in (ad.ones(3), ad.nn.Parameter(ad.ones(3)), ad.ones(3).as_subclass(Sub)):
        assert x.scaled(3).tolist() == [3.0] * 3 and x.total.item() == 3.0
        assert x.made().tolist() == [1.0] and x.kind == "mine"


def test_a_method_can_be_wrapped_and_put_back():
    x, plain = ad.ones(2), Tensor.sin
    seen = []

    def counted(self):
        seen.append(1)
        return plain(self)

    Tensor.sin = counted
    try:
        assert ad.equal(x.sin(), ad.sin(x)) and len(seen) == 1  # the function is another thing
    finally:
        Tensor.sin = plain
    x.sin()
    assert len(seen) == 1 and Tensor.sin is plain


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("__add__", lambda x: x + x),
        ("__radd__", lambda x: 1 + x),
        ("__matmul__", lambda x: x @ x),
        ("__neg__", lambda x: -x),
        ("__getitem__", lambda x: x[0]),
        ("__len__", len),
        ("__repr__", repr),
        ("__lt__", lambda x: x < 2),
        ("__bool__", lambda x: bool(x[0])),
        ("__iadd__", lambda x: x.__iadd__(1)),
        ("__iter__", lambda x: list(x)),
    ],
)
def test_operators_follow_the_class(name, use):
    plain = Tensor.__dict__[name]
    seen = []

    def counted(self, *args):
        seen.append(1)
        return plain.__get__(self)(*args)

    made = [ad.ones(3), ad.ones(3).as_subclass(Sub)]
    setattr(Tensor, name, counted)
    try:
        for x in made:
            seen.clear()
            use(x)
            assert seen
    finally:
        setattr(Tensor, name, plain)
    seen.clear()
    for x in made:
        use(x)
    assert not seen


def test_gradients_pass_through_patched_methods(patched):
    patched("cube", lambda self: self**3)
    x = ad.tensor(2.0, requires_grad=True)
    x.cube().backward()
    assert x.grad.item() == 12.0


def test_a_method_that_was_taken_away_is_freed():
    def method(self):
        return self

    gone = weakref.ref(method)
    Tensor.passing = method
    assert hasattr(ad.ones(1), "passing")
    del Tensor.passing, method
    assert not hasattr(ad.ones(1), "passing")
    gc.collect()
    assert gone() is None


def test_compiled_functions_notice(patched):
    def both(f):
        compiled = ad.compile(f)

        def check():
            for _ in range(3):
                assert ad.equal(compiled(x), f(x))

        check()
        assert compiled.programs
        return check

    x = ad.rand(3)
    sin, add = Tensor.sin, Tensor.__add__
    check = both(lambda x: x.sin() + x.cos())
    patched("sin", lambda self: sin(self) * 10)
    check()
    patched("sin", sin)
    check()
    patched("__add__", lambda a, b: add(a, b) * 3)
    check()
    patched("__add__", add)
    check()
    factor = [2.0]
    patched("scaled", lambda self: self * factor[0])
    patched("unit", 5.0)
    check = both(lambda x: x.scaled() * x.unit)
    factor[0] = 3.0
    check()
    patched("unit", 6.0)
    check()
    check = both(lambda x: x * getattr(x, "absent", 1.0))
    patched("absent", 4.0)
    check()
