"""What a call does to tensors from outside, in all ways there are."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table

table = Table("writes")


def made() -> Box:
    w = ad.arange(4.0)
    p = nn.Parameter(ad.ones(2))
    return Box(
        w=w,
        v=w[1:3],
        p=p,
        q=ad.ones(2, requires_grad=True),
        ts=[ad.ones(2), ad.zeros(2)],
        m=ad.ones(2, 2),
    )


def facts(t: Any) -> Any:
    """What can be seen of a tensor."""
    if not isinstance(t, ad.Tensor):
        return t
    own = dict(getattr(t, "__dict__", {}))
    return [
        t.detach().clone(), t.stride(), t.requires_grad, t.is_leaf, t._version, own,
        facts(t.grad) if t.is_leaf else None, t.storage_offset(), t._is_view(),
    ]  # fmt: skip


def writes(name: str, act: Any, recorded: bool = False) -> None:
    """A row: a function that does something to tensors it reaches, and everything that is left."""

    def program(compile: Compile) -> Any:
        s = made()

        def function(x: Any) -> Any:
            act(s, x)
            return x * 2 + s.w.sum()

        f = compile(function)
        found = []
        for k in range(5):
            y = f(ad.full((2,), float(k + 1)))
            found += [y.detach(), *map(facts, (s.w, s.v, s.p, s.q, *s.ts, s.m))]
        return found

    program.__name__ = name
    table.add(program, recorded=recorded)


writes("add_", lambda s, x: s.w.add_(1), recorded=True)
writes("several", lambda s, x: s.w.add_(1).mul_(2).sub_(3), recorded=True)
writes("iadd", lambda s, x: s.w.__iadd__(1))
writes("a slice", lambda s, x: s.w.__setitem__(slice(1, 3), x), recorded=True)
writes("an item", lambda s, x: s.w.__setitem__(0, 5.0), recorded=True)
writes("a mask", lambda s, x: s.w.__setitem__(s.w > 2, 0.0))
writes("an index", lambda s, x: s.w.__setitem__(ad.tensor([0, 2]), x))
writes("a view", lambda s, x: s.v.add_(x), recorded=True)
writes("a view and its base", lambda s, x: (s.v.add_(x), s.w.mul_(2)), recorded=True)
writes("copy_", lambda s, x: s.v.copy_(x), recorded=True)
writes("fill_ and zero_", lambda s, x: (s.ts[0].fill_(3.0), s.ts[1].zero_()), recorded=True)
writes("out=", lambda s, x: ad.add(s.v, x, out=s.ts[0]))
writes("out= of another shape", lambda s, x: ad.add(s.w, 1, out=s.ts[0]))
writes("normal_", lambda s, x: s.w.normal_(), recorded=True)
writes("a parameter in no_grad", lambda s, x: quietly(lambda: s.p.add_(x)), recorded=True)
writes("a parameter's data", lambda s, x: s.p.data.add_(x))
writes("a detached parameter", lambda s, x: s.p.detach().add_(x))
writes("a parameter with gradients", lambda s, x: caught(lambda: s.p.add_(x)))
writes("data is set", lambda s, x: setattr(s.p, "data", x * 2))
writes("set_", lambda s, x: quietly(lambda: s.ts[0].set_(x * 2)))
writes("resize_", lambda s, x: s.ts[0].resize_(3).fill_(1))
writes("unsqueeze_", lambda s, x: s.ts[0].unsqueeze_(0))
writes("t_", lambda s, x: s.m.t_())
writes("requires_grad_", lambda s, x: s.ts[0].requires_grad_(not s.ts[0].requires_grad))
writes("requires_grad is set", lambda s, x: setattr(s.ts[0], "requires_grad", True))
writes("detach_", lambda s, x: s.ts[0].detach_())
writes("retain_grad", lambda s, x: s.q.retain_grad())
writes("a hook", lambda s, x: s.q.register_hook(lambda g: g * 2))
writes(
    "a hook and a pass",
    lambda s, x: (s.q.register_hook(lambda g: g * 2), (s.q * x).sum().backward()),
)
writes("an accumulated hook", lambda s, x: s.q.register_post_accumulate_grad_hook(lambda t: None))
writes("grad is set", lambda s, x: setattr(s.q, "grad", x * 2), recorded=True)
writes("grad is None", lambda s, x: setattr(s.q, "grad", None))
writes("grad is deleted", lambda s, x: delattr(s.q, "grad"))
writes("a backward pass", lambda s, x: (s.q * x).sum().backward(), recorded=True)
writes("a backward pass and zero", lambda s, x: ((s.q * x).sum().backward(), s.q.grad.zero_()))
writes(
    "a backward pass and None",
    lambda s, x: ((s.q * x).sum().backward(), setattr(s.q, "grad", None)),
)
writes(
    "two backward passes", lambda s, x: ((s.q * x).sum().backward(), (s.p * s.q).sum().backward())
)
writes("a gradient in place", lambda s, x: ((s.q * x).sum().backward(), s.q.grad.mul_(0.5)))
writes("gradients swapped", lambda s, x: ((s.q * s.p * x).sum().backward(), swap(s)))
writes(
    "the gradient of another",
    lambda s, x: ((s.q * x).sum().backward(), setattr(s.p, "grad", s.q.grad)),
)
writes("create_graph", lambda s, x: (s.q * s.q * x).sum().backward(create_graph=True))
writes("an attribute", lambda s, x: setattr(s.w, "tag", 1))
writes("an attribute that counts", lambda s, x: setattr(s.w, "tag", getattr(s.w, "tag", 0) + 1))
writes("an attribute of the argument", lambda s, x: setattr(x, "tag", 1))
writes("the argument", lambda s, x: x.add_(1))
writes("the argument and a view of it", lambda s, x: (x[:1].add_(1), x.mul_(2)))
writes("through the array", lambda s, x: s.w.numpy().__iadd__(1))
writes("swap of two", lambda s, x: swapped(s), recorded=True)
writes("a write that is undone", lambda s, x: (s.w.add_(1), s.w.sub_(1)))
writes("a write of itself", lambda s, x: s.w.copy_(s.w))
writes("index_add_", lambda s, x: s.w.index_add_(0, ad.tensor([0, 1]), x))
writes("scatter_", lambda s, x: s.w.scatter_(0, ad.tensor([0, 1]), x))
writes("clamp_", lambda s, x: s.w.clamp_(0, 2), recorded=True)
writes("sort into", lambda s, x: s.w.copy_(s.w.sort(descending=True)[0]))
writes("an initialiser", lambda s, x: nn.init.uniform_(s.p))
writes(
    "clip_grad_norm_",
    lambda s, x: ((s.q * x).sum().backward(), nn.utils.clip_grad_norm_([s.q], 0.1)),
)
writes(
    "a state dict is loaded", lambda s, x: linear_of(s).load_state_dict({"weight": x}, strict=False)
)
writes("nothing", lambda s, x: s.w.add(1), recorded=True)
writes("a clone", lambda s, x: s.w.clone().add_(1), recorded=True)
writes("a list of tensors", lambda s, x: s.ts.__setitem__(0, x * 2))
writes("a running mean", lambda s, x: s.v.mul_(0.9).add_(x, alpha=0.1), recorded=True)
writes("lerp_", lambda s, x: s.v.lerp_(x, 0.5), recorded=True)
writes("a broadcast write", lambda s, x: s.m.add_(x), recorded=True)
writes("a write by an expanded one", lambda s, x: s.m.copy_(x.expand(2, 2)), recorded=True)
writes("integers", lambda s, x: s.w.copy_(x.long().sum()), recorded=True)
writes("bernoulli_", lambda s, x: s.w.bernoulli_(0.5), recorded=True)
writes(
    "zero_grad of an optimiser",
    lambda s, x: ((s.q * x).sum().backward(), ad.optim.SGD([s.q], lr=0.1).zero_grad()),
)
writes(
    "a new optimiser steps",
    lambda s, x: ((s.q * x).sum().backward(), ad.optim.SGD([s.q], lr=0.1).step()),
)


def quietly(act: Any) -> Any:
    with ad.no_grad():
        return act()


def caught(act: Any) -> Any:
    try:
        return act()
    except RuntimeError:
        return None


def swap(s: Any) -> None:
    s.q.grad, s.p.grad = s.p.grad, s.q.grad


def swapped(s: Any) -> None:
    old = s.ts[0].clone()
    s.ts[0].copy_(s.ts[1])
    s.ts[1].copy_(old)


class _Linear(nn.Module):
    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight


def linear_of(s: Any) -> Any:
    return _Linear(s.p)


@table
def the_version_of_an_argument(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        x.add_(1)
        x.mul_(2)
        x.sub_(x)
        return x + 1

    g = compile(f)
    x = ad.ones(2)
    return [*(g(x) for _ in range(3)), x, x._version]


@table
def an_old_graph_notices_the_write(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)
    buffer = ad.ones(2)
    f = compile(lambda x: buffer.add_(x).sum())
    f(ad.ones(2))
    f(ad.ones(2))
    y = (w * buffer).sum()
    f(ad.ones(2))
    y.backward()
    return w.grad


@table
def an_old_view_sees_the_write(compile: Compile) -> Any:
    buffer = ad.zeros(4)
    view, array = buffer[1:], buffer.numpy()
    f = compile(lambda x: buffer.add_(x.sum()).sum())
    return [*(f(ad.ones(2)) for _ in range(3)), view, array.copy()]


@table
def the_order_of_writes_and_reads(compile: Compile) -> Any:
    buffer = ad.zeros(2)

    def f(x: Any) -> Any:
        a = buffer * 2
        buffer.add_(x)
        b = buffer * 3
        buffer[0] = b[1]
        return a, b, buffer * 5

    g = compile(f)
    return [*(g(ad.ones(2)) for _ in range(4)), buffer]
