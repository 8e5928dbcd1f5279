"""What ends a recording, with which words; and programs that are easy to get wrong.

Each function of the second half is called eagerly and compiled, in two worlds that are built alike,
and everything that can be seen afterwards must be the same, whether it was replayed or refused.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core
from adjoint.utils.checkpoint import checkpoint
from tests.unit.compiler.programs import same_bits

F = ad.nn.functional


def refused(f: Callable[..., Any], *inputs: ad.Tensor) -> str | None:
    """Why `f` cannot be recorded; None if it can."""
    recording = _core._Recording(list(inputs))
    recording.start()
    try:
        f(*inputs)
    finally:
        recording.stop()
    assert not _core._is_recording()
    why = recording.refused()
    return None if why is None else why[0]


# --- values and memory that leave or enter
# -------------------------------------------------------------------------------------------------
WEIGHT = ad.ones(3, requires_grad=True)
ENDS: dict[str, tuple[str, Callable[[ad.Tensor], Any]]] = {
    "item": ("item", lambda x: x.sum().item()),
    "if": ("where", lambda x: x if x.sum() > 0 else -x),
    "float": ("number", lambda x: float(x[0])),
    "int": ("number", lambda x: int(x[0])),
    "complex": ("item", lambda x: complex(x[0])),
    "index": ("number", lambda x: [1, 2, 3][x.argmax()]),
    "tolist": ("tolist", lambda x: x.tolist()),
    "numpy": ("external", lambda x: x.numpy()),
    "asarray": ("external", lambda x: np.asarray(x)),
    "ufunc": ("external", lambda x: np.sin(x)),
    "memoryview": ("external", lambda x: memoryview(x)),
    "dlpack": ("DLPack", lambda x: np.from_dlpack(x)),
    "data_ptr": ("memory", lambda x: x.data_ptr()),
    "storage": ("memory", lambda x: x.untyped_storage()),
    "repr": ("printed", repr),
    "str": ("printed", str),
    "f-string": ("printed", lambda x: f"{x}"),
    "format": ("item", lambda x: f"{x[0]:.2f}"),
    "pickle": ("memory", pickle.dumps),
    "deepcopy": ("clone", copy.deepcopy),
    "in": ("any", lambda x: 2.0 in x),
    "equal": ("depends on data", lambda x: x.equal(x)),
    "allclose": ("depends on data", lambda x: x.allclose(x)),
    "mask": ("depends on data", lambda x: x[x > 1]),
    "nonzero": ("depends on data", lambda x: x.nonzero()),
    "position": ("index_select", lambda x: x[x.argmax()]),
    "a tensor for a number": ("number", lambda x: ad.full((3,), x[0])),
    "a tensor for an int": ("int", lambda x: x.narrow(0, ad.tensor(1), 1)),
    "a list of tensors": ("stack", lambda x: ad.tensor([x[0], x[1]])),
    "data": ("copy_", lambda x: setattr(x, "data", ad.zeros(3))),
    "set_": ("copy_", lambda x: x.set_(ad.zeros(3))),
    "resize_": ("resize_", lambda x: x.resize_(2)),
    "unsqueeze_": ("in place", lambda x: x.clone().unsqueeze_(0)),
    "out": ("out=", lambda x: ad.add(x, x, out=ad.empty(3))),
    "requires_grad_": ("requires_grad", lambda x: x.requires_grad_()),
    "register_hook": ("hook", lambda x: WEIGHT.register_hook(print).remove()),
    "version": ("_version", lambda x: x._version),
    "base": ("_base", lambda x: x._base),
    "offset": ("storage_offset", lambda x: x.storage_offset()),
    "from_numpy": ("before the call", lambda x: ad.from_numpy(np.ones(3))),
    "tensor of an array": ("before the call", lambda x: ad.tensor(np.ones(3))),
    "as_tensor of an array": ("before the call", lambda x: ad.as_tensor(np.ones(3))),
    "asarray of an array": ("before the call", lambda x: ad.asarray(np.ones(3))),
    "frombuffer": ("before the call", lambda x: ad.frombuffer(bytearray(8), dtype=ad.float32)),
    "from_dlpack": ("before the call", lambda x: ad.from_dlpack(np.ones(3))),
    "an array": ("before the call", lambda x: x * np.ones(3)),
    "manual_seed": ("seeded", lambda x: ad.default_generator.manual_seed(1)),
    "rng state": ("generator", lambda x: ad.random.get_rng_state()),
    "Generator": ("generator", lambda x: ad.randn(3, generator=ad.Generator())),
    "apply_": ("tolist", lambda x: x.apply_(lambda v: v + 1)),
    "is_nonzero": ("where", lambda x: x[0].is_nonzero()),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_leaves_or_enters_unseen_ends_a_recording(name: str) -> None:
    words, f = ENDS[name]
    reason = refused(f, ad.tensor([1.0, 2.0, 3.0]))
    assert reason is not None and words in reason, reason


def test_modes_that_look_at_values_or_are_left_on_end_a_recording() -> None:
    def anomaly(x: ad.Tensor) -> None:
        with ad.autograd.detect_anomaly():
            x.sin()

    def inference(x: ad.Tensor) -> None:
        with ad.inference_mode():
            x.sin()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "anomaly" in str(refused(anomaly, ad.ones(2)))
    assert "inference_mode" in str(refused(inference, ad.ones(2)))
    before = ad.is_grad_enabled()
    try:
        assert "left switched" in str(refused(lambda x: ad.set_grad_enabled(False), ad.ones(2)))
    finally:
        ad.set_grad_enabled(before)


CONSTANTS: dict[str, Callable[[ad.Tensor], Any]] = {
    "tensor": lambda x: x * ad.tensor([1.0, 2.0, 3.0]),
    "number": lambda x: x + ad.tensor(2),
    "Tensor": lambda x: x * ad.Tensor([1, 2, 3]),
    "FloatTensor": lambda x: x * ad.FloatTensor([1, 2, 3]),
    "new_tensor": lambda x: x * x.new_tensor([1.0, 2.0, 3.0]),
    "range": lambda x: x * ad.tensor(range(3)),
    "Parameter": lambda x: x * ad.nn.Parameter(ad.zeros(3)),
    "scalar_tensor": lambda x: x * ad.scalar_tensor(3.0),
    "setitem": lambda x: x.clone().__setitem__(0, 5.0),
    "setitem by mask": lambda x: x.clone().__setitem__(x > 1, 0.0),
    "iteration": lambda x: sum(x),
    "True as an index": lambda x: x[True],
    "a list as an index": lambda x: x[[0, 1]],
    "detach": lambda x: x * WEIGHT.detach(),
    "data": lambda x: x * WEIGHT.data,
    "hash": hash,
    "copy": lambda x: copy.copy(x) * 2,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_views_and_the_like_are_recorded(name: str) -> None:
    assert refused(CONSTANTS[name], ad.tensor([1.0, 2.0, 3.0])) is None


def test_a_refused_recording_leaves_nothing_switched_on() -> None:
    x = ad.ones(3, requires_grad=True)
    recording = _core._Recording([x])
    recording.start()
    y = (x * 2).sum()
    assert _core._is_recording()
    y.item()
    assert not _core._is_recording()
    y.backward()  # goes on as if nothing had been recorded
    recording.stop()
    assert not _core._is_recording() and not _core._is_unusual_mode()
    assert recording.refused() is not None and x.grad.tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="item"):
        recording.program(0, recording.size(), [x], [y])


def test_one_recording_at_a_time() -> None:
    first, second = _core._Recording([]), _core._Recording([])
    first.start()
    try:
        with pytest.raises(Exception, match="under way"):
            second.start()
    finally:
        first.stop()
    second.start()
    second.stop()
    assert not _core._is_recording()


# --- programs that are easy to get wrong
# -------------------------------------------------------------------------------------------------
World = Callable[[], tuple[Callable[..., Any], Callable[[Any, int], Any]]]
WORLDS: dict[str, World] = {}
# What cannot be a program runs eagerly; everything else is expected to be replayed.
EAGER = {
    "a_generator_of_its_own",
    "a_hook_on_the_result",
    "a_leaf_as_result",
    "an_error_in_a_replay",
    "an_error_that_is_caught",
    "as_strided_with_an_offset",
    "checkpoints_that_draw",
    "data_is_exchanged",
    "gradients_through_outer_history",
    "retain_grad_on_the_result",
    "set_grad_enabled_left_off",
    "a_custom_backward_that_decides",
}


def world(build: World) -> World:
    WORLDS[build.__name__] = build
    return build


def draw(*shape: int, **options: Any) -> ad.Tensor:
    return ad.randn(*shape, **options)


def seen(thing: Any) -> Any:
    """A copy of everything that can be seen of a result."""
    if isinstance(thing, ad.Tensor):
        return thing.detach().clone(), thing.requires_grad, thing.is_leaf
    if isinstance(thing, dict):
        return {k: seen(v) for k, v in thing.items()}
    if isinstance(thing, list | tuple):
        return [seen(v) for v in thing]
    return thing


def same(a: Any, b: Any) -> bool:
    if isinstance(a, ad.Tensor):
        return isinstance(b, ad.Tensor) and same_bits(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@world
def one_tensor_twice() -> Any:
    def f(a: Any, b: Any) -> Any:
        return a * 5 if a is b else a - b

    def drive(g: Any, k: int) -> Any:
        x, y = draw(3), draw(3)
        return [g(x, x), g(x, y)] if k % 2 else [g(x, y), g(y, y)]

    return f, drive


@world
def arguments_that_share_memory() -> Any:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2

    def drive(g: Any, k: int) -> Any:
        x = draw(6)
        if k % 2:
            return [g(x[:3], x[3:]), x]
        return [g(x[:3], x[1:4]), g(x[:3], x[:3]), g(x[2:5], x[1:4]), x]

    return f, drive


@world
def a_closure_that_shares_memory_with_an_argument() -> Any:
    w = draw(4)

    def f(a: Any) -> Any:
        a.mul_(2)
        return w.sum()

    def drive(g: Any, k: int) -> Any:
        return [g(draw(2)), w] if k % 2 else [g(w[:2]), w.clone(), g(draw(2)), w]

    return f, drive


@world
def an_argument_that_is_in_a_closure() -> Any:
    w = draw(3)

    def f(a: Any) -> Any:
        return a * w

    return f, lambda g, k: [g(w), g(draw(3)), g(w)]


@world
def a_parameter_as_argument() -> Any:
    layer = ad.nn.Linear(3, 3, bias=False)

    def f(a: Any) -> Any:
        return layer(a)

    return f, lambda g, k: [g(layer.weight), g(draw(3, 3)), g(layer.weight.detach())]


@world
def a_detached_closure_gets_other_memory() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        return a * w.detach() + w.data

    def drive(g: Any, k: int) -> Any:
        first = g(ad.ones(3))
        w.data = ad.full((3,), float(k))
        return [first, g(ad.ones(3))]

    return f, drive


@world
def two_closures_on_one_memory() -> Any:
    w = draw(4)
    v = w[1:3]

    def f(a: Any) -> Any:
        return a * w.sum() + v.sum()

    def drive(g: Any, k: int) -> Any:
        first = g(ad.ones(3))
        if k == 1:
            w.data = ad.full((4,), 7.0)
        w.add_(1)
        return [first, g(ad.ones(3))]

    return f, drive


@world
def facts_of_a_tensor_that_no_op_reads() -> Any:
    w = draw(3)

    def f(a: Any) -> Any:
        return a * 2 if w.requires_grad else a * w.shape[0]

    def drive(g: Any, k: int) -> Any:
        w.requires_grad_(k % 2 == 0)
        w.data = draw(3 + k // 2)
        with ad.no_grad():
            return g(ad.ones(2))

    return f, drive


@world
def whether_there_is_a_gradient() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        return a * 2 if w.grad is None else a + w.grad

    def drive(g: Any, k: int) -> Any:
        w.grad = ad.ones(3) * k if k % 2 else None
        return g(draw(3))

    return f, drive


@world
def a_view_of_a_constant_is_returned() -> Any:
    def f(a: Any) -> Any:
        return ad.tensor([1.0, 2.0, 3.0])[1:], a + 1

    def drive(g: Any, k: int) -> Any:
        part, _ = g(draw(2))
        part.add_(5)
        return [part, g(draw(2))]

    return f, drive


@world
def views_of_equal_results() -> Any:
    def f(a: Any) -> Any:
        u, v = a + 1, a + 1
        return u[0], v[0], u, v

    def drive(g: Any, k: int) -> Any:
        u, v, first, second = g(draw(2, 2))
        u.add_(5)
        second.mul_(3)
        return [u, v, first, second]

    return f, drive


@world
def equal_gradients_are_set() -> Any:
    w, u = draw(3, requires_grad=True), draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        w.grad = a + 1
        u.grad = a + 1
        return a * 2

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3))
        w.grad.zero_()
        return [out, w.grad, u.grad]

    return f, drive


@world
def a_leaf_made_inside() -> Any:
    def f(a: Any) -> Any:
        x = a.detach().requires_grad_()
        (x**3).sum().backward()
        p = ad.nn.Parameter(a.detach())
        (p.sin() * p).sum().backward()
        return x.grad, p.grad

    return f, lambda g, k: g(draw(3))


@world
def a_gradient_of_a_gradient_inside() -> Any:
    def f(a: Any) -> Any:
        x = a.detach().requires_grad_()
        (slope,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
        (curve,) = ad.autograd.grad(slope.sum(), x)
        return slope.detach(), curve

    return f, lambda g, k: g(draw(3))


@world
def gradients_added_inside() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        ((a * w) ** 2).sum().backward()
        return a + 1

    def drive(g: Any, k: int) -> Any:
        first = g(draw(3))
        if k == 2:
            w.grad = None
        return [first, g(draw(3)), w.grad]

    return f, drive


@world
def gradients_changed_inside() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        w.grad = None
        ((a * w) ** 2).sum().backward()
        w.grad.mul_(0.5)
        return ad.nn.utils.clip_grad_norm_([w], 1.0)

    def drive(g: Any, k: int) -> Any:
        first = g(draw(3))
        held = w.grad
        return [first, held, g(draw(3)), w.grad, held is w.grad]

    return f, drive


@world
def the_gradient_as_argument() -> Any:
    w = draw(3, requires_grad=True)

    def f(h: Any) -> Any:
        before = h * 2
        (w**2).sum().backward()
        return before, h * 2

    def drive(g: Any, k: int) -> Any:
        w.grad = ad.ones(3)
        return [g(draw(3)), g(w.grad), w.grad, g(draw(3))]

    return f, drive


@world
def inputs_and_results_are_returned_twice() -> Any:
    def f(a: Any) -> Any:
        y = a + 1
        return a, y, a, y

    def drive(g: Any, k: int) -> Any:
        x = draw(3)
        out = g(x)
        return [out, out[0] is x, out[2] is x, out[1] is out[3]]

    return f, drive


@world
def views_of_inputs_are_returned() -> Any:
    def f(a: Any) -> Any:
        return a[1:], a.T

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 3)
        first, turned = g(x)
        first.add_(1)
        return [first, turned, x]

    return f, drive


@world
def changes_of_views_with_a_gradient() -> Any:
    def f(a: Any) -> Any:
        b = a.clone()
        b[0] = b[1] * 2
        b[:, 1].mul_(3)
        b[b > 0] = 0.5
        c = b.t()[1:].unsqueeze(0).expand(2, 2, 3).clone()
        c[:, 0] += a[0]
        return c

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 3, requires_grad=True)
        out = g(x)
        (out * out).sum().backward()
        return [out, x.grad]

    return f, drive


@world
def changes_of_arguments() -> Any:
    def f(a: Any) -> Any:
        before = a * 3
        a.mul_(2)
        a[0] = 7
        return a.sum(), a * 3, before

    def drive(g: Any, k: int) -> Any:
        base = draw(5)
        return [g(base[1:4]), g(base[::2]), base, base._version]

    return f, drive


@world
def an_alias_sees_changes() -> Any:
    def f(a: Any) -> Any:
        b = a + 1
        v = b[1:]
        w = v.detach()
        b.mul_(2)
        return v + 1, w * 3, b

    return f, lambda g, k: g(draw(3))


@world
def data_is_exchanged() -> Any:
    def f(a: Any) -> Any:
        b = a * 2
        b.data = a * 3
        return b + 1

    return f, lambda g, k: g(draw(3))


@world
def closures_with_a_history() -> Any:
    w = draw(3, requires_grad=True)
    h = w * 2

    def f(a: Any) -> Any:
        return (a * h).sum()

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3))
        w.grad = None
        out.backward(retain_graph=True)
        return [out, w.grad]

    return f, drive


@world
def gradients_through_outer_history() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        return ad.autograd.grad((a**2).sum(), w, retain_graph=True)[0]

    return f, lambda g, k: [g(w * 2), g(w**3), g(w.sin())]


@world
def arguments_that_depend_on_one_another() -> Any:
    def f(a: Any, b: Any) -> Any:
        return (a * b).sin()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        x.register_hook(lambda t: t * 2)
        y = x.exp()
        y.register_hook(lambda t: t * 3)
        y.retain_grad()
        out = g(g(y, x), y)
        out.sum().backward()
        return [out, x.grad, y.grad]

    return f, drive


@world
def a_hook_inside() -> Any:
    def f(a: Any) -> Any:
        h = a * 3
        h.register_hook(lambda t: t * 10)
        return (h * h).sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def a_hook_on_the_result() -> Any:
    def f(a: Any) -> Any:
        h = a * 3
        h.register_hook(lambda t: t * 10)
        return h

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).sum().backward()
        return x.grad

    return f, drive


@world
def retain_grad_on_the_result() -> Any:
    def f(a: Any) -> Any:
        h = a * 3
        h.retain_grad()
        return h

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3, requires_grad=True))
        (out * out).sum().backward()
        return out.grad

    return f, drive


@world
def retain_grad_inside() -> Any:
    def f(a: Any) -> Any:
        x = a.clone().requires_grad_()
        h = x * 3
        h.retain_grad()
        (h * h).sum().backward()
        return h.grad, x.grad

    return f, lambda g, k: g(draw(3))


@world
def a_leaf_as_result() -> Any:
    def f(a: Any) -> Any:
        return (a.detach() * 2).requires_grad_()

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3))
        (out * out).sum().backward()
        return [out, out.grad]

    return f, drive


@world
def changes_after_the_call() -> Any:
    def f(a: Any, b: Any) -> Any:
        c = a * b
        return (c * c).exp()

    def drive(g: Any, k: int) -> Any:
        x, b = draw(3, requires_grad=True), draw(3)
        y = g(x, b)
        b.mul_(2)
        with pytest.raises(RuntimeError, match="inplace"):
            y.sum().backward()
        return x.grad

    return f, drive


@world
def an_error_that_is_caught() -> Any:
    def f(a: Any) -> Any:
        try:
            return ad.take(a, (a[:1] * 100).long().abs())
        except IndexError:
            return a[:1] * 0 - 1

    return f, lambda g, k: [g(ad.ones(3)), g(ad.zeros(3)), g(ad.ones(3))]


@world
def an_error_in_a_replay() -> Any:
    def f(a: Any) -> Any:
        try:
            return ad.take(a, (a[:1] * 100).long().abs())
        except IndexError:
            return a[:1] * 0 - 1

    return f, lambda g, k: [g(ad.zeros(3)), g(ad.ones(3)), g(ad.zeros(3))]


@world
def a_generator_of_its_own() -> Any:
    def f(a: Any) -> Any:
        return a + ad.randn(3, generator=ad.Generator().manual_seed(3))

    return f, lambda g, k: g(draw(3))


@world
def random_numbers() -> Any:
    generator = ad.Generator().manual_seed(3)

    def f(a: Any) -> Any:
        ad.randn(3)  # nobody reads it, but it moves the stream
        b = ad.empty(3).normal_()
        drawn = ad.randn(3, generator=generator) + ad.rand(3) + b.uniform_()
        chosen = ad.multinomial(ad.softmax(a.detach(), 0), 2)
        return (F.dropout(a, 0.5) * a).sum(), drawn, chosen, ad.bernoulli(ad.sigmoid(a.detach()))

    def drive(g: Any, k: int) -> Any:
        if k == 2:
            ad.manual_seed(5)
        x = draw(3, requires_grad=True)
        out = g(x)
        out[0].backward()
        return [out, x.grad, ad.randn(2), ad.randn(2, generator=generator)]

    return f, drive


@world
def running_statistics() -> Any:
    norm = ad.nn.BatchNorm1d(3)

    def f(a: Any) -> Any:
        norm(a)  # nobody reads it, but it counts
        return norm(a)

    def drive(g: Any, k: int) -> Any:
        out = g(draw(4, 3))
        return [out, norm.running_mean, norm.running_var, norm.num_batches_tracked]

    return f, drive


class Scaled(ad.autograd.Function):
    """A custom function whose backward reads a saved value and a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x.exp() * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.exp() * ctx.scale, None


class Doubled(ad.autograd.Function):
    """A custom function that changes its argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class Deciding(ad.autograd.Function):
    """A custom function whose backward looks at a value."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 if x.sum() > 0 else g * 7


@world
def custom_functions() -> Any:
    def f(a: Any) -> Any:
        return Scaled.apply(a, 3.0) + Doubled.apply(a.clone())

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        out = g(x)
        out.sum().backward()
        return [out, x.grad]

    return f, drive


@world
def a_custom_backward_that_decides() -> Any:
    def f(a: Any) -> Any:
        return Deciding.apply(a)

    def drive(g: Any, k: int) -> Any:
        x = ad.full((3,), 1.0 if k % 2 else -1.0, requires_grad=True)
        g(x).sum().backward()
        return x.grad

    return f, drive


@world
def checkpoints() -> Any:
    def f(a: Any) -> Any:
        part = checkpoint(
            lambda t: (t.sin() * t).exp(), a, use_reentrant=False, preserve_rng_state=False
        )
        return part.sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def checkpoints_that_draw() -> Any:
    def f(a: Any) -> Any:
        return checkpoint(lambda t: F.dropout(t, 0.5) * t, a, use_reentrant=False).sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(8, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def hooks_of_saved_values() -> Any:
    def f(a: Any) -> Any:
        with ad.autograd.graph.saved_tensors_hooks(lambda t: t.clone() * 2, lambda t: t):
            return (a * a).sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def transforms_inside() -> Any:
    func = ad.func

    def f(a: Any) -> Any:
        return (
            func.vmap(lambda t: (t * t).sum())(a),
            func.vmap(func.grad(lambda t: (t.sin() * t).sum()))(a),
            func.hessian(lambda t: (t**3).sum())(a[0]),
            func.jvp(lambda t: t.exp() * t, (a,), (a,))[1],
            func.jacrev(lambda t: t.sin())(a[0]),
            func.jacfwd(lambda t: t.tanh() * t)(a[0]),
        )

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 2, requires_grad=True)
        out = g(x)
        sum(t.sum() for t in out).backward()
        return [out, x.grad]

    return f, drive


@world
def random_numbers_under_vmap() -> Any:
    def f(a: Any) -> Any:
        added = ad.func.vmap(lambda t: t + ad.randn(2), randomness="different")(a)
        return added + ad.func.vmap(lambda t: F.dropout(t, 0.5), randomness="same")(a)

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 2, requires_grad=True)
        out = g(x)
        out.sum().backward()
        return [out, x.grad, ad.randn(2)]

    return f, drive


@world
def set_grad_enabled_left_off() -> Any:
    def f(a: Any) -> Any:
        ad.set_grad_enabled(False)
        return a * 2

    def drive(g: Any, k: int) -> Any:
        try:
            return [g(draw(2)), ad.is_grad_enabled()]
        finally:
            ad.set_grad_enabled(True)

    return f, drive


@world
def the_default_dtype_changes() -> Any:
    def f(a: Any) -> Any:
        return a * 2.5, ad.zeros(2), ad.arange(3) * 0.5

    def drive(g: Any, k: int) -> Any:
        ad.set_default_dtype(ad.float64 if k % 2 else ad.float32)
        try:
            return g(ad.ones(2, dtype=ad.int64))
        finally:
            ad.set_default_dtype(ad.float32)

    return f, drive


@world
def zeros_in_a_product() -> Any:
    def f(a: Any) -> Any:
        return a.prod() + a.cumprod(0).sum()

    def drive(g: Any, k: int) -> Any:
        x = ad.tensor([1.0, float(k % 2), 3.0], requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def targets_that_are_ignored() -> Any:
    weight = ad.tensor([0.5, 2.0, 1.0])

    def f(a: Any, t: Any) -> Any:
        both = F.nll_loss(a.log_softmax(1), t, ignore_index=0, weight=weight)
        return F.cross_entropy(a, t, ignore_index=0) + both

    def drive(g: Any, k: int) -> Any:
        x = draw(4, 3, requires_grad=True)
        g(x, ad.tensor([[1, 2, 1, 2], [0, 0, 1, 2], [0, 1, 1, 1], [0, 0, 0, 1]][k])).backward()
        return x.grad

    return f, drive


@world
def as_strided_with_an_offset() -> Any:
    def f(a: Any) -> Any:
        return a.as_strided((2,), (1,), 2)

    def drive(g: Any, k: int) -> Any:
        base = draw(8, requires_grad=True)
        g((base * 1)[k : k + 4]).sum().backward()
        return base.grad

    return f, drive


@world
def shapes_and_strides() -> Any:
    def f(a: Any) -> Any:
        return (a * 2).contiguous(), a.T.contiguous(), a.sum()

    def drive(g: Any, k: int) -> Any:
        given = [draw(3, 3), draw(3, 3).T, draw(6, 6)[::2, ::2], draw(3, 1).expand(3, 3)]
        return [g(x) for x in [*given, ad.zeros(0, 3), ad.zeros(3, 0)]]

    return f, drive


@world
def gradients_of_any_layout() -> Any:
    def f(a: Any) -> Any:
        return a * a, a.exp()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 3, requires_grad=True)
        out = g(x)
        out[k % 2].backward(draw(3, 3).T if k < 2 else ad.ones(1).expand(3, 3))
        return [out, x.grad, x.grad.stride()]

    return f, drive


@world
def an_update_by_hand() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        loss = ((a * w) ** 2).sum()
        (slope,) = ad.autograd.grad(loss, w)
        with ad.no_grad():
            w.sub_(slope, alpha=0.1)
        return loss.detach()

    return f, lambda g, k: [g(draw(3)), w]


@world
def parameters_that_are_frozen_or_replaced() -> Any:
    layer = ad.nn.Linear(3, 2)

    def f(a: Any) -> Any:
        return layer(a).sum()

    def drive(g: Any, k: int) -> Any:
        layer.weight.requires_grad_(k % 2 == 0)
        if k == 2:
            layer.weight = ad.nn.Parameter(draw(2, 3))
        layer.load_state_dict({n: v + 1 for n, v in layer.state_dict().items()})
        layer.zero_grad()
        out = g(draw(4, 3))
        out.backward()
        return [out, layer.weight.grad, layer.bias.grad]

    return f, drive


def history(build: World, compiled: bool) -> tuple[list[Any], Any]:
    """Everything that is seen over a few calls."""
    ad.manual_seed(1)
    f, drive = build()
    g = ad.compile(f) if compiled else f
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [seen(drive(g, k)) for k in range(4)], g


@pytest.mark.parametrize("name", WORLDS)
def test_a_compiled_function_is_seen_to_do_what_the_function_does(name: str) -> None:
    want, _ = history(WORLDS[name], False)
    got, compiled = history(WORLDS[name], True)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert same(a, b), f"call {k}: {a} instead of {b}"
    assert bool(compiled.programs) == (name not in EAGER), "replayed, or not"
    assert not _core._is_recording() and not _core._is_unusual_mode()
