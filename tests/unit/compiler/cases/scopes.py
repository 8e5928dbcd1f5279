"""Scopes and control flow: closures, globals, comprehensions, structures of objects."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import operator
from typing import Any

from .harness import Box, Compile, Table, calls

table = Table("scopes")
row = table.row
GAIN = 2.0


def scale(value: Any = 3.0) -> Any:
    return lambda s: setattr(s, "scale", value)


def boxed() -> Box:
    return Box(scale=2.0, parts=[1.0, 2.0], inner=Box(scale=5.0))


row("a nested function", boxed, lambda s, x: (lambda: x * s.scale)(), scale(), recorded=True)
row(
    "a chain of closures",
    boxed,
    lambda s, x: (lambda: (lambda: x * s.scale)())(),
    scale(),
    recorded=True,
)
row("a recursive closure", boxed, lambda s, x: x * deep(s, 3), scale())
row(
    "a comprehension's scope",
    boxed,
    lambda s, x: x * sum([v * s.scale for v in s.parts]),
    scale(),
    lambda s: s.parts.append(1.0),
)
row(
    "a generator that reads late",
    boxed,
    lambda s, x: x * sum(late(s)),
    scale(),
    lambda s: s.parts.append(1.0),
)
row(
    "a default that is read at definition", boxed, lambda s, x: x * (lambda v=s.scale: v)(), scale()
)
row("a class body", boxed, lambda s, x: x * type("K", (), {"v": s.scale}).v, scale())
row(
    "a conditional expression",
    boxed,
    lambda s, x: x * (s.inner.scale if s.scale > 2.5 else s.scale),
    scale(),
)
row("short circuits", boxed, lambda s, x: x * (s.scale > 2.5 and s.inner.scale or 1.0), scale())
row("chained comparisons", boxed, lambda s, x: x * (2.0 if 1 < s.scale < 2.5 else 3.0), scale())
row(
    "star expressions",
    boxed,
    lambda s, x: x * sum([*s.parts, *(v for v in s.parts)]),
    lambda s: s.parts.append(1.0),
)
row(
    "dict unpacking",
    lambda: {"by": 2.0},
    lambda s, x: multiplied(x, **s),
    lambda s: s.update(by=3.0),
)
row(
    "string formatting",
    boxed,
    lambda s, x: x * float(f"{s.scale:.{s.digits}f}") if hasattr(s, "digits") else x * s.scale,
    lambda s: setattr(s, "digits", 1),
    scale(2.77),
)
row("try, except and else", boxed, lambda s, x: x * attempted(s), lambda s: delattr(s, "scale"))
row("with and as", boxed, lambda s, x: x * opened(s), scale())
row("an assertion", boxed, lambda s, x: x * asserted(s), scale())
row("loops that break", boxed, lambda s, x: x * found(s), lambda s: s.parts.insert(0, 9.0))
row("while on state", boxed, lambda s, x: doubled(s, x), lambda s: s.parts.append(1.0))
row(
    "sums of attributes of many",
    lambda: [Box(v=float(k)) for k in range(5)],
    lambda s, x: x * sum(b.v for b in s),
    lambda s: setattr(s[3], "v", 9.0),
    recorded=True,
)
row(
    "a linked list",
    lambda: linked(5),
    lambda s, x: x * total(s),
    lambda s: setattr(s.next.next, "v", 9.0),
    recorded=True,
)
row(
    "a tree",
    lambda: tree(3),
    lambda s, x: x * leaves(s),
    lambda s: s["l"]["r"].__setitem__("v", 9.0),
    recorded=True,
)
row(
    "a graph with cycles",
    lambda: ring(3),
    lambda s, x: x * s.next.next.next.v,
    lambda s: setattr(s, "v", 9.0),
    recorded=True,
)
row(
    "a stack machine",
    lambda: ["x", 2.0, "*", 1.0, "+"],
    lambda s, x: machine(s, x),
    lambda s: s.__setitem__(1, 3.0),
    recorded=True,
)
row(
    "a registry of functions",
    lambda: {"f": lambda x: x * 2},
    lambda s, x: s["f"](x),
    lambda s: s.update(f=lambda x: x * 3),
    recorded=True,
)
row(
    "a pipeline",
    lambda: [lambda x: x * 2, lambda x: x + 1],
    lambda s, x: functools.reduce(lambda v, f: f(v), s, x),
    lambda s: s.reverse(),
    recorded=True,
)
row(
    "methods in a list",
    lambda: (lambda c: (c, [c.double, c.triple]))(Methods()),
    lambda s, x: x * sum(f() for f in s[1]),
    lambda s: setattr(s[0], "v", 5.0),
)
row(
    "a lookup by type",
    lambda: {int: 2.0, float: 3.0},
    lambda s, x: x * s[type(1)],
    lambda s: s.update({int: 4.0}),
)
row(
    "a key of a frozen set",
    lambda: {frozenset("ab"): 2.0},
    lambda s, x: x * s[frozenset("ba")],
    lambda s: s.update({frozenset("ab"): 3.0}),
)
row(
    "groupby of state",
    boxed,
    lambda s, x: x * len([*itertools.groupby(sorted(s.parts))]),
    lambda s: s.parts.append(1.0),
    lambda s: s.parts.append(7.0),
)
row("math on state", boxed, lambda s, x: x * math.hypot(*s.parts), lambda s: s.parts.append(1.0))
row("max with a default", lambda: [], lambda s, x: x * max(s, default=2.0), lambda s: s.append(5.0))
row(
    "a dispatch table of operators",
    lambda: {"+": operator.add, "*": operator.mul},
    lambda s, x: s["+"](x, 2.0),
    lambda s: s.update({"+": operator.sub}),
)
row(
    "a chain of gets",
    lambda: {"a": {"b": 2.0}},
    lambda s, x: x * s.get("a", {}).get("b", 1.0),
    lambda s: s["a"].pop("b"),
    lambda s: s.pop("a"),
)


def deep(s: Any, n: int) -> float:
    def go(k: int) -> float:
        return s.scale if k == 0 else 1 + go(k - 1)

    return go(n)


def late(s: Any) -> Any:
    for v in s.parts:
        yield v * s.scale


def multiplied(x: Any, by: float) -> Any:
    return x * by


def attempted(s: Any) -> float:
    try:
        v = s.scale
    except AttributeError:
        return 7.0
    else:
        return v + 1
    finally:
        v = 0.0


def opened(s: Any) -> float:
    with contextlib.nullcontext(s.scale) as v:
        return float(v)


def asserted(s: Any) -> float:
    assert s.scale > 0, s.scale
    return float(s.scale)


def found(s: Any) -> float:
    for v in s.parts:
        if v > 1.5:
            break
    else:
        return 0.0
    return float(v)


def doubled(s: Any, x: Any) -> Any:
    k = 0
    while k < len(s.parts):
        x, k = x * 2, k + 1
    return x


def linked(n: int) -> Any:
    return Box(v=float(n), next=linked(n - 1) if n else None)


def total(s: Any) -> float:
    return 0.0 if s is None else s.v + total(s.next)


def tree(n: int) -> Any:
    return {"v": float(n), **({"l": tree(n - 1), "r": tree(n - 1)} if n else {})}


def leaves(s: Any) -> float:
    return s["v"] + sum(leaves(s[k]) for k in ("l", "r") if k in s)


def ring(n: int) -> Any:
    boxes = [Box(v=float(k)) for k in range(n)]
    for k, one in enumerate(boxes):
        one.next = boxes[(k + 1) % n]  # type: ignore[attr-defined]
    return boxes[0]


def machine(code: Any, x: Any) -> Any:
    stack: list[Any] = []
    for word in code:
        match word:
            case "x":
                stack.append(x)
            case "*":
                stack.append(stack.pop() * stack.pop())
            case "+":
                stack.append(stack.pop() + stack.pop())
            case number:
                stack.append(number)
    return stack.pop()


class Methods:
    v = 2.0

    def double(self) -> float:
        return 2 * self.v

    def triple(self) -> float:
        return 3 * self.v


@table
def a_global_that_is_rebound(compile: Compile) -> Any:
    f = compile(lambda x: x * GAIN)

    def change() -> None:
        global GAIN
        GAIN = 3.0 if GAIN == 2.0 else 2.0

    return calls(f, change, change)


@table
def a_global_function_that_is_rebound(compile: Compile) -> Any:
    f = compile(lambda x: x * total(linked(2)))
    old = globals()["total"]
    found = calls(f, lambda: globals().update(total=lambda s: 7.0))
    globals()["total"] = old
    return found


@table
def a_local_class_that_is_rebound(compile: Compile) -> Any:
    class K:
        v = 2.0

    f = compile(lambda x: x * K().v)
    found = calls(f)

    class K:  # type: ignore[no-redef]
        v = 3.0

    return found + calls(f)


@table
def two_functions_of_one_code(compile: Compile) -> Any:
    def make(by: float) -> Any:
        return lambda x: x * by

    one, other = make(2.0), make(3.0)
    chosen = [one]
    f = compile(lambda x: chosen[0](x) + other(x))
    return calls(f, lambda: chosen.__setitem__(0, other), lambda: chosen.__setitem__(0, make(7.0)))
