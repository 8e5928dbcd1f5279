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


HEADS = (
    *("i in range({n})", "i in range({n})", "i in range(1, {n})", "i in range(0, {n}, 2)"),
    *("i in reversed(range({n}))", "x in xs[:{n}]", "i, x in enumerate(xs[:{n}])"),
    *("x, y in zip(xs[:{n}], xs[1:])", "i, (x, y) in enumerate(zip(xs[:{n}], xs[3:]))"),
    *("x in xs[:{n}].unbind(0)", "x in list(xs[:{n}])", "x in [a, b] * ({n} // 2)"),
    *("x in [a * 0.5] * {n}", "i in list(range({n}))", "x in (row * 2 for row in xs[:{n}])"),
)


def random_source(rng: random.Random, draws: bool = True) -> str:
    def expression() -> str:
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
            text = rng.choice(table)
            while "{e}" in text:
                text = text.replace("{e}", f"({expression()})", 1)
            text = text.replace("{n}", str(rng.choice((5, 40, 77)))).replace("{{", "{")
            found.append(text.replace("}}", "}"))
        rng.shuffle(found)
        return [depth + line for text in found for line in text.split("\n")]

    rare = rng.choice((0, 0, 0.1, 0.3))
    lines = [
        "m = t = first = x = y = a",
        "i = 1",
        "buffer, rows, paths, kept = ad.zeros(3), [], [], []",
        "pair, state, d, box = Pair(a, b), (a, [b]), {'u': a, 'v': b}, {'last': a}",
        "flag, gain, count, total, global_rows = True, 0.5, 0, 0.0, []",
        "other_rows = rows if " + rng.choice(("True", "False")) + " else []",
        "def inner(u): return 0.5 * u * k + 0.25 * " + rng.choice(("w @ u", "u", "gain * u", "b")),
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
    exact = [bits(y) for y in (*results, *(t.grad for t in tensors), ad.rand(2))]
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


def same(found: list[Any], expected: list[Any]) -> bool:
    """What can be differentiated again may be added up in another order, and be zero for None."""
    if found[0] != expected[0] or len(found[1]) != len(expected[1]):
        return False
    pairs = zip(found[1], expected[1], strict=True)
    return all(is_near(0 if x is None else x, 0 if y is None else y) for x, y in pairs)


def is_near(x: Any, y: Any) -> bool:
    largest = np.abs(y)[np.isfinite(y)].max(initial=0)
    return np.allclose(x, y, 1e-3, 1e-30 + 1e-5 * largest, equal_nan=True)


def check(seed: int) -> None:
    rng = random.Random(seed)
    _core._follow_from(rng.choice((30, 60, 60, 200)))
    _core._roll_from(rng.choice((400, 1000, 2000)))
    way = rng.choice((0, 0, 0, 1, 2))
    source = random_source(rng, way != 2)
    function = made(source, f"<loops {seed}>")
    wants = [rng.random() < 0.8 for _ in range(5)]
    expected = outcome(function, seed % 1000, wants, way)
    fast = ad.compile(function)
    with warnings.catch_warnings():
        if len(expected[0]) == 1:  # an error, of its backward pass maybe
            warnings.simplefilter("ignore", CompileWarning)
        for _ in range(3):
            assert same(outcome(fast, seed % 1000, wants, way), expected), source
        other = outcome(function, seed % 1000 + 1, wants, way)
        assert same(outcome(fast, seed % 1000 + 1, wants, way), other), source


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
