"""Long plain loops of compiled functions, the rest of whose steps becomes a scan.

Every bit is that of eager execution, in the recorded call, its backward pass and later calls.
"""

from __future__ import annotations

import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint import _core
from adjoint._for_loops import _takeover
from adjoint.compiler import CompileWarning

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def look_at_short_programs() -> Iterator[None]:
    before = _core._follow_from(60), _core._roll_from(40)
    yield
    _core._follow_from(before[0])
    _core._roll_from(before[1])


def bits(x: Any) -> Any:
    """Everything but which NaN it is."""
    if x is None:
        return None
    values = np.array(x.detach())
    values[np.isnan(values)] = np.nan
    return x.dtype, x.shape, x.stride(), x.requires_grad, values.tobytes()


HELPERS = """
class Pair(NamedTuple):
    left: Any
    right: Any

def pull(u, v):
    return 0.5 * ad.sin(u) - 0.25 * v

def halved(u):
    u *= 0.5
    return u + 1

def several(u, v, times=2):
    for _ in range(times):
        u = 0.75 * u + 0.125 * ad.tanh(u * v)
    return u

def of_pair(p):
    return p.left * 0.5 + p.right * 0.25

def guarded(u):
    try:
        return pull(u, u[0])
    except ValueError:
        return u
    finally:
        u = None
"""

EXPRESSIONS = (
    """
a; b; m; w @ a; a @ w.T; ad.sin(b); ad.tanh(k * a); k.exp() * b; xs[3].cos(); a.roll(1) - b
first * a; a.detach() * b; pull(a, b); several(b, a); several(a, b, 3); guarded(a); inner(a)
of_pair(pair); pair.left * b; d['u']; d['v'] * a; state[0]; state[1][0] * b; (lambda: w @ b)()
sum([x * 0.25 for x in (a, b)]); xs[i]; xs[i + 1] * a; xs[i - 1]; x; x * b; y.sin(); gain * a
ad.stack([a[0], b[1] * a[2], k]); ad.where(a > 0, a, 0.5 * b); ad.outer(a, b)[1]; net.scale * a
ad.cat([a[1:], b[:1]]); a.reshape(1, 3).expand(2, 3).sum(0); (a * b).sum()
ad.tensor([0.5, 0.25, -0.5]) * a
""".strip()
    .replace("\n", ";")
    .split(";")
)
RARE = ("0.125*(i%3)*a", "xs[i%2]*b", "x*x", "count*a", "total*b", "0.1*i*b", "ad.rand(3)*b")
STATEMENTS = (
    "m = a",
    "a, b = b, a",
    "b = a",
    "state = ({e}, [{e}])",
    "pair = Pair({e}, {e})",
    "pair = pair._replace(left={e})",
    "d = {{'u': {e}, 'v': {e}}}",
    "rows.append(a)",
    "rows.append({e} * 1)",
    "rows.append(a[:2])",
    "paths.append((a, b * 0.5))",
    "paths.append(pair)",
    "with ad.no_grad(): m = a * b",
    "t = a * 1; t.mul_(0.5); b = 0.5 * b + 0.25 * t",
    "for j in range(2): a = 0.5 * a + 0.25 * {e}",
    "for j in range(3): b = 0.5 * b + 0.125 * xs[j]",
    "while False: a = b",
    "if flag: a = 0.75 * a\nelse: b = a",
    "if a.shape[0] != 3: break",
    "if not flag: continue",
    "del t; t = b",
    "try: b = pull(b, a)\nexcept ValueError: pass",
    "t = {e}",
    "b = 0.5 * b + 0.25 * t",
    "t, *others = [{e}, {e}, {e}]",
    "m = [{e} for _ in range(2)][1]",
    "b: Any = pull(b, a)",
    "b = (lambda u: 0.5 * u + 0.25 * a)(b)",
    "def local(u, v=a): return 0.5 * u * v\nb = local(b)",
    "inside = None if flag else a",
    "word = f'{{flag}}'",
)
RARE_STATEMENTS = (
    "count += 1",
    "total = total + 0.5",
    "with ad.no_grad(): buffer.mul_(0.5).add_(a)\nb = 0.5 * b + buffer",
    "a.mul_(0.5)",
    "a = a.clone(); a += 0.1",
    "if i == {n}: b = b + a * 0.125",
    "if i > {n}: kept.append(a)",
    "if i == {n}: first = a",
    "if i < {n}: a = 0.5 * a + 0.5 * b",
    "box['last'] = a",
    "a = 0.5 * a + 0.25 * box['last']",
    "a.retain_grad() if a.requires_grad else None",
    "a = a.detach()",
    "a = a.detach().requires_grad_()",
    "xs = xs * 1",
    "paths = []",
    "rows = rows + [a]",
    "rows.append(a); b = b + rows[-1] * 0.25",
    "rows.append(a); b = 0.5 * b + 0.25 * rows[0] * len(rows) ** 0",
    "global_rows.append(a)",
    "other_rows.append(a); rows.append(b)",
    "if len(rows) > {n}: break",
    "i = 3",
    "w = w * 0.875",
    "a = a.double().float()",
    "a = a.to(ad.float64) if i > {n} else a",
)

# What draws, and changes tensors in place that the call has made. (Where a loop has read what was
# given to the call, and that is changed behind it, its backward pass may raise in the first call.)
MORE_EXPRESSIONS = (
    *("p.clone()", "w @ q.clone()", "q * 0.5", "p.detach() * a", "r[1] * 1", "r.sum(0)", "p + q"),
    *("part.clone().sum()", "both[0] * 0.5", "halved(a.clone())", "c[i]", "c[i - 1] * 0.5"),
)
MORE_DRAWS = (
    *("ad.rand(3) * b", "ad.randn_like(a)", "ad.randn(17)[:3]", "ad.nn.functional.dropout(a, 0.3)"),
    *(
        "ad.normal(a.detach(), 0.5)",
        "ad.bernoulli(ad.full((3,), 0.5)) * a",
        "xs[ad.randint(3, (3,)), 0]",
    ),
)
MORE_STATEMENTS = (
    "p += 0.1 * {e}",
    "p.mul_(0.5); p.add_({e})",
    "p.mul_(0.75).sub_({e})",
    "p[0] = 0.0",
    "p[1:] = b[:-1] * 0.5",
    "p.copy_({e})",
    "q.mul_(0.5); q.sub_({e})",
    "q -= 0.1 * p",
    "q[0] = q[1] * 0.5",
    "with ad.no_grad(): q.mul_(0.5)",
    "r[0] = {e}",
    "r[:, 1] = 0.5",
    "r.mul_(0.5).add_({e})",
    "n += 1",
    "b = 0.5 * b + 0.25 * p",
    "b = 0.5 * b + 0.25 * q.clone() * {e}",
    "rows.append(q.clone())",
    "rows.append(p * 0.5)",
    "halved(p)",
    "t = p; t.add_({e})",
    "old = p.clone(); p[1:] = 0.5 * old[:-1]; p[:1] = old[1:2]",
    "a[0] = 0.25",
    "a.mul_(0.5); a = a + {e}",
    "for j in range(2): p.mul_(0.5); p += 0.5 * {e}",
    *("out[i] = a", "out[i] = {e}", "out[i] = p", "across[:, i] = b", "across[:, i + 1] = a * 1"),
    *("sums[i] = a.sum()", "sums[i - 1] = b[0]", "out[i] = a; out[i].mul_(0.5)"),
)
MORE_RARE = (
    "rows.append(p)",
    "rows.append(q[:2])",
    "m = q",
    "m = p[0:3]",
    "p, q = q, p",
    "p = p * 0.5",
    "p = p.clone(); p += {e}",
    "both[1].add_(0.1)",
    "part.mul_(0.5)",
    "q.tanh_()",
    "q = q.tanh_()",
    "box['last'] = p",
    "box['last'].mul_(0.5)",
    "with ad.no_grad(): w.mul_(0.9)",
    "x = x * 1; x.mul_(0.5)",
    "x.mul_(0.5)",
    "(lambda: p.mul_(0.5))()",
    "p.resize_(3)",
    "if i > {n}: p.mul_(0.5)",
    "p.requires_grad_()",
    "p.detach_()",
    "q.grad = None",
    "pair = pair._replace(left=q)",
    "n += i",
    "p[i % 3] = 0.5",
    "a.add_(p); p = a",
    "out[i] = 0.5",
    "out[i] = a; b = b + 0.5 * out[i - 1]",
    "out[i] = a; b = b + 0.5 * seen[0]",
    "if i != {n}: out[i] = a",
    "with ad.no_grad(): out[i] = a",
    "out[i] = a; out[i + 1] = b",
    "out[i] += b",
    "seen[i % 3] = a",
    "out = out * 1",
    "b.mul_(q)",
)


HEADS = (
    *("i in range({n})", "i in range({n})", "i in range(1, {n})", "i in range(0, {n}, 2)"),
    *("i in reversed(range({n}))", "x in xs[:{n}]", "i, x in enumerate(xs[:{n}])"),
    *("x, y in zip(xs[:{n}], xs[1:])", "i, (x, y) in enumerate(zip(xs[:{n}], xs[3:]))"),
    *("x in xs[:{n}].unbind(0)", "x in list(xs[:{n}])", "x in [a, b] * ({n} // 2)"),
    *("x in [a * 0.5] * {n}", "i in list(range({n}))", "x in (row * 2 for row in xs[:{n}])"),
)


def random_source(rng: random.Random, draws: bool = True, in_place: bool = False) -> str:
    def expression() -> str:
        if in_place and rng.random() < 0.3:
            others = MORE_DRAWS if draws and rng.random() < drawn else MORE_EXPRESSIONS
            return rng.choice(others)
        return (
            rng.choice(RARE if draws else RARE[:-1])
            if rng.random() < rare / 2
            else rng.choice(EXPRESSIONS)
        )

    def statements(depth: str, names: str) -> list[str]:
        found = [
            f"{name} = 0.5 * ({expression()}) + 0.25 * {name} * ({expression()})" for name in names
        ]
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            table = RARE_STATEMENTS if rng.random() < rare else STATEMENTS
            if in_place and rng.random() < 0.7:
                table = MORE_RARE if rng.random() < 0.5 * rare + 0.05 else MORE_STATEMENTS
            text = rng.choice(table)
            while "{e}" in text:
                text = text.replace("{e}", f"({expression()})", 1)
            text = text.replace("{n}", str(rng.choice((5, 40, 77)))).replace("{{", "{")
            found.append(text.replace("}}", "}"))
        rng.shuffle(found)
        return [depth + line for text in found for line in text.split("\n")]

    rare = rng.choice((0, 0, 0.1, 0.3))
    drawn = rng.choice((0, 0.2, 0.8)) if in_place else 0
    lines = [
        "m = t = first = x = y = a",
        "i = 1",
        "buffer, rows, paths, kept = ad.zeros(3), [], [], []",
        "pair, state, d, box = Pair(a, b), (a, [b]), {'u': a, 'v': b}, {'last': a}",
        "flag, gain, count, total, global_rows = True, 0.5, 0, 0.0, []",
        "other_rows = rows if " + rng.choice(("True", "False")) + " else []",
        "def inner(u): return 0.5 * u * k + 0.25 * " + rng.choice(("w @ u", "u", "gain * u", "b")),
    ]
    if in_place:
        lines += [
            "p, n, c = "
            + rng.choice(("ad.zeros(3)", "a * 1", "xs[0] * 0.5"))
            + ", ad.zeros(()), xs[5:] * 0.5",
            "q, r = " + rng.choice(("b * 1", "b.clone()", "ad.ones(3)")) + ", ad.zeros(2, 3)",
            "out, across, sums = ad.zeros(301, 3), ad.zeros(3, 301) + a[:, None], ad.zeros(301)",
            "seen = out[40:60]",
            "part, both = q[:2], " + rng.choice(("(p, q)", "(a * 1, b * 1)")),
            "old = p.clone()",
        ]
    for _ in range(rng.choice((1, 1, 1, 2))):
        count = rng.choice((30, 70, 90, 150, 260))
        inner = rng.choice((0, 0, 0, 40))
        count = count // 2 if inner else count
        lines.append(f"for {rng.choice(HEADS)}:".replace("{n}", str(count)))
        if inner:
            lines += statements(" ", rng.choice(("", "a")))
            lines.append(f" for j in range({inner}):")
            lines += statements("  ", rng.choice(("a", "ab", "ba")))
        lines += statements(" ", rng.choice(("a", "ab", "ba")))
    lines += [
        "ends = [x for x in (a, b, m, t, first, pair.left, state[0], d['v']) if x.numel() == 3]",
        "ends += kept[-2:] + [r for r in rows[::7]]",
        "ends += [x for path in paths[-30:] for x in path]",
        *(
            ["ends += [p, q, r, n, part, both[0] * 0.5, out, across, sums, seen]"]
            if in_place
            else []
        ),
        "everything = sum((x * 0.5).sum() for x in ends)",
    ]
    if rng.random() < 0.15:  # a gradient by a state inside a loop
        lines += [
            "if rows and everything.requires_grad and rows[len(rows) // 3].requires_grad:",
            " inside = ad.autograd.grad(",
            "  everything, rows[len(rows) // 3], create_graph=True, allow_unused=True)[0]",
            " everything = everything if inside is None else everything + inside.sum()",
        ]
    results = rng.choice(("a * 1", "ad.stack([r.sum() for r in rows] + [k])", "rows[-1] * 1"))
    results = results if "rows.append" in "".join(lines) else "b * 1"
    lines.append(f"return everything, {results}, i * a")
    body = "\n".join("    " + line for line in lines)
    return f"def function(a, b, k, xs, w):\n{body}\n"


class Net:
    scale = 0.5


def made(source: str, name: str) -> Function:
    text = "import adjoint as ad\nfrom typing import Any, NamedTuple\n" + HELPERS + source
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    table: dict[str, Any] = {"__name__": "loops_of_a_test", "net": Net()}
    exec(compile(text, name, "exec"), table)
    function: Function = table["function"]
    return function


ERRORS = RuntimeError, NameError, AttributeError, TypeError, IndexError


def outcome(function: Function, seed: int, wants: list[bool], way: int) -> list[Any]:
    """Results, gradients, and what the generator gives next; or an error."""
    ad.manual_seed(seed)
    given = [ad.randn(3), ad.randn(3), ad.tensor(0.7), 0.3 * ad.randn(300, 3), 0.4 * ad.randn(3, 3)]
    tensors = [t.requires_grad_(on) for t, on in zip(given, wants, strict=True)]
    try:
        results = function(*tensors)
        second = differentiated(results, tensors, way)
    except ERRORS as error:
        return [[type(error)], []]
    # An argument that was changed in place is no leaf any more.
    gradients = [t.grad if t.is_leaf else None for t in tensors]
    exact = [bits(y) for y in (*results, *gradients, ad.rand(2))]
    return [exact, [None if y is None else np.array(y.detach()) for y in second]]


def differentiated(results: Any, tensors: list[ad.Tensor], way: int) -> list[Any]:
    ends = [(y * ad.linspace(0.3, 1.1, y.numel()).reshape(y.shape)).sum() for y in results]
    ends = [end for end in ends if end.requires_grad]
    second: list[Any] = []
    if ends and way == 0:
        sum(ends).backward()
    elif ends and way == 1:  # some results alone, then again
        ends[0].backward(retain_graph=True)
        sum(ends).backward()
    elif ends and way == 2:
        asked = [t for t in tensors if t.requires_grad]
        first = ad.autograd.grad(sum(ends), asked, create_graph=True, allow_unused=True)
        total = sum((g * g).sum() for g in first if g is not None)
        second += first
        if isinstance(total, ad.Tensor) and total.requires_grad:
            second += ad.autograd.grad(total, asked, allow_unused=True)
    return second


def is_refused(found: list[Any], way: int) -> bool:
    """Second derivatives are not there where a function changes what it was given, or has read."""
    return way == 2 and found[0] == [RuntimeError]


def same(found: list[Any], expected: list[Any]) -> bool:
    """What can be differentiated again may be added up in another order, and be zero for None."""
    if found[0] != expected[0] or len(found[1]) != len(expected[1]):
        return False
    pairs = zip(found[1], expected[1], strict=True)
    return all(is_near(0 if x is None else x, 0 if y is None else y) for x, y in pairs)


def is_near(x: Any, y: Any) -> bool:
    largest = np.abs(y)[np.isfinite(y)].max(initial=0)
    return np.allclose(x, y, 1e-3, 1e-30 + 1e-5 * largest, equal_nan=True)


def check(seed: int, in_place: bool = False) -> None:
    rng = random.Random(seed)
    _core._follow_from(rng.choice((30, 60, 60, 200)))
    _core._roll_from(rng.choice((400, 1000, 2000)))
    way = rng.choice((0, 0, 0, 1, 2))
    source = random_source(rng, way != 2, in_place)
    function = made(source, f"<loops {seed}>")
    wants = [rng.random() < 0.8 for _ in range(5)]
    expected = outcome(function, seed % 1000, wants, way)
    fast = ad.compile(function)
    with warnings.catch_warnings():
        # An error, of its backward pass maybe; or a loop has read what is changed behind it.
        if len(expected[0]) == 1 or in_place:
            warnings.simplefilter("ignore", CompileWarning)
        other = outcome(function, seed % 1000 + 1, wants, way)
        for k, wanted in ((0, expected), (0, expected), (0, expected), (1, other)):
            found = outcome(fast, seed % 1000 + k, wants, way)
            assert same(found, wanted) or (in_place and is_refused(found, way)), source


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9))
def test_loops_that_are_left_alone_are_eager_to_the_last_bit(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_takeover, "FEWEST", 10**9)
        check(seed)


@settings(max_examples=25, deadline=None)
@example(20033)  # a second derivative of the first call, of a loop in a loop
@given(st.integers(0, 10**9))
def test_loops_that_are_taken_over_are_eager_to_the_last_bit(seed: int) -> None:
    check(seed)


@settings(max_examples=25, deadline=None)
@example(1000127)  # many loops have read a tensor that is changed between them
@given(st.integers(0, 10**9))
def test_loops_that_change_tensors_and_draw_are_eager_to_the_last_bit(seed: int) -> None:
    check(seed, in_place=True)
