"""The depth of the value stack, as it is worked out, is the one that Python runs with."""

from __future__ import annotations

import argparse
import asyncio.tasks
import contextlib
import dataclasses
import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler._depths import depths


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@pytest.mark.parametrize("module", [argparse, asyncio.tasks, contextlib, dataclasses, inspect])
def test_every_function_fits_its_stack(module: ModuleType) -> None:
    with open(str(module.__file__), encoding="utf8") as file:
        source = file.read()
    count = 0
    for code in codes_of(compile(source, str(module.__file__), "exec")):
        found = depths(code)
        assert found[0] in (0, 1)
        assert max(found.values()) <= code.co_stacksize
        count += 1
    assert count > 20


def loops(n: int) -> int:
    total = 0
    for i in range(n):
        if i == 2:
            continue
        while total > 100:
            break
        else:
            total += sum(x * y for x in (1, 2) for y in [i])
    return total


def errors(n: int) -> list[Any]:
    found: list[Any] = []
    for k in range(n):
        try:
            try:
                found.append([1, 2][k])
            except IndexError as error:
                raise ValueError(k) from error
            else:
                found.append("else")
            finally:
                found.append("finally")
        except (KeyError, ValueError) as error:
            found.append((type(error), *error.args))
    return found


def contexts(n: int) -> list[int]:
    with contextlib.suppress(ZeroDivisionError), contextlib.ExitStack() as stack:
        stack.callback(lambda *, k=1: None)
        return [n, n // 0]
    return [n]


def sending(n: int) -> list[Any]:
    def inner() -> Any:
        got = yield 1
        try:
            yield got
        except ValueError:
            yield "caught"
        return "end"

    def outer() -> Any:
        return (yield from inner())

    one = outer()
    return [next(one), one.send(n), one.throw(ValueError), *one]


def matching(n: int) -> Any:
    match {"a": [n, (2, 3)], "b": 1}:
        case {"a": [int(k), (2, *rest)], **more} if k:
            return k, rest, more
        case _:
            return None


def calling(n: int) -> Any:
    def f(*args: Any, k: int = 0, **kwargs: Any) -> Any:
        return args, k, kwargs

    return f(*[n, 2], 3, k=4, z=5), f"{n:>{3}}{n!r}", n if n > 1 else -n, (m := n) and m


def awaiting(n: int) -> Any:
    class Source:
        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> int:
            raise StopAsyncIteration

    async def run() -> Any:
        async def numbers() -> Any:
            for k in range(n):
                yield k

        async with contextlib.AsyncExitStack():
            return [k async for k in numbers()], [k async for k in Source()]

    one = run()
    with pytest.raises(StopIteration) as end:
        one.send(None)
    return end.value.value


FUNCTIONS = [loops, errors, contexts, sending, matching, calling, awaiting]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_python_finds_the_stack_as_deep(f: Callable[[int], Any]) -> None:
    """The core compares the depth with the frame's own, where that is known (Python 3.11)."""
    taken: list[int] = []
    mistakes: list[Any] = []

    def step(frame: FrameType, _: Any) -> None:
        taken.append(frame.f_lasti)

    def describe(code: CodeType) -> list[tuple[Any, ...]] | None:
        if code.co_filename != __file__:
            return None
        deep = depths(code)
        return [
            (one.offset, 0, 0, 0, False, deep[one.offset], step, None)
            for one in dis.get_instructions(code)
            if one.offset in deep
        ]

    expected = f(3)
    outer = sys.gettrace()
    ad._core._watch_start(
        describe, lambda *_: None, lambda _, error: mistakes.append(error), type(None), None
    )
    try:
        found = f(3)
    finally:
        on = ad._core._watch_stop()
        sys.settrace(outer)
    assert on
    assert found == expected
    assert mistakes == []
    assert len(taken) > 20
