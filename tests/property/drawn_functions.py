"""Functions drawn at random, as source text, and how they are called.

`draw(seed)` gives a `Drawn`: the text of a function of two tensors and a dict, which also reaches a
parameter `W` and a buffer `B`. `history(drawn, wrap)` calls it several times with tensors that are
views, leaves, the same, what it reaches by itself or what it has returned before, goes backward in
one of several ways, and tells everything that can be seen afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad

__all__ = ["Drawn", "draw", "history"]

# {v}: a tensor of the pool, {w}: another, {k}: a small number. Each gives a new one.
MADE = [
    "{v} * 2",
    "{v} + {w}",
    "{v} * {w}",
    "{v} - {k}",
    "{v}.sin()",
    "{v}.relu()",
    "{v}.exp().log1p()",
    "{v} / ({w}.abs() + 1)",
    "{v} ** 2",
    "ad.maximum({v}, {w})",
    "ad.where({v} > {w}, {v}, {w} * 0.5)",
    "({v} @ {w}.mT) @ {w}",
    "{v}.softmax(-1)",
    "{v}.mean(0, keepdim=True) + {w}",
    "{v}.sum() * {w}",
    "{v}.cumsum(1)",
    "{v}.max(1, keepdim=True).values + {w}",
    "{v}.sort(1).values",
    "{v}.gather(1, ad.tensor([[1, 0, 2], [0, 0, 1]]))",
    "ad.cat([{v}[:1], {w}[1:]])",
    "ad.stack([{v}[0], {w}[1]])",
    "{v}.clone()",
    "{v}.contiguous()",
    "{v}.mT.contiguous().mT",
    "{v}.flip(0)",
    "{v}.index_select(0, ad.tensor([1, 0]))",
    "{v}.double().sin().float()",
    "{v}.half().float()",
    "{v}.int().float()",
    "({v} > 0).to({v}.dtype)",
    "{v}.masked_fill({w} > 0, 0.25)",
    "ad.full_like({v}, {k})",
    "ad.zeros(2, 3) + {v}",
    "ad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])",
    "ad.arange(6.0).view(2, 3) * {v}",
    "F.linear({v}, {w}[:, :3].mT @ {w})",
    "F.dropout({v}, 0.5)",
    "{v} + ad.randn(2, 3)",
    "ad.rand_like({v}) * {v}",
    "{v}.new_zeros(2, 3).normal_() + {v}",
    "ad.bernoulli(ad.full((2, 3), 0.5)) * {v}",
    "{v}.std(1, keepdim=True) * {w}",
    "F.layer_norm({v}, (3,))",
    "{v}.prod() + {w}",
]
VIEWED = [
    "{v}.detach()",
    "{v}.data",
    "{v}[:]",
    "{v}.view(6).view(2, 3)",
    "{v}.reshape(3, 2).reshape(2, 3)",
    "{v}.mT.mT",
    "{v}[:1].expand(2, 3)",
    "{v}.unsqueeze(0)[0]",
    "{v}.view(2, 3)",
    "{v}.view_as({w})",
    "ad.stack({v}.unbind(0))",
    "ad.cat({v}.split(1))",
    "{v}.narrow(0, 0, 2)",
    "{v}.flip(1).flip(1)",
    "{v}.alias_() if hasattr({v}, 'alias_') else {v}[...]",
    "W",
    "B",
    "W.detach()",
    "B[:]",
    "W.data",
    "{v}.requires_grad_() if {v}.is_leaf and {v} is not B else {v}",
    "{v}.detach().requires_grad_()",
    "{v}.detach().clone().requires_grad_()",
]
CHANGED = [
    "{v}.mul_(2)",
    "{v}.add_({w})",
    "{v}.copy_({w})",
    "{v}.sin_()",
    "{v}.zero_()",
    "{v}[0] = {w}[1]",
    "{v}[:, 1] = {k}",
    "{v}[{v} > 0] = 0.5",
    "{v}.mT[1].mul_(3)",
    "{v}.view(6)[1:4].add_({k})",
    "{v}.uniform_()",
    "{v}.detach().add_({k})",
    "{v}.data.mul_(0.5)",
    "{v} += {w}",
    "{v} *= 2",
    "{v}.index_add_(0, ad.tensor([0, 1]), {w})",
    "{v}.clamp_(-1, 1)",
    "{v}.detach_()",
    "{v}.requires_grad_(False)",
    "with ad.no_grad(): B.mul_(0.9).add_({v}.detach() * 0.1)",
    "with ad.no_grad(): W.sub_({v}.detach() * 0.01)",
    "with ad.no_grad(): {v}.mul_(2)",
]
GRADED = [
    "{v}.register_hook(double) if {v}.requires_grad else None",
    "{v}.retain_grad() if {v}.requires_grad else None",
    "(W * {w}.detach()).sum().backward()",
    "{x} = ad.autograd.grad((W * {v}).sin().sum(), W, create_graph=True)[0]",
    "{x} = ad.autograd.grad((W * {v}.detach()).sin().sum(), W)[0]",
    "{x} = {v}.detach().requires_grad_(); ({x}.sin() * {w}.detach()).sum().backward()",
    "{x} = {v}.detach().requires_grad_(); {x}.sin().sum().backward(); {x} = {x}.grad",
    "W.grad = None",
    "W.grad = {v}.detach() + 1",
    "{x} = {w} if W.grad is None else W.grad * {w}.detach()",
    "{x} = Twice.apply({v})",
    "{x} = ad.utils.checkpoint.checkpoint(lambda t: t.sin() * t, {v}, use_reentrant=False)",
    "{x} = ad.func.grad(lambda t: (t.sin() * {w}.detach()).sum())({v}.detach())",
    "{x} = ad.func.vmap(lambda t: t * t.sum())({v})",
    "with ad.no_grad(): {x} = {v} * {w}",
    "with ad.no_grad(): {x} = {v}[:]",
    "with ad.enable_grad(): {x} = {v} * {w}",
    "{x} = {v} if {v} is {w} else {v} + {w}",
    "{x} = {v} * 3 if {v} is W else {v}",
    "{x} = {v} * 3 if {v}.requires_grad else {v} * 5",
    "{x} = {v} * 3 if {v}.is_leaf else {v} * 5",
    "{x} = {v} * 3 if type({v}) is ad.nn.Parameter else {v}",
    "{x} = {v} * 3 if {v}.is_contiguous() else {v} * 5",
    "{x} = {v} * {v}.stride(0)",
    "{x} = {v} * len({{{v}, {w}}})",
]


class Twice(ad.autograd.Function):
    """A custom function that keeps its operand."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 + x * 0


class Drawn(NamedTuple):
    """A function, and the seed of its calls."""

    text: str
    seed: int


def draw(seed: int) -> Drawn:
    """A function."""
    rng = random.Random(seed)
    pool = ["a", "b", "c"]
    lines = ["def f(a, b, d):", "    c = d['c']"]
    for _ in range(rng.choice((2, 4, 4, 7, 12))):
        kind = rng.choices((MADE, VIEWED, CHANGED, GRADED), (5, 3, 2.5, 1.5))[0]
        fresh = f"t{len(pool)}"
        text = rng.choice(kind)
        new = kind in (MADE, VIEWED) or "{x}" in text
        places = {"v": rng.choice(pool), "w": rng.choice(pool), "k": rng.choice((1, 0.5, -2))}
        line = text.format(x=fresh, **places)
        lines.append(f"    {fresh} = {line}" if kind in (MADE, VIEWED) else f"    {line}")
        if new:
            pool.append(fresh)
    late = pool[-4:]
    forms = ["{p}", "{p}, {q}", "[{p}, {q}]", "{{'p': {p}, 'q': ({q}, 3)}}", "{p}, {q}, {r}, {s}"]
    forms += ["{p}.sum()", "[{p}, {p}]", "{p}, {q}.detach(), {r}[0]", "None, {p}, {p}.mT"]
    chosen = {n: rng.choice(pool if rng.random() < 0.3 else late) for n in "pqrs"}
    lines.append(f"    return {rng.choice(forms).format(**chosen)}")
    return Drawn("\n".join(lines), seed)


class Calls:
    """Calls of one function, and what is seen of them."""

    def __init__(self, drawn: Drawn, wrap: Callable[[Any], Any]) -> None:
        self.rng = random.Random(drawn.seed)
        ad.manual_seed(drawn.seed)
        self.W = ad.nn.Parameter(ad.randn(2, 3))
        self.B = ad.randn(2, 3)
        names: dict[str, Any] = {
            "ad": ad,
            "F": ad.nn.functional,
            "W": self.W,
            "B": self.B,
            "Twice": Twice,
            "double": double,
        }
        exec(drawn.text, names)  # the text is ours
        self.function = wrap(names["f"])
        self.last = ad.randn(2, 3)
        self.exact = True
        self.ended = ""  # by which error: what was done before it is not compared

    def argument(self) -> Any:
        kind = self.rng.randrange(12)
        t = ad.randn(2, 3)
        leaf = ad.randn(2, 3, requires_grad=True)
        makers: list[Callable[[], Any]] = [
            lambda: t,
            lambda: t,
            lambda: leaf,
            lambda: leaf,
            lambda: leaf * 1,
            lambda: ad.randn(3, 2).mT,
            lambda: ad.randn(4, 3)[1:3],
            lambda: ad.randn(4, 3)[1:3].requires_grad_(),
            lambda: leaf[:],
            lambda: ad.nn.Parameter(t),
            lambda: self.rng.choice((self.W, self.B)),
            lambda: self.last,
        ]
        return makers[kind]()

    def arguments(self) -> list[Any]:
        given = [self.argument() for _ in range(3)]
        kind = self.rng.randrange(6)
        if kind == 0:
            given[1] = given[0]
        elif kind == 1:
            given[2] = given[0]
        elif kind == 2 and given[0].is_contiguous():
            given[1] = given[0].view(2, 3)
        return given

    def call(self, given: list[Any]) -> list[Any]:
        """One call, and what comes after it."""
        way = self.rng.randrange(11)
        told: list[Any] = []
        try:
            if way == 6 and given[0].requires_grad:
                given[0].register_hook(double)
            result = self.function(given[0], given[1], {"c": given[2]})
            tensors = list(flat(result))
            told.append(structure(result))
            told += [shown(t) for t in tensors]
            known = [*given, self.W, self.B, *tensors]
            told.append([[t is o for o in known] for t in tensors])
            used = [t for t in tensors if t.requires_grad]
            # Where a tensor of the call is used outside as well, sums are taken in another order.
            inputs = {id(t) for t in [*given, self.W]}
            self.exact &= not any(id(t) in inputs for t in used)
            told += self.backward(way, used, given)
            if self.rng.random() < 0.3 and tensors:
                with ad.no_grad():
                    tensors[-1].add_(1)
            self.last = tensors[-1].detach() if tensors else self.last
            if self.last.shape != (2, 3) or self.last.dtype != ad.float32:
                self.last = ad.randn(2, 3)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            self.ended = str(error)
            return [*told, f"an error: {type(error).__name__}"]
        everything = [*given, self.W, self.B]
        told += [shown(t) for t in everything]
        told += [shown(t.grad) for t in everything if t.is_leaf]
        return [*told, [self.W._version, self.B._version], shown(ad.get_rng_state())]

    def backward(self, way: int, used: list[Any], given: list[Any]) -> list[Any]:
        if not used or way == 0:
            return []
        if way == 1:
            used = used[:1]
        loss = sum((t * t).sum() for t in used)
        leaves = [t for t in {id(t): t for t in [*given, self.W]}.values() if t.requires_grad]
        if way == 2:
            loss.backward(retain_graph=True)
        elif way == 3 and leaves:
            found = ad.autograd.grad(loss, leaves, allow_unused=True)
            return [shown(g) for g in found]
        elif way == 4 and leaves:
            found = ad.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            with_graph = [g for g in found if g is not None and g.requires_grad]
            if not with_graph:
                return [shown(g) for g in found]
            second = ad.autograd.grad(sum(g.sum() for g in with_graph), leaves, allow_unused=True)
            self.exact = False  # both derivatives meet outside the call
            # How they lie in memory depends on who adds first.
            return [shown(None if g is None else g.contiguous()) for g in (*found, *second)]
        elif way == 5:
            seen: list[Any] = []
            used[0].register_hook(lambda g: seen.append(shown(g)))
            loss.backward()
            return seen
        elif way == 7:
            used[-1].square().sum().backward(retain_graph=True)
        elif way == 8 and leaves:
            rows = ad.stack([ad.ones_like(used[0]), ad.full_like(used[0], 2.0)])
            found = ad.autograd.grad(
                used[0], leaves, rows, allow_unused=True, is_grads_batched=True
            )
            return [shown(None if g is None else g.contiguous()) for g in found]
        elif way == 9:
            found = ad.autograd.grad(loss, used, allow_unused=True, retain_graph=True)
            return [shown(None if g is None else g.contiguous()) for g in found]
        loss.backward()
        return []


def double(gradient: Any) -> Any:
    return gradient * 2


def flat(thing: Any) -> Any:
    if isinstance(thing, ad.Tensor):
        yield thing
    elif isinstance(thing, list | tuple):
        for one in thing:
            yield from flat(one)
    elif isinstance(thing, dict):
        yield from flat(list(thing.values()))


def structure(thing: Any) -> Any:
    if isinstance(thing, list | tuple):
        return type(thing), [structure(one) for one in thing]
    if isinstance(thing, dict):
        return [(key, structure(value)) for key, value in thing.items()]
    return type(thing) if isinstance(thing, ad.Tensor) else (type(thing), thing)


def shown(tensor: Any) -> Any:
    """Everything that can be seen of a tensor: its bits, its form, whether it has a history."""
    if tensor is None:
        return None
    facts = (tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad, tensor.is_leaf)
    bits = tensor.detach().contiguous().numpy().tobytes()
    return (bits, *facts, tensor.grad_fn is not None)


def history(drawn: Drawn, wrap: Callable[[Any], Any], calls: int = 5) -> tuple[Calls, list[Any]]:
    """Calls of the function with what is seen after each; some with the same tensors again."""
    world = Calls(drawn, wrap)
    told: list[Any] = []
    given = world.arguments()
    for k in range(calls):
        if k and world.rng.random() < 0.6:
            given = world.arguments()
        told.append(world.call(given))
        if world.ended:
            break
    return world, told
