"""no_grad, enable_grad, set_grad_enabled, inference_mode: where they hold, and what they do."""

from __future__ import annotations

import asyncio
import threading

import pytest

import adjoint as ad

MODES = [
    (ad.no_grad, (), False),
    (ad.enable_grad, (), True),
    (ad.set_grad_enabled, (False,), False),
    (ad.set_grad_enabled, (True,), True),
    (ad.inference_mode, (), False),
    (ad.inference_mode, (False,), True),
]


@pytest.fixture(params=[True, False])
def outside(request):
    """The mode around the test; checked and put back afterwards."""
    ad.autograd.set_grad_enabled(request.param)
    yield request.param
    assert ad.is_grad_enabled() is request.param
    assert not ad.is_inference_mode_enabled()
    ad.autograd.set_grad_enabled(True)


@pytest.mark.parametrize(("mode", "args", "inside"), MODES)
class TestEveryMode:
    def test_context(self, mode, args, inside, outside):
        context = mode(*args)
        with context:
            assert ad.is_grad_enabled() is inside
            with mode(*args):  # nested
                assert ad.is_grad_enabled() is inside
            assert ad.is_grad_enabled() is inside
        assert ad.is_grad_enabled() is outside
        with pytest.raises(KeyError), mode(*args):
            raise KeyError
        assert ad.is_grad_enabled() is outside

    def test_function(self, mode, args, inside, outside):
        @mode(*args)
        def f(a, *, b):
            """Doc."""
            assert ad.is_grad_enabled() is inside
            if b == 3:
                raise ValueError
            return a + b

        assert ad.is_grad_enabled() is outside
        assert f(1, b=2) == 3
        assert f.__doc__ == "Doc."
        with pytest.raises(ValueError):
            f(1, b=3)

    def test_generator_runs_in_the_mode_and_its_caller_does_not(self, mode, args, inside, outside):
        closed = []

        @mode(*args)
        def g():
            try:
                assert ad.is_grad_enabled() is inside
                got = yield 1
                assert ad.is_grad_enabled() is inside
                try:
                    yield got
                except KeyError:
                    assert ad.is_grad_enabled() is inside
                    yield "caught"
                return "end"
            finally:
                closed.append(ad.is_grad_enabled())

        it = g()
        assert next(it) == 1
        assert ad.is_grad_enabled() is outside
        assert it.send("sent") == "sent"
        assert it.throw(KeyError()) == "caught"
        assert ad.is_grad_enabled() is outside
        with pytest.raises(StopIteration) as stop:
            next(it)
        assert stop.value.value == "end"
        it = g()
        next(it)
        it.close()
        assert closed == [inside, inside]

    def test_coroutine_runs_in_the_mode_and_other_tasks_do_not(self, mode, args, inside, outside):
        @mode(*args)
        async def f():
            assert ad.is_grad_enabled() is inside
            await asyncio.sleep(0)
            assert ad.is_grad_enabled() is inside
            return 7

        async def other():
            for _ in range(4):
                assert ad.is_grad_enabled() is outside
                await asyncio.sleep(0)

        async def main():
            results = await asyncio.gather(f(), other())
            return results[0]

        assert asyncio.run(main()) == 7

    def test_async_generator(self, mode, args, inside, outside):
        @mode(*args)
        async def g():
            for i in range(3):
                assert ad.is_grad_enabled() is inside
                await asyncio.sleep(0)
                yield i

        async def main():
            got = []
            async for i in g():
                assert ad.is_grad_enabled() is outside
                got.append(i)
            return got

        assert asyncio.run(main()) == [0, 1, 2]

    def test_other_threads_do_not_notice(self, mode, args, inside, outside):
        seen = []
        with mode(*args):
            thread = threading.Thread(
                target=lambda: seen.append((ad.is_grad_enabled(), ad.is_inference_mode_enabled()))
            )
            thread.start()
            thread.join()
        assert seen == [(True, False)]


@pytest.mark.parametrize("mode", [ad.no_grad, ad.enable_grad, ad.inference_mode])
def test_decorators_need_no_parentheses(mode):
    @mode
    def f():
        return ad.is_grad_enabled()

    assert f() is (mode is ad.enable_grad)


def test_classes_are_decorated_with_a_warning():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @ad.no_grad()
        class Thing:
            def __init__(self):
                self.inside = ad.is_grad_enabled()

            def method(self):
                return ad.is_grad_enabled()

    thing = Thing()
    assert isinstance(thing, Thing)
    assert thing.inside is False
    assert thing.method() is True


# --- inference mode -------------------------------------------------------------------------------


def made_inside(requires_grad=False):
    with ad.inference_mode():
        return ad.ones(2, 3, requires_grad=requires_grad)


def test_what_is_made_inside_is_an_inference_tensor():
    with ad.inference_mode():
        assert ad.is_inference_mode_enabled()
        plain = ad.ones(2)
        made = [plain, plain * 2, ad.tensor([1.0]), ad.zeros_like(plain), plain.view(1, 2)]
        made += [plain.detach(), plain.clone(), plain.T, *plain.split(1), ad.arange(3)]
        for t in made:
            assert t.is_inference()
            assert ad.is_inference(t)
            assert not t.requires_grad
        with ad.inference_mode(False):
            assert not ad.ones(2).is_inference()
            x = ad.ones(2, requires_grad=True)
            assert (x * 2).requires_grad
    assert not ad.ones(2).is_inference()


def test_enable_grad_inside_inference_mode_records_nothing():
    x = ad.ones(2, requires_grad=True)
    with ad.inference_mode():
        constant = ad.ones(2)
        with ad.enable_grad():
            assert ad.is_grad_enabled()
            y = x * constant
            assert y.is_inference() and not y.requires_grad and y.grad_fn is None
            with ad.inference_mode(False):
                assert (x * 2).requires_grad
            assert ad.is_grad_enabled() and not (x * 2).requires_grad
        assert not ad.is_grad_enabled()
    assert ad.is_grad_enabled() and (x * 2).requires_grad


def test_inference_tensors_have_no_version():
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        _ = made_inside()._version


def test_inference_tensors_cannot_be_saved_for_backward():
    c, s = made_inside(), ad.ones(2, 3, requires_grad=True)
    (c + s).sum().backward()  # saves neither
    assert s.grad.tolist() == [[1.0] * 3] * 2
    a = s.clone()
    for f in [
        lambda: c * s,
        lambda: a.mul_(c),
        lambda: s @ c.mT,
        lambda: ad.einsum("ij,ij->", s, c),
    ]:
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            f()
    assert a.tolist() == s.tolist()  # refused before anything was changed
    (c.clone() * s).sum().backward()


def test_inference_tensors_cannot_be_changed_outside():
    c = made_inside()
    message = "Inplace update to inference tensor outside InferenceMode is not allowed"

    def set_item():
        c[0] = 1

    for change in [
        lambda: c.add_(1),
        set_item,
        lambda: c.transpose_(0, 1),
        lambda: c.copy_(ad.ones(2, 3)),
        lambda: ad.sin(ad.ones(2, 3), out=c),
        lambda: c.view(-1).mul_(2),
    ]:
        with pytest.raises(RuntimeError, match=message):
            change()
    assert c.tolist() == [[1.0] * 3] * 2
    with ad.inference_mode():
        c.add_(1)
    assert c.tolist() == [[2.0] * 3] * 2


def test_inference_tensors_do_not_come_to_require_grad_outside():
    c = made_inside()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor"):
        c.requires_grad_()
    assert made_inside(requires_grad=True).requires_grad


def test_views_of_inference_tensors_are_not_tracked():
    for requires_grad in [True, False]:
        view = made_inside(requires_grad).view(-1)
        assert view.is_inference()
        assert not view._is_view()
        assert not view.requires_grad
        assert view.is_leaf


def test_a_leaf_made_inside_can_have_a_gradient():
    c, s = made_inside(True), ad.ones(2, 3, requires_grad=True)
    (c + s).sum().backward()
    assert c.grad.tolist() == [[1.0] * 3] * 2


def test_tensors_from_outside_keep_their_version_inside():
    a = ad.ones(2, requires_grad=True).clone()
    out = a * a
    with ad.inference_mode():
        a.add_(2)
        assert not a.is_inference()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize(("mode", "word"), [(ad.inference_mode, "inference"), (ad.no_grad, "no_")])
def test_views_made_in_a_mode(requires_grad, mode, word):
    a = ad.ones(2, 3, requires_grad=requires_grad).clone()
    with mode():
        view = a.view(-1)
        deeper = view[1:]
        assert view._is_view() and view._base is a
        assert not view.is_inference()
        deeper.add_(2)  # inside, it may be changed
    assert view.requires_grad == requires_grad
    if not requires_grad:
        view.add_(2)
        a.add_(1)
        assert view.grad_fn is None
        return
    with mode():
        view = a.view(-1)
    with pytest.raises(RuntimeError, match=f"A view was created in {word}.*is being modified"):
        view.add_(2)
    with pytest.raises(RuntimeError, match=f"A view was created in {word}.*is being modified"):
        view.transpose_(0, 0)
    a.add_(1)
    message = f"A view was created in {word}.* and its base or another view of its base has been"
    for use in [lambda: view.grad_fn, lambda: view.is_leaf, lambda: view * 2]:
        with pytest.raises(RuntimeError, match=message):
            use()
    assert "grad_fn=<Invalid>" in repr(view)
    with ad.no_grad():
        assert (view * 2).tolist() == (a.view(-1) * 2).tolist()


@pytest.mark.parametrize(
    ("mode", "word"), [(ad.inference_mode, "inference_mode"), (ad.no_grad, "no_grad")]
)
def test_a_view_of_a_view_made_in_a_mode(mode, word):
    x = ad.zeros(2)
    with mode():
        y = x.view(2)
    y.requires_grad_(True)
    z = y.view(2)
    with pytest.raises(RuntimeError, match=f"a view of a view .* is being .* inside the {word}"):
        z.div_(2)
