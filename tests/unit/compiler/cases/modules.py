"""Modules, optimisers and hooks: what changes around a network between two calls."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

import adjoint as ad
from adjoint import nn, optim

from .harness import Box, Compile, Table

table = Table("modules")
F = nn.functional


def net() -> Any:
    ad.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Dropout(0.2), nn.Linear(3, 2))


def trained(model: Any, f: Any, *changes: Any) -> list[Any]:
    """Calls with gradients, and two after each change."""
    found = []
    for change in (None, None, *(c for one in changes for c in (one, None))):
        if change is not None:
            change(model)
        for p in model.parameters():
            p.grad = None
        y = f(ad.ones(2, 2))
        y.square().sum().backward()
        found += [
            y.detach(),
            [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        ]
    return found + [list(model.buffers())]


def changed(name: str, *changes: Any, make: Any = net) -> None:
    def program(compile: Compile) -> Any:
        model = make()
        return trained(model, compile(lambda x: model(x)), *changes)

    program.__name__ = name
    table.add(program)

    def compiled(compile: Compile) -> Any:
        model = make()
        return trained(model, compile(model), *changes)

    compiled.__name__ = f"{name}, the module compiled"
    table.add(compiled)


class Own(nn.Module):
    scale_of_class = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.rest = [nn.Linear(2, 2)]
        self.table = {"gain": 2.0}
        self.register_buffer("mean", ad.ones(2))
        self.act = F.relu
        self.kind = "plain"
        self.extra: Any = None

    def forward(self, x: Any) -> Any:
        y = self.act(self.a(x)) * self.table["gain"] * self.scale_of_class - self.mean
        if self.kind == "deep":
            for one in self.rest:
                y = one(y)
        if self.extra is not None:
            y = self.extra(y)
        return y


def forward(self: Any, x: Any) -> Any:
    return x * 7 + self.a(x) * 0


changed("eval and train", lambda m: m.eval(), lambda m: m.train())
changed("a part in eval", lambda m: m[2].eval())
changed("another layer", lambda m: m.__setitem__(1, nn.ReLU()))
changed("a layer more", lambda m: m.append(nn.Linear(2, 2)))
changed("a layer less", lambda m: m.__delitem__(3))
changed("layers swapped", lambda m: m.__setitem__(1, m[1]) or m.insert(0, nn.Tanh()))
changed("another weight", lambda m: setattr(m[0], "weight", nn.Parameter(ad.ones(3, 2))))
changed("a weight in place", lambda m: m[0].weight.data.mul_(2))
changed("data of a weight", lambda m: setattr(m[0].weight, "data", ad.ones(3, 2)))
changed("no bias", lambda m: setattr(m[0], "bias", None))
changed("a frozen weight", lambda m: m[0].weight.requires_grad_(False))
changed("all frozen but one", lambda m: [p.requires_grad_(False) for p in m[0].parameters()])
changed(
    "load_state_dict", lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()})
)
changed("another probability", lambda m: setattr(m[2], "p", 0.7))
changed("no dropout", lambda m: setattr(m[2], "p", 0.0))
changed("to double and back", lambda m: m.double().float())
changed("an initialiser", lambda m: nn.init.constant_(m[0].weight, 0.5))
changed("apply", lambda m: m.apply(lambda one: setattr(one, "training", False)))
changed(
    "a forward of its own", lambda m: setattr(m, "forward", types.MethodType(forward, m)), make=Own
)
changed(
    "a forward of the class",
    lambda m: setattr(type(m), "forward", forward),
    make=lambda: type("Other", (Own,), {})(),
)
changed("a forward hook", lambda m: m[0].register_forward_hook(lambda mod, given, out: out * 2))
changed("a pre hook", lambda m: m[0].register_forward_pre_hook(lambda mod, given: (given[0] * 2,)))
changed(
    "a hook that goes",
    hook := lambda m: m.__dict__.setdefault(
        "handle_", m[0].register_forward_hook(lambda mod, given, out: out * 3)
    ),
    lambda m: m.__dict__["handle_"].remove(),
)
changed("a global hook", lambda m: None)
changed(
    "a backward hook",
    lambda m: m[0].register_full_backward_hook(
        lambda mod, gi, go: (gi[0] * 2 if gi[0] is not None else None,)
    ),
)
changed("a hook of a weight", lambda m: m[0].weight.register_hook(lambda g: g * 2))
changed("an attribute", lambda m: m.table.update(gain=3.0), make=Own)
changed("a kind", lambda m: setattr(m, "kind", "deep"), make=Own)
changed("an activation", lambda m: setattr(m, "act", ad.tanh), make=Own)
changed("an attribute of the class", lambda m: setattr(m, "scale_of_class", 3.0), make=Own)
changed("a buffer in place", lambda m: m.mean.add_(1), make=Own)
changed("another buffer", lambda m: setattr(m, "mean", ad.zeros(2)), make=Own)
changed("a submodule comes", lambda m: setattr(m, "extra", nn.Tanh()), make=Own)
changed("a function comes", lambda m: setattr(m, "extra", lambda y: y * 2), make=Own)
changed("a module by name", lambda m: m.add_module("a", nn.Linear(2, 2)), make=Own)
changed(
    "a parameter by name",
    lambda m: m.a.register_parameter("bias", nn.Parameter(ad.ones(2))),
    make=Own,
)
changed(
    "deleted and made anew", lambda m: (delattr(m, "kind"), setattr(m, "kind", "deep")), make=Own
)
changed(
    "batch norm",
    lambda m: m.eval(),
    lambda m: setattr(m[0], "momentum", 0.9) or m.train(),
    make=lambda: nn.Sequential(nn.BatchNorm1d(2)),
)
changed(
    "batch norm's eps",
    lambda m: setattr(m[0], "eps", 0.5),
    make=lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)),
)
changed(
    "running statistics reset",
    lambda m: m[0].reset_running_stats(),
    make=lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)),
)
changed(
    "layer norm's shape",
    lambda m: setattr(m[0], "eps", 0.5),
    make=lambda: nn.Sequential(nn.LayerNorm(2)),
)
changed(
    "a slope",
    lambda m: setattr(m[1], "negative_slope", 0.9),
    make=lambda: nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.1)),
)
changed(
    "in place or not",
    lambda m: setattr(m[1], "inplace", True),
    make=lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
)


def stepped(name: str, make: Any, *changes: Any, step: Any = None) -> None:
    """A row: training steps, and changes of the optimiser."""

    def program(compile: Compile) -> Any:
        model = net()
        model[2].p = 0.0
        optimizer = make(model)

        def one(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = compile(step(model, optimizer) if step is not None else one)
        found = [f(ad.ones(2, 2)) for _ in range(4)]
        for change in changes:
            change(model, optimizer)
            found += [f(ad.ones(2, 2)) for _ in range(3)]
        return [found, list(model.parameters())]

    program.__name__ = name
    table.add(program)


def adam(m: Any) -> Any:
    return optim.Adam(m.parameters(), lr=0.1)


def sgd(m: Any) -> Any:
    return optim.SGD(m.parameters(), lr=0.1, momentum=0.9)


def rate(value: float) -> Any:
    return lambda m, o: o.param_groups[0].update(lr=value)


stepped("another rate", adam, rate(0.5))
stepped("another rate of SGD", sgd, rate(0.5), rate(0.01))
stepped("another momentum", sgd, lambda m, o: o.param_groups[0].update(momentum=0.1))
stepped("weight decay comes", adam, lambda m, o: o.param_groups[0].update(weight_decay=0.5))
stepped("nesterov comes", sgd, lambda m, o: o.param_groups[0].update(nesterov=True))
stepped("betas", adam, lambda m, o: o.param_groups[0].update(betas=(0.5, 0.6)))
stepped("the state is cleared", adam, lambda m, o: o.state.clear())
stepped("the state is loaded", adam, lambda m, o: o.load_state_dict(copy.deepcopy(o.state_dict())))
stepped(
    "a group more",
    lambda m: optim.SGD(m[0].parameters(), lr=0.1),
    lambda m, o: o.add_param_group({"params": m[3].parameters()}),
)
stepped("a parameter less", sgd, lambda m, o: o.param_groups[0]["params"].pop())
stepped(
    "a step hook",
    adam,
    lambda m, o: o.register_step_post_hook(lambda *_: m[0].weight.data.mul_(0.9)),
)
stepped(
    "a pre hook of steps",
    adam,
    lambda m, o: o.register_step_pre_hook(lambda *_: m[0].weight.grad.zero_()) and None,
)
stepped("a frozen parameter", adam, lambda m, o: m[0].weight.requires_grad_(False))
stepped("gradients are kept", adam, step=lambda m, o: functools.partial(kept, m, o))
stepped("gradients to zero", adam, rate(0.2), step=lambda m, o: functools.partial(zeroed, m, o))
stepped("gradients clipped", adam, rate(0.2), step=lambda m, o: functools.partial(clipped, m, o))
stepped("gradients by hand", sgd, step=lambda m, o: functools.partial(by_hand, m, o))
stepped("two optimisers", adam, step=lambda m, o: functools.partial(two, m, o, sgd(m)))
stepped(
    "a schedule inside",
    sgd,
    step=lambda m, o: functools.partial(scheduled, m, o, optim.lr_scheduler.StepLR(o, 2, 0.5)),
)
stepped("a schedule outside", sgd, lambda m, o: optim.lr_scheduler.StepLR(o, 1, 0.5).step())
stepped(
    "an average of weights",
    adam,
    step=lambda m, o: functools.partial(
        averaged, m, o, [p.detach().clone() for p in m.parameters()]
    ),
)
stepped(
    "a loss that is kept",
    adam,
    step=lambda m, o: functools.partial(remembered, m, o, Box(best=ad.full((), 1e9))),
)


def kept(m: Any, o: Any, x: Any) -> Any:
    loss = m(x).square().mean()
    loss.backward()
    o.step()
    return loss.detach()


def zeroed(m: Any, o: Any, x: Any) -> Any:
    o.zero_grad(set_to_none=False)
    return kept(m, o, x)


def clipped(m: Any, o: Any, x: Any) -> Any:
    o.zero_grad()
    loss = m(x).square().mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(m.parameters(), 0.1)
    o.step()
    return loss.detach() + norm


def by_hand(m: Any, o: Any, x: Any) -> Any:
    loss = m(x).square().mean()
    for p, g in zip(m.parameters(), ad.autograd.grad(loss, list(m.parameters())), strict=True):
        p.grad = g
    o.step()
    return loss.detach()


def two(m: Any, o: Any, other: Any, x: Any) -> Any:
    o.zero_grad()
    loss = m(x).square().mean()
    loss.backward()
    o.step()
    other.step()
    return loss.detach()


def scheduled(m: Any, o: Any, schedule: Any, x: Any) -> Any:
    o.zero_grad()
    found = kept(m, o, x)
    schedule.step()
    return found


def averaged(m: Any, o: Any, average: Any, x: Any) -> Any:
    o.zero_grad()
    found = kept(m, o, x)
    with ad.no_grad():
        for a, p in zip(average, m.parameters(), strict=True):
            a.mul_(0.9).add_(p, alpha=0.1)
    return found + sum(a.sum() for a in average)


def remembered(m: Any, o: Any, box: Any, x: Any) -> Any:
    o.zero_grad()
    found = kept(m, o, x)
    box.best.copy_(ad.minimum(box.best, found))
    return found + box.best


@table
def a_global_forward_hook(compile: Compile) -> Any:
    model = nn.Linear(2, 2)
    f = compile(lambda x: model(x))
    found = [f(ad.ones(2)).detach() for _ in range(3)]
    handle = nn.modules.module.register_module_forward_hook(lambda m, given, out: out * 2)
    try:
        found += [f(ad.ones(2)).detach() for _ in range(2)]
    finally:
        handle.remove()
    return found + [f(ad.ones(2)).detach()]


@table
def a_copy_of_a_compiled_module(compile: Compile) -> Any:
    model = nn.Linear(2, 2)
    f = compile(model)
    f(ad.ones(2))
    other = copy.deepcopy(model)
    other.weight.data.mul_(2)
    g = compile(other)
    return [f(ad.ones(2)).detach(), g(ad.ones(2)).detach(), g(ad.ones(2)).detach()]


@table
def functional_call(compile: Compile) -> Any:
    model = nn.Linear(2, 2)
    f = compile(lambda p, x: ad.func.functional_call(model, p, (x,)))
    params = {k: v.detach() * 2 for k, v in model.named_parameters()}
    return [f(params, ad.ones(2)) for _ in range(3)]


@table
def parametrised_by_a_property(compile: Compile) -> Any:
    class Positive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.raw = nn.Parameter(ad.zeros(2))
            self.shift = 1.0

        @property
        def weight(self) -> Any:
            return self.raw.exp() + self.shift

        def forward(self, x: Any) -> Any:
            return x * self.weight

    model = Positive()
    return trained(model, compile(model), lambda m: setattr(m, "shift", 3.0))


@table
def modules_in_a_plain_list(compile: Compile) -> Any:
    parts = [nn.Linear(2, 2), nn.Linear(2, 2)]
    f = compile(lambda x: sum(p(x) for p in parts).detach())
    found = [f(ad.ones(2)) for _ in range(3)]
    parts.append(nn.Linear(2, 2))
    found += [f(ad.ones(2)) for _ in range(2)]
    parts.reverse()
    return found + [f(ad.ones(2)) for _ in range(2)]


@table
def a_lazily_made_layer(compile: Compile) -> Any:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer: Any = None

        def forward(self, x: Any) -> Any:
            if self.layer is None:
                self.layer = nn.Linear(x.shape[-1], 2)
            return self.layer(x)

    model = Lazy()
    f = compile(model)
    return [f(ad.ones(2)).detach() for _ in range(4)]


@table
def a_counter_of_calls(compile: Compile) -> Any:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.register_buffer("steps", ad.zeros(()))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.steps += 1
            return x * self.steps

    model = Counted()
    f = compile(model)
    return [*(f(ad.ones(2)) for _ in range(4)), model.calls, model.steps]


@table
def a_buffer_that_counts(compile: Compile) -> Any:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", ad.zeros(()))

        def forward(self, x: Any) -> Any:
            self.steps += 1
            return x * self.steps

    model = Counted()
    f = compile(model)
    return [*(f(ad.ones(2)) for _ in range(4)), model.steps]


@table
def a_buffer_that_is_replaced(compile: Compile) -> Any:
    class Smoothed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", ad.zeros(2))

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * x.detach()
            return x - self.mean

    model = Smoothed()
    f = compile(model)
    return [*(f(ad.full((2,), float(k))) for k in range(4)), model.mean]
