"""One step of a `for` loop by itself: a copy of the code object, which begins at the head.

It is given its variables, and ends where the loop ends, so it may be called again and again. The
copy is looked through before it runs (`_check`): an interpreter believes its code.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from adjoint.compiler._guards import ABSENT

from ._bytecode import Code, ForLoop

__all__ = ["OneStep"]

_STAR_ARGUMENTS = 0x04 | 0x08
_WIDE = 8  # bytes of a jump with the longest argument


class _Box:
    """A constant of code, which has other things in it each time."""

    held: Sequence[Any] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.held)


class OneStep:
    """One step of a loop as a function of the values of variables.

    Parameters
    ----------
    function
        The one that has the loop.
    shared
        What variables hold that functions inside share, by their places.
    outer
        What variables of enclosing functions hold, where it is something else than they say.
    given, wanted
        The variables that it gets, and those whose values it returns.
    """

    def __init__(
        self,
        loop: ForLoop,
        function: FunctionType,
        shared: Mapping[int, Any],
        outer: Mapping[str, Any],
        given: Sequence[str],
        wanted: Sequence[str],
    ) -> None:
        self._cells = [_cell(held) for held in shared.values()]
        self._variables, self._item = _Box(), _Box()
        places = [*shared, *(loop.code.co_varnames.index(name) for name in given)]
        self.code = _copy(loop, places, wanted, self._variables, self._item)
        closure = function.__closure__ or ()
        cells = tuple(
            _cell(outer[name]) if name in outer else cell
            for name, cell in zip(loop.code.co_freevars, closure, strict=True)
        )
        name, table = function.__name__, function.__globals__
        self._function = FunctionType(self.code, table, name, None, cells or None)

    def __call__(self, variables: Iterable[Any], item: Any) -> tuple[Any, ...]:
        self._variables.held, self._item.held = [*self._cells, *variables], [item]
        try:
            found: tuple[Any, ...] = self._function()
        finally:
            self._variables.held = self._item.held = ()
        return found


def _cell(held: Any) -> CellType:
    return CellType() if held is ABSENT else CellType(held)


def _copy(
    loop: ForLoop, places: Sequence[int], wanted: Sequence[str], variables: _Box, item: _Box
) -> CodeType:
    code = loop.code
    at = len(code.co_consts)
    begin = bytearray()
    if code.co_freevars:
        begin += _encode("COPY_FREE_VARS", len(code.co_freevars))
    begin += _encode("RESUME", 0)
    begin += _encode("LOAD_CONST", at) + _encode("UNPACK_SEQUENCE", len(places))
    for place in places:
        begin += _encode("STORE_FAST", place)
    # What lies below the iterator is looked at by nobody, but errors count it.
    for _ in range(loop.depth - 1):
        begin += _encode("LOAD_CONST", at + 2)
    begin += _encode("LOAD_CONST", at + 1) + _encode("GET_ITER") + _jump(loop.head)
    end = bytearray(_encode("POP_TOP") * (loop.depth - 1))
    for name in wanted:
        end += _encode("LOAD_FAST", code.co_varnames.index(name))
    end += _encode("BUILD_TUPLE", len(wanted)) + _encode("RETURN_VALUE")
    middle = bytearray(code.co_code)
    middle += _encode("NOP") * max(0, (loop.after + _WIDE - len(middle)) // 2)
    middle[loop.after : loop.after + _WIDE] = _jump(len(middle) - loop.after - _WIDE)
    added = len(middle) - len(code.co_code)
    copy = code.replace(
        co_code=bytes(begin + middle + end),
        co_consts=(*code.co_consts, variables, item, None),
        co_argcount=0,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~_STAR_ARGUMENTS,
        co_stacksize=code.co_stacksize + len(places) + len(wanted) + loop.depth,
        co_exceptiontable=_exception_table(code, len(begin), loop.depth),
        co_linetable=_no_lines(len(begin)) + code.co_linetable + _no_lines(added + len(end)),
    )
    _check(copy, loop, len(begin), len(begin) + len(middle))
    return copy


def _check(copy: CodeType, loop: ForLoop, begin: int, end: int) -> None:
    """See that nothing but the body can run, and that the stack is what it must be."""
    graph, depths, seen = Code(copy), {0: 0}, set[int]()
    todo = [0]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        op, depth = graph.ops.get(at), depths[at]
        own = at < begin or at >= end or at - begin == loop.head
        own = own or loop.end <= at - begin <= loop.after
        if op is None or not (own or at - begin in loop.body):
            raise ValueError(f"a step of the loop at line {loop.line} runs what is not its own")
        if op.name.startswith("RETURN") and (at < end or depth != 1):
            raise ValueError(f"a step of the loop at line {loop.line} returns elsewhere")
        following = [
            (to, depth + dis.stack_effect(op.code, op.argument, jump=jump))
            for to, jump in graph.following(op)
        ]
        following += [
            (e.target, e.depth + 1 + bool(e.lasti)) for e in graph.handlers if e.start <= at < e.end
        ]
        for to, there in following:
            if not 0 <= there <= copy.co_stacksize or depths.setdefault(to, there) != there:
                raise ValueError(f"a step of the loop at line {loop.line} has another stack")
            todo.append(to)


def _encode(name: str, argument: int = 0) -> bytes:
    found = bytearray()
    for shift in (24, 16, 8):
        if argument >> shift:
            found += bytes((dis.EXTENDED_ARG, argument >> shift & 255))
    return bytes(found) + bytes((dis.opmap[name], argument & 255)) + bytes(2 * _caches(name))


@functools.lru_cache(maxsize=64)
def _caches(name: str) -> int:
    """How many words behind an instruction belong to it."""
    table: Any = dis._inline_cache_entries  # type: ignore[attr-defined]
    if isinstance(table, dict):
        return int(table.get(name, 0))
    return int(table[dis.opmap[name]])


def _jump(distance: int) -> bytes:
    """Jump forward by so many bytes from its end: as long whatever the distance."""
    words, found = distance // 2, bytearray()
    for shift in (24, 16, 8):
        found += bytes((dis.EXTENDED_ARG, words >> shift & 255))
    return bytes(found) + bytes((dis.opmap["JUMP_FORWARD"], words & 255))


def _exception_table(code: CodeType, by: int, depth: int) -> bytes:
    """That of a code object, moved, as far as a loop has it.

    CPython's notes on exception handling have the form.
    """
    found = bytearray()
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    for e in (one for one in entries if one.depth >= depth):
        numbers = (e.start + by, e.end - e.start, e.target + by, 2 * (e.depth << 1 | bool(e.lasti)))
        for k, number in enumerate(numbers):
            rest, parts = number // 2, list[int]()
            while rest or not parts:
                parts.append(rest & 63)
                rest >>= 6
            word = [part | 64 * (j > 0) for j, part in enumerate(parts)][::-1]
            found += bytes((word[0] | 128 * (k == 0), *word[1:]))
    return bytes(found)


def _no_lines(size: int) -> bytes:
    """Entries of the table of lines for code that has none, in the form of CPython's locations."""
    words, found = size // 2, bytearray()
    while words > 0:
        count = min(words, 8)
        found.append(0x80 | 15 << 3 | count - 1)
        words -= count
    return bytes(found)
