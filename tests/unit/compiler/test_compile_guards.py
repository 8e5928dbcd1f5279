"""What a recording run reads is guarded: a change is seen, and told in words."""

from __future__ import annotations

import collections
import contextvars
import copy
import enum
import functools
import gc
import operator
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from tests.unit.compiler.walking import (
    Net,
    Settings,
    State,
    decorated,
    helper,
    passes,
    refused,
    walked,
    x,
)

# -- things that programs read ---------------------------------------------------------------------

scale = 2.0
sizes = [1, 2, 3]
nested = {"a": [1.0, {"b": 2.0}], "c": (3.0, [4.0])}
weights = np.array([1.0, 2.0, 3.0])
vocabulary = {"one", "two"}
queue = collections.deque([1.0, 2.0])
log: list[Any] = []
parameter = ad.ones(3, requires_grad=True)
namespace = types.SimpleNamespace(lr=0.1, deep=types.SimpleNamespace(k=[1.0]))
no_value = float("nan")


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


mode = Mode.SLOW


class Slotted:
    __slots__ = ("k", "later")

    def __init__(self) -> None:
        self.k = 4.0


settings = Settings()
slotted = Slotted()
bound_list = [5.0]
list_partial = functools.partial(lambda values, t: t * len(values), bound_list)


def with_list_default(t: Any, parts: list[float] = [1.0, 2.0]) -> Any:  # noqa: B006
    return t * sum(parts)


decorated_helper = decorated(helper)

# -- what is read is guarded -----------------------------------------------------------------------


def other_helper(t: Any, by: float = 3.0, *, add: float = 0.0) -> Any:
    return (t + add) * by


def changes(
    monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], change: Callable[..., Any], *words: str
) -> None:
    """Guards hold before a change, not after it, and hold again when it is undone."""
    guards = passes(f, x())
    with monkeypatch.context() as patch:
        undo = change(patch)
        assert not guards.hold()
        said = guards.failed()
        assert said is not None
        for word in words:
            assert word in said
        if undo is not None:
            undo()
    assert guards.hold(), guards.failed()


def here(name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(sys.modules[__name__], name, value)


def test_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    changes(
        monkeypatch, lambda t: t * scale, here("scale", 3.0), "global `scale`", "was 2.0 and is 3.0"
    )
    changes(monkeypatch, lambda t: t * scale, here("scale", 2), "was 2.0 and is 2")
    changes(monkeypatch, lambda t: helper(t), here("helper", lambda t: t), "`helper`")
    changes(monkeypatch, lambda t: t * parameter, here("parameter", ad.ones(3)), "a tensor [3]")
    changes(monkeypatch, lambda t: t * mode.value, here("mode", Mode.FAST), "Mode.SLOW")
    changes(monkeypatch, lambda t: t * no_value, here("no_value", 0.0), "nan")
    changes(
        monkeypatch,
        lambda t: t * scale,
        lambda patch: patch.delattr(sys.modules[__name__], "scale"),
        "is gone",
    )


def test_a_global_with_an_equal_value_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    guards = passes(lambda t: t * scale * len(sizes), x())
    monkeypatch.setattr(sys.modules[__name__], "scale", float("2.0"))
    assert guards.hold()
    monkeypatch.setattr(sys.modules[__name__], "sizes", [*sizes])
    assert not guards.hold()  # but for lists, which may be told apart


def test_a_builtin_name_that_is_shadowed(monkeypatch: pytest.MonkeyPatch) -> None:
    guards = passes(lambda t: t * len(sizes), x())
    monkeypatch.setattr(sys.modules[__name__], "len", lambda _: 1, raising=False)
    assert not guards.hold()
    assert "the global `len` was not there" in str(guards.failed())


def test_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(thing: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
        return lambda patch: patch.setattr(thing, name, value, raising=False)

    changes(monkeypatch, lambda t: t * settings.lr, on(settings, "lr", 0.2), "`settings.lr`", "0.2")
    changes(monkeypatch, lambda t: t * settings.factor, on(Settings, "factor", 0.6), "factor`")
    changes(monkeypatch, lambda t: t * settings.factor, on(settings, "factor", 0.6), "factor`")
    changes(monkeypatch, lambda t: t * Settings.factor, on(Settings, "factor", 0.6), "factor`")
    changes(monkeypatch, lambda t: t * settings.half, on(settings, "lr", 0.2), "`settings.lr`")
    changes(monkeypatch, lambda t: t * settings.half, on(Settings, "half", 0.2))
    changes(monkeypatch, lambda t: t * settings.doubled(), on(Settings, "factor", 0.2))
    changes(monkeypatch, lambda t: settings.method(t), on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: settings.method(t), on(Settings, "method", lambda s, t: t))
    changes(monkeypatch, lambda t: settings.method(t), on(settings, "method", lambda t: t))
    changes(monkeypatch, settings, on(settings, "lr", 0.2))
    changes(monkeypatch, settings.method, on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * slotted.k, on(slotted, "k", 5.0))
    changes(monkeypatch, lambda t: t * namespace.deep.k[0], on(namespace.deep, "k", [2.0]))
    changes(monkeypatch, lambda t: t * getattr(settings, "lr"), on(settings, "lr", 0.2))  # noqa: B009
    changes(
        monkeypatch, lambda t: t * hasattr(settings, "new"), on(settings, "new", 1), "not there"
    )
    changes(monkeypatch, lambda t: t * vars(settings)["lr"], on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * settings.__dict__["lr"], on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * operator.attrgetter("lr")(settings), on(settings, "lr", 0.2))
    changes(monkeypatch, lambda t: t * copy.copy(settings).lr, on(settings, "lr", 0.2))
    changes(monkeypatch, helper, on(helper, "__defaults__", (3.0,)))
    changes(monkeypatch, helper, on(helper, "__kwdefaults__", {"add": 3.0}))
    changes(monkeypatch, helper, on(helper, "__code__", other_helper.__code__))
    changes(monkeypatch, decorated_helper, on(helper, "__kwdefaults__", {"add": 3.0}))


def test_reads_of_functions_made_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is new, what it reads is not."""

    def nested_function(t: Any) -> Any:
        def inner() -> Any:
            return t * scale

        return inner()

    def listed(t: Any) -> Any:
        return [t * scale for _ in range(2)][-1]

    def generated(t: Any) -> Any:
        return sum(t * scale for _ in range(2))

    for f in (nested_function, listed, generated):
        changes(monkeypatch, f, here("scale", 3.0), "`scale`", "3.0")


variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=1.0)
thread_own = threading.local()
thread_own.k = 2.0
chained = collections.ChainMap({"a": 1.0}, {"b": 2.0})
users = collections.UserDict({"a": 1.0})


class Base:
    def method(self, t: Any) -> Any:
        return t * 2


class Derived(Base):
    def method(self, t: Any) -> Any:
        return super().method(t) + 1


derived = Derived()


@functools.lru_cache
def remembered() -> list[float]:
    return [1.0, 2.0]


def test_less_common_places(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(thing: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
        return lambda patch: patch.setattr(thing, name, value)

    def setting(to: float) -> Callable[[pytest.MonkeyPatch], Any]:
        def change(_: pytest.MonkeyPatch) -> Any:
            token = variable.set(to)
            return lambda: variable.reset(token)

        return change

    def item(container: Any, key: Any, value: Any) -> Callable[[pytest.MonkeyPatch], Any]:
        def change(_: pytest.MonkeyPatch) -> Any:
            before = container[key]
            container[key] = value
            return lambda: operator.setitem(container, key, before)

        return change

    changes(monkeypatch, lambda t: t * variable.get(), setting(3.0))
    changes(monkeypatch, lambda t: t * chained["b"], item(chained.maps[1], "b", 3.0))
    changes(monkeypatch, lambda t: t * users["a"], item(users, "a", 3.0))
    changes(monkeypatch, derived.method, on(Base, "method", lambda self, t: t))
    changes(monkeypatch, derived.method, on(Base.method, "__code__", (lambda self, t: t).__code__))


def test_sets_and_arrays_among_the_arguments_are_guarded() -> None:
    """They are the same argument as long as they are the same object."""
    array, elements = np.ones(3), {1, 2}
    guards = passes(lambda t, a, e: t * a.sum() * len(e), x(), array, elements)
    array[0] = 2.0
    assert not guards.hold()
    array[0] = 1.0
    assert guards.hold()
    elements.add(3)
    assert not guards.hold()
    _, refusals = walked(lambda t, a: t * a[0], x(), np.ones(1000))
    assert refusals[0].reason.startswith("`a` has 8000 bytes")


def test_attributes_that_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(1.0, 2.0)

    def f(t: Any) -> Any:
        match state:
            case State(1.0, speed=v):
                return t * v
        return t

    guards = passes(f, x())
    state.position = 2.0
    assert not guards.hold()
    state.position = 1.0
    assert guards.hold()
    state.speed = 3.0
    assert not guards.hold()


def test_objects_in_objects_that_are_handed_over() -> None:
    outer, inner = Settings(), Settings()
    outer.layers = [inner]  # type: ignore[list-item]

    def f(t: Any) -> Any:
        return t * copy.deepcopy(outer).layers[0].lr  # type: ignore[attr-defined]

    guards = passes(f, x())
    inner.lr = 5.0
    assert not guards.hold()


def test_old_containers_in_new_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holder:
        def __init__(self, v: Any) -> None:
            self.v = v

    made = [1.0, 2.0]
    first = operator.itemgetter(0)
    boxes = (made,)

    def f(t: Any) -> Any:
        holder = Holder(first(boxes))
        return t * holder.v[0]

    guards = passes(f, x())
    made[0] = 2.0
    assert not guards.hold()


def test_the_order_of_an_ordered_dict_counts() -> None:
    ordered = collections.OrderedDict(a=1.0, b=2.0)
    guards = passes(lambda t: sum(t * v for v in ordered.values()), x())
    ordered.move_to_end("a")
    assert not guards.hold()
    ordered.move_to_end("b")
    assert guards.hold()


def test_a_missing_attribute_that_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(t: Any) -> Any:
        try:
            return t * settings.not_there  # type: ignore[attr-defined]
        except AttributeError:
            return t * 2

    changes(
        monkeypatch,
        f,
        lambda patch: patch.setattr(settings, "not_there", 1, raising=False),
        "not there",
    )


def test_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    def item(container: Any, key: Any, value: Any) -> Callable[[pytest.MonkeyPatch], Any]:
        def change(patch: pytest.MonkeyPatch) -> Callable[[], None] | None:
            if isinstance(container, dict):
                patch.setitem(container, key, value)
                return None
            before = container[key]
            container[key] = value
            return lambda: operator.setitem(container, key, before)

        return change

    for f in (
        lambda t: t * len(sizes),
        lambda t: t * sum(sizes),
        lambda t: t * sizes[0],
        lambda t: sum(t * s for s in sizes),
        lambda t: sum([t * s for s, _ in zip(sizes, range(3), strict=True)]),
    ):
        monkeypatch.setattr(sys.modules[__name__], "sizes", [1, 2, 3])
        guards = passes(f, x())
        sizes[0] = 5
        assert not guards.hold()
        assert "`sizes`" in str(guards.failed())
        sizes[0] = 1
        assert guards.hold()
        sizes[0] = True
        assert not guards.hold()
    changes(monkeypatch, lambda t: t * nested["a"][0], item(nested["a"], 0, 2.0), "`nested")
    changes(monkeypatch, lambda t: t * nested["c"][0], item(nested["c"][1], 0, 2.0), "`nested")
    changes(monkeypatch, lambda t: t * len(nested), item(nested, "new", 2.0), "has changed")
    changes(monkeypatch, lambda t: t * globals()["scale"], here("scale", 3.0))
    changes(monkeypatch, list_partial, item(bound_list, 0, 6.0))
    changes(
        monkeypatch,
        with_list_default,
        item(with_list_default.__defaults__[0], 0, 3.0),  # type: ignore[index]
    )


def test_arrays_sets_and_deques() -> None:
    guards = passes(lambda t: t * weights.sum() + len(vocabulary) + queue[0], x())
    for change, undo in (
        (lambda: operator.setitem(weights, 0, 7.0), lambda: operator.setitem(weights, 0, 1.0)),
        (lambda: vocabulary.add("three"), lambda: vocabulary.discard("three")),
        (lambda: queue.append(3.0), lambda: queue.pop()),
    ):
        change()
        assert not guards.hold()
        undo()
        assert guards.hold()


def test_closures() -> None:
    k = 2.0

    def f(t: Any) -> Any:
        return t * k

    guards = passes(f, x())
    k = 3.0
    assert not guards.hold()
    assert "`k` of an enclosing function" in str(guards.failed())
    k = 2.0
    assert guards.hold()


def test_the_order_of_a_dict_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "nested", {"a": 1.0, "b": 2.0})
    guards = passes(lambda t: sum(t * v for v in nested.values()), x())
    nested["a"] = nested.pop("a")
    assert not guards.hold()


def test_user_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("users_own_settings")
    module.rate = 0.5  # type: ignore[attr-defined]
    monkeypatch.setattr(sys.modules[__name__], "namespace", module)
    changes(monkeypatch, lambda t: t * namespace.rate, lambda p: p.setattr(module, "rate", 0.6))


def test_modules() -> None:
    model = Net()
    guards = passes(model, ad.ones(2, 3))

    def fails(change: Callable[[], Any], undo: Callable[[], Any]) -> None:
        change()
        assert not guards.hold()
        assert guards.failed()
        undo()
        assert guards.hold(), guards.failed()

    def set_to(thing: Any, name: str, value: Any) -> Callable[[], None]:
        return lambda: setattr(thing, name, value)

    fails(model.eval, model.train)
    fails(set_to(model.body[2], "p", 0.2), set_to(model.body[2], "p", 0.1))
    fails(set_to(model, "depth", 1), set_to(model, "depth", 2))
    fails(lambda: model.options.update(skip=False), lambda: model.options.update(skip=True))
    alpha, offset, layer = model.alpha, model.offset, model.layers[0]
    fails(set_to(model, "alpha", nn.Parameter(ad.ones(1))), set_to(model, "alpha", alpha))
    fails(set_to(model, "offset", ad.zeros(3)), set_to(model, "offset", offset))
    fails(
        lambda: model.layers.__setitem__(0, nn.Linear(3, 3)),
        lambda: model.layers.__setitem__(0, layer),
    )
    weight = layer.weight
    fails(set_to(layer, "weight", nn.Parameter(weight.detach())), set_to(layer, "weight", weight))
    handles: list[Any] = []
    fails(
        lambda: handles.append(model.norm.register_forward_hook(lambda *args: None)),
        lambda: handles.pop().remove(),
    )
    fails(
        lambda: model.norm.__dict__.update(forward=lambda t: t),
        lambda: model.norm.__dict__.pop("forward"),
    )
    before = model.norm.eps
    fails(set_to(model.norm, "eps", 1.0), set_to(model.norm, "eps", before))


def test_parameters_may_change_their_values() -> None:
    model = Net()
    guards = passes(model, ad.ones(2, 3))
    with ad.no_grad():
        for one in model.parameters():
            one.add_(1)
            one.grad = ad.zeros_like(one)
    assert guards.hold()


def test_functional_call_needs_no_guard_for_what_it_exchanges() -> None:
    model = nn.Linear(3, 3)

    def f(weight: Any, t: Any) -> Any:
        return ad.func.functional_call(model, {"weight": weight}, (t,))

    guards = passes(f, ad.ones(3, 3), x())
    model.bias = nn.Parameter(ad.ones(3))
    assert not guards.hold()


def test_guards_keep_alive_what_they_compare() -> None:
    made = Settings()
    guards = passes(made.method, x())
    address = id(made)
    del made
    gc.collect()
    assert guards.hold()
    assert any(id(one) == address for one in gc.get_objects() if type(one) is Settings)


def test_many_guards() -> None:
    things = [Settings() for _ in range(600)]

    def f(t: Any) -> Any:
        for thing in things:
            t = t * thing.lr
        return t

    guards = passes(f, x())
    assert len(guards) > 600
    things[599].lr = 3.0
    assert not guards.hold()
    assert "3.0" in str(guards.failed())


# -- arguments -------------------------------------------------------------------------------------


def test_structures_among_the_arguments_are_not_guarded() -> None:
    state, parts, named = State(x(), x()), [x(), 2.0], {"a": {"b": 3.0}}

    def f(state: State, parts: list[Any], named: dict[str, Any]) -> Any:
        return state.step().position * parts[1] + named["a"]["b"] + len(parts)

    guards = passes(f, state, parts, named)
    state.dt = 0.5
    parts.append(1)
    named["a"]["b"] = 1.0
    assert guards.hold(), guards.failed()


def test_attributes_of_opaque_arguments_are_guarded() -> None:
    made = Settings()
    guards = passes(lambda t, s: t * s.lr, x(), made)
    made.lr = 1.0
    assert not guards.hold()


def test_changed_arguments_are_refused() -> None:
    def store(d: dict[str, Any]) -> None:
        d["a"] = 1

    def append(parts: list[Any]) -> None:
        parts.append(1)

    def assign(state: State) -> None:
        state.dt = 3.0

    def deep(d: dict[str, Any]) -> None:
        d["inner"].clear()

    def array(a: Any) -> None:
        a[1:][0] = 5.0

    assert "the content of `d` is changed" in refused(store, {}).reason
    assert "the content of `parts` is changed" in refused(append, [x()]).reason
    assert "`state.dt` is changed" in refused(assign, State(x(), x())).reason
    assert "the content of `d` is changed" in refused(deep, {"inner": [1]}).reason
    refused(array, np.ones(3))


# -- in compiled functions -------------------------------------------------------------------------


class Scaled(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        ctx.save_for_backward(t)
        ctx.own = 2.0
        return t * t

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (t,) = ctx.saved_tensors
        ctx.seen = True
        return g * t * scale * ctx.own


def gradient(f: Callable[..., Any]) -> list[float]:
    t = ad.ones(2, requires_grad=True)
    f(t).backward()
    found: list[float] = t.grad.tolist()
    return found


def test_what_a_first_call_sets_up_does_not_keep_it_from_being_compiled() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask: Any = None

        def forward(self, t: Any) -> Any:
            if self.mask is None:
                self.mask = ad.arange(t.shape[-1]) > 0
            return t * self.mask

    model = Masked()
    compiled = ad.compile(model)
    with pytest.warns(ad.compiler.CompileWarning, match=r"mask` is changed"):
        compiled(x())
    assert compiled(x()).tolist() == compiled(x()).tolist() == model(x()).tolist()
    assert len(compiled._compiled.programs) == 1


def test_what_is_refused_twice_is_not_tried_again() -> None:
    def f(t: Any) -> Any:
        settings.count += 1
        return t * 2

    compiled = ad.compile(f)
    with pytest.warns(ad.compiler.CompileWarning) as told:
        for _ in range(4):
            compiled(x())
    assert len(told) == 1
    assert settings.count == 4
    assert compiled.programs == []


def test_what_backward_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    f = ad.compile(lambda t: Scaled.apply(t).sum(), fullgraph=True)
    for to in (2.0, 3.0, 2.0):
        monkeypatch.setattr(sys.modules[__name__], "scale", to)
        assert gradient(f) == gradient(f) == [2.0 * to, 2.0 * to]
    assert len(f.programs) == 2


def test_what_a_hook_does_outside_is_refused() -> None:
    def f(t: Any) -> Any:
        y = t * 2
        y.register_hook(lambda g: log.append(g))
        return y.sum()

    with pytest.warns(ad.compiler.CompileWarning, match="the content of `log` is changed"):
        gradient(ad.compile(f))


def test_compiled_functions_follow_their_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net().eval()
    compiled = ad.compile(model)
    t = ad.ones(2, 3)

    def same_as_eager() -> None:
        assert ad.equal(compiled(t), model(t))
        assert ad.equal(compiled(t), model(t))

    same_as_eager()
    model.depth = 1
    same_as_eager()
    model.options["skip"] = False
    same_as_eager()
    model.layers[0] = nn.Linear(3, 3)
    same_as_eager()
    model.offset = ad.ones(3)
    same_as_eager()
    model.norm.eps = 0.5
    same_as_eager()
    model.body[1] = nn.Tanh()
    same_as_eager()


def test_other_parameters_of_an_optimizer_make_another_program() -> None:
    def train(compiled: bool) -> tuple[Any, int]:
        w, b = (ad.ones(2, requires_grad=True) for _ in range(2))
        optimizer = ad.optim.SGD([w], lr=0.1, momentum=0.9)

        def step(t: Any) -> Any:
            optimizer.zero_grad()
            loss = ((w * t + b) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = ad.compile(step) if compiled else step
        losses = [run(ad.ones(2)) for _ in range(3)]
        optimizer.add_param_group({"params": [b], "lr": 0.01})
        losses += [run(ad.ones(2)) for _ in range(3)]
        optimizer.param_groups[1]["lr"] = 0.02
        losses += [run(ad.ones(2)) for _ in range(2)]
        return ad.stack([*losses, w.sum(), b.sum()]).tolist(), len(getattr(run, "programs", ()))

    (expected, _), (found, programs) = train(False), train(True)
    assert found == expected
    assert programs == 3  # at first, with a gradient of b that stays, with b as a parameter
