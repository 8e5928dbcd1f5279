"""Reads are guarded and changes refused wherever the language lets them stand.

Each Python compiles these to other instructions: comprehensions run in their caller's frame from
3.12 on, calls and `super()` have other layouts. Read with test_compile_guards.py.
"""

# Unusual spellings are what is tested here.
# ruff: noqa: B023, C408, C420, PIE804, RUF015, UP008

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.compiler.walking import passes, refused, x

box = types.SimpleNamespace(k=2.0)
scale = 2.0
log: list[Any] = []
names = {"k": 1.0}


def k() -> float:
    return float(box.k)


class Base:
    factor = 2.0

    def method(self, t: Any) -> Any:
        return t * box.k

    @property
    def half(self) -> float:
        return box.k / 2

    @classmethod
    def made(cls) -> float:
        return float(box.k)


class Derived(Base):
    def by_super(self, t: Any) -> Any:
        return super().method(t) * super().half * super().made()

    def by_long_super(self, t: Any) -> Any:
        return super(Derived, self).method(t)

    def by_super_in_lambda(self, t: Any) -> Any:
        return (lambda: super(Derived, self).method(t))()

    def by_super_in_comprehension(self, t: Any) -> Any:
        return [super(Derived, self).method(t) for _ in range(2)][1]

    def by_super_attribute(self, t: Any) -> Any:
        return t * super().factor


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a: float, b: float) -> None:
        self.a, self.b = a, b


derived = Derived()
point = Point(1.0, 2.0)


@contextlib.contextmanager
def scaled() -> Iterator[float]:
    yield box.k


class Manager:
    def __enter__(self) -> float:
        return float(box.k)

    def __exit__(self, *_: Any) -> bool:
        return bool(box.k)


# -- reads -----------------------------------------------------------------------------------------


def in_list(t: Any) -> Any:
    return [t * box.k for _ in range(3)][2]


def in_nested_lists(t: Any) -> Any:
    return [[t * box.k * i for i in range(2) if i < box.k] for _ in range(2)][1][1]


def in_set_and_dict(t: Any) -> Any:
    return t * len({i for i in range(3) if i < box.k}) * {i: box.k for i in range(2)}[1]


def in_comprehension_of_a_name_of_the_function(t: Any) -> Any:
    i = 5
    found = [t * box.k for i in range(3)]
    return found[0] * i


def in_comprehension_with_cells(t: Any) -> Any:
    return [(lambda: t * i * box.k) for i in range(3)][1]()


def in_comprehension_source(t: Any) -> Any:
    return [t * i for i in (box.k, 1.0)][0]


def in_comprehension_that_raises(t: Any) -> Any:
    try:
        return [t[100] for _ in range(2)]
    except IndexError:
        return t * box.k


def in_generator_expression(t: Any) -> Any:
    return sum(t * box.k for _ in range(2))


def in_generator(t: Any) -> Any:
    def numbers() -> Iterator[Any]:
        yield 1.0
        yield box.k

    return t * sum(numbers())


def in_two_generators_by_turns(t: Any) -> Any:
    def numbers() -> Iterator[Any]:
        yield 1.0
        yield 2.0
        yield box.k

    one, two = numbers(), numbers()
    next(one)
    next(two), next(two)
    next(one)
    three = numbers()
    next(three)
    return t * next(one)


def in_delegated_generator(t: Any) -> Any:
    def inner() -> Any:
        got = yield 1.0
        return got * box.k

    def outer() -> Any:
        result = yield from inner()
        yield result

    one = outer()
    next(one)
    return t * one.send(3.0)


def in_thrown_generator(t: Any) -> Any:
    def inner() -> Any:
        try:
            yield 1.0
        except ValueError:
            yield box.k

    one = inner()
    next(one)
    return t * one.throw(ValueError())


def in_closed_generator(t: Any) -> Any:
    found = []

    def inner() -> Any:
        try:
            yield 1.0
        finally:
            found.append(box.k)

    one = inner()
    next(one)
    one.close()
    return t * found[0]


def in_recursion(t: Any, n: int = 4) -> Any:
    if n:
        t = in_recursion(t, n - 1)
    return t * box.k if n == 4 else t


def in_recursive_closure(t: Any) -> Any:
    def inner(n: int) -> Any:
        result = inner(n - 1) if n else t
        return result * box.k if n == 3 else result

    return inner(3)


def in_walrus(t: Any) -> Any:
    return t * kk if (kk := box.k) else t


def in_walrus_of_comprehension(t: Any) -> Any:
    found = [last := i * box.k for i in range(3)]
    return t * last + len(found)


def in_format(t: Any) -> Any:
    return t * float(f"{box.k:{'.2f' if box.k else ''}}") * len(f"{box.k!r:>5}")


def in_condition_of_match(t: Any) -> Any:
    match t.ndim:
        case n if n < box.k:
            return t * 3
        case _:
            return t


def in_value_of_match(t: Any) -> Any:
    match 2.0:
        case box.k:
            return t * 3
        case _:
            return t


def in_mapping_of_match(t: Any) -> Any:
    match {"a": box.k}:
        case {"a": value, **rest}:
            return t * value * (1 + len(rest))
    return t


def in_with(t: Any) -> Any:
    with scaled() as one, Manager() as two:
        return t * one * two


def in_swallowed_error(t: Any) -> Any:
    with Manager():
        raise ValueError
    return t * box.k


def in_finally(t: Any) -> Any:
    try:
        t = t + 1
    finally:
        t = t * box.k
    return t


def in_handler(t: Any) -> Any:
    try:
        raise KeyError("a")
    except (ValueError, KeyError) as error:
        return t * box.k * len(error.args)


def in_handler_of_handler(t: Any) -> Any:
    try:
        try:
            raise KeyError
        finally:
            t = t + 1
    except KeyError:
        t = t * box.k
    else:
        t = t * 0
    return t


def in_group(t: Any) -> Any:
    try:
        raise ExceptionGroup("both", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        t = t * len(group.exceptions)
    except* KeyError:
        t = t * box.k
    return t


def in_stars(t: Any) -> Any:
    def inner(*args: Any, by: float, **others: Any) -> Any:
        return args[0] * by * len(others)

    return inner(*[t], **{"by": box.k}, other=1)


def in_names(t: Any) -> Any:
    return (lambda *, by, add=0.0: t * by + add)(add=1.0, by=box.k)


def in_default(t: Any) -> Any:
    def inner(by: float = box.k) -> Any:
        return t * by

    return inner()


def in_class_body(t: Any) -> Any:
    class Inside:
        by = box.k
        all = [box.k for _ in range(2)]  # noqa: RUF012

    return t * Inside.by * Inside.all[1]


def in_lambda_of_lambda(t: Any) -> Any:
    return (lambda: (lambda: (lambda: t * box.k)())())()


def in_chained_comparison(t: Any) -> Any:
    return t * 2 if 0 < k() < 10 else t


def in_slices(t: Any) -> Any:
    return t * sum([1.0, 2.0, box.k][1:3])


def in_while(t: Any) -> Any:
    n = 0
    while n < box.k:
        n += 1
    else:
        t = t + 1
    return t * n


def in_map(t: Any) -> Any:
    return sum(map(lambda i: t * box.k * i, range(3)))  # noqa: C417


def in_sort_key(t: Any) -> Any:
    return t * sorted([1.0, 2.0], key=lambda i: -i * box.k)[0]


def in_nonlocal(t: Any) -> Any:
    n = 0.0

    def inner() -> None:
        nonlocal n
        n += box.k

    inner()
    return t * n


# More names than a byte can count: the reads have prefixed instructions, as have the jumps.
MANY = (
    "def in_many_names(t):\n    return [t * box.k for _ in range(2) if ("
    + " or ".join(f"t.ndim == {i + 1000} and name_{i}" for i in range(300))
    + " or True)][0] * box.last"
)
exec(compile(MANY, "<string>", "exec"))
box.last = 1.0


SYNTAX = [one for name, one in [*globals().items()] if name.startswith("in_")]
SYNTAX += [
    derived.by_super,
    derived.by_long_super,
    derived.by_super_in_lambda,
    derived.by_super_in_comprehension,
]


@pytest.mark.parametrize("f", SYNTAX, ids=lambda f: f.__name__)
def test_a_read_is_guarded(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    guards = passes(f, x())
    monkeypatch.setattr(box, "k", 3.0)
    assert not guards.hold()
    assert "3.0" in str(guards.failed())


def test_super_guards_the_method_that_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    for f in (derived.by_super, derived.by_long_super, derived.by_super_in_comprehension):
        guards = passes(f, x())
        with monkeypatch.context() as patch:
            patch.setattr(Base, "method", lambda self, t: t)
            assert not guards.hold()
        assert guards.hold()
    guards = passes(derived.by_super_attribute, x())
    monkeypatch.setattr(Base, "factor", 3.0)
    assert not guards.hold()


def test_match_guards_the_attributes_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(t: Any) -> Any:
        match point:
            case Point(1.0, b=b):
                return t * b
            case Point(a):
                return t * a
        return t

    for name in ("a", "b"):
        guards = passes(f, x())
        with monkeypatch.context() as patch:
            patch.setattr(point, name, 7.0)
            assert not guards.hold()


def test_match_guards_the_keys_of_a_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(t: Any) -> Any:
        match names:
            case {"k": value}:
                return t * value
        return t

    guards = passes(f, x())
    monkeypatch.setitem(names, "k", 3.0)
    assert not guards.hold()


def test_a_comprehension_guards_what_its_cells_hold() -> None:
    by = 2.0

    def f(t: Any) -> Any:
        return [[t * by * i for i in range(2)] for _ in range(2)][1][1]

    def g(t: Any) -> Any:
        first = by
        return [(lambda: t * by * first) for by in (1.0, 2.0)][1]()

    guards = [passes(f, x()), passes(g, x())]
    by = 3.0
    assert not any(one.hold() for one in guards)


# -- changes ---------------------------------------------------------------------------------------


def change_in_list(t: Any) -> Any:
    return [log.append(1) for _ in range(2)]


def change_in_list_by_a_name(t: Any) -> Any:
    append = log.append
    return [append(i) for i in range(2)]


def change_in_dict(t: Any) -> Any:
    return {i: names.update(k=1.0, j=i) for i in range(2)}


def change_in_generator(t: Any) -> Any:
    def inner() -> Iterator[Any]:
        yield 1
        box.other = 1.0

    return [*inner()]


def change_in_generator_expression(t: Any) -> Any:
    return [*(setattr(box, "other", i) for i in range(3))]


def change_in_walrus(t: Any) -> Any:
    global walrus_target
    return [walrus_target := i for i in range(3)]


walrus_target = -1


def change_in_handler(t: Any) -> Any:
    try:
        raise ValueError
    except ValueError:
        log.extend([1])


def change_in_group(t: Any) -> Any:
    try:
        raise ExceptionGroup("one", [ValueError(1)])
    except* ValueError:
        log[:] = [1, 2, len(log)]


def change_in_finally(t: Any) -> Any:
    try:
        return t
    finally:
        names["other"] = 1.0


def change_in_match(t: Any) -> Any:
    match [1, 2]:
        case [box.other, *_]:
            pass
        case [one, *box_rest]:
            box.other = [one, *box_rest]


def change_in_with(t: Any) -> Any:
    with scaled() as box.other:
        pass


def change_in_for(t: Any) -> Any:
    for box.other in range(3):
        pass


def change_in_format(t: Any) -> Any:
    return f"{log.append(1)!r:>5}"


def change_in_names(t: Any) -> Any:
    return dict(one=1, two=log.append(2))


def change_in_stars(t: Any) -> Any:
    return log.extend(*[[1, 2]], **{})


def change_in_unpacking(t: Any) -> Any:
    first, *box.other = 1, 2, 3
    return first


def change_in_slice(t: Any) -> Any:
    log[0:1] = [3]


def change_in_place(t: Any) -> Any:
    global log
    log += [4]


def change_in_deletion(t: Any) -> Any:
    del names[next(iter(names))]


def change_in_printing(t: Any) -> Any:
    return [print(end="") for _ in range(2)]


CHANGES = [one for name, one in [*globals().items()] if name.startswith("change_in_")]


@pytest.mark.parametrize("f", CHANGES, ids=lambda f: f.__name__)
def test_a_change_is_refused(f: Callable[..., Any]) -> None:
    box.other = None
    log.clear()
    names.clear()
    names["k"] = 1.0
    refused(f, x())


NEW_SYNTAX = """
def generic[T: float](t: T, by: float = 1.0) -> T:
    type Alias = list[T]
    def inner[S](s: S) -> S:
        return s
    return inner(t * box.k * by)

def quoted(t):
    return t * float(f"{box.k:{".2f" if True else ""}}") * len(f'{f"{box.k}"}')

class Generic[T]:
    def __init__(self, by: T) -> None:
        self.by = by
    def method[S](self, t: S) -> S:
        return [t * self.by * box.k for t in (t,)][0]

def generic_class(t):
    return Generic[float](2.0).method(t)

def tagged[T](t: T) -> T:
    return t * T.gain

def changing[T](t: T) -> T:
    [box.__setattr__("other", i) for i in range(2)]
    return t
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_syntax_of_python_3_12(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {"box": box, "__name__": __name__}
    exec(compile(NEW_SYNTAX, "<string>", "exec"), space)
    for name in ("generic", "quoted", "generic_class"):
        guards = passes(space[name], x())
        with monkeypatch.context() as patch:
            patch.setattr(box, "k", 3.0)
            assert not guards.hold(), name
    refused(space["changing"], x())
    parameter = space["tagged"].__type_params__[0]
    parameter.gain = 2.0
    guards = passes(space["tagged"], x())
    assert guards.hold()
    parameter.gain = 3.0
    assert not guards.hold()
