"""`for` loops in bytecode: where they are, and what their bodies read and write.

Read next: _step_code.py, for one step by itself.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections import Counter
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

__all__ = ["Code", "ForLoop", "Site", "loops_around"]

_ENDS = ("RETURN", "RAISE", "RERAISE", "INTERPRETER_EXIT")
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
# What leaves the variables of the frame, or its thread of control.
_REFUSED = frozenset(
    (
        *("STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL"),
        *("STORE_NAME", "DELETE_NAME", "MAKE_CELL", "YIELD_VALUE"),
        *("SEND", "GET_AWAITABLE", "RETURN_GENERATOR", "IMPORT_STAR"),
        *("CALL_INTRINSIC_2", "LOAD_LOCALS"),
    )
)
# How much deeper than their argument says the stack is touched.
_DEEP = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2, "LIST_EXTEND": 1, "SWAP": 0, "COPY": 0}
_DEEP |= {"SET_UPDATE": 1, "DICT_UPDATE": 1, "DICT_MERGE": 1}
# Functions that read the variables of the frame that calls them.
_FRAME_READERS = frozenset(("locals", "vars", "dir", "eval", "exec", "super"))
_GENERATOR = 0x20 | 0x80 | 0x100 | 0x200  # and coroutines


class Site(NamedTuple):
    """Where a body takes or writes a row by the item: ``name[i + shift]``, ``name[:, i] = x``.

    Attributes
    ----------
    name, item : str
        The variables that have the tensor, and the item.
    axis, shift : int
        By which axis, and how far from the item.
    repeats : bool
        Whether one step may come there several times.
    writes : bool
        Whether it writes the row.
    """

    name: str
    item: str
    axis: int
    shift: int
    repeats: bool
    writes: bool


class ForLoop(NamedTuple):
    """One loop of a code object.

    Attributes
    ----------
    line : int
        Where it begins in the source.
    head : int
        Where the code asks for the next item.
    end, after : int
        Where the code goes when there is none, and where it goes on once the iterator is gone.
    body : frozenset of int
        The instructions of the body.
    depth : int
        What lies on the stack at the head, the iterator included.
    target : str or tuple
        The variable that items become, or several for parts of them; None if it is something else.
    used, once : frozenset of str
        Those that the body reads, other than to take rows; those that it reads once at most.
    live : frozenset of str
        Variables that the body gives values to, and reads before that.
    read : frozenset of str
        Variables that it only reads.
    appended : frozenset of str
        Variables of which nothing is read but the method ``append``.
    sites : tuple of Site
        Where it takes rows by the item, or writes them.
    """

    code: CodeType
    line: int
    head: int
    end: int
    after: int
    body: frozenset[int]
    depth: int
    target: Any
    used: frozenset[str]
    once: frozenset[str]
    live: frozenset[str]
    read: frozenset[str]
    appended: frozenset[str]
    sites: tuple[Site, ...]


class Op(NamedTuple):
    """One instruction, with those that extend its argument."""

    name: str
    code: int
    argument: int | None
    value: Any
    start: int
    end: int
    target: int | None  # of a jump

    def accesses(self) -> Iterator[tuple[str, bool]]:
        """The variables of the frame, in order, and whether they are written."""
        if "_FAST" not in self.name:
            return
        names = self.value if isinstance(self.value, tuple) else (self.value,)
        kinds = [part for part in self.name.split("_") if part in ("LOAD", "STORE", "DELETE")]
        if self.name == "LOAD_FAST_AND_CLEAR" or kinds[:1] == ["DELETE"]:
            yield from ((name, writes) for name in names for writes in (False, True))
        else:
            yield from zip(names, (kind == "STORE" for kind in kinds), strict=True)

    def is_item_of(self) -> bool:
        return self.name == "BINARY_SUBSCR" or (self.name, self.argument) == ("BINARY_OP", 26)


def _ops(code: CodeType) -> list[Op]:
    found = [op for op in dis.get_instructions(code) if op.opname != "CACHE"]
    ends = [op.offset for op in found[1:]] + [len(code.co_code)]
    result, start = [], None
    for op, end in zip(found, ends, strict=True):
        start = op.offset if start is None else start
        if op.opname == "EXTENDED_ARG":
            continue
        jumps = op.opcode in dis.hasjrel or op.opcode in dis.hasjabs
        target = op.argval if jumps else None
        argument = op.arg if op.opcode >= dis.HAVE_ARGUMENT else None
        result.append(Op(op.opname, op.opcode, argument, op.argval, start, end, target))
        start = None
    return result


class Code:
    """A code object as a graph of its instructions."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.ops = {op.start: op for op in _ops(code)}
        self.handlers: list[Any] = list(dis._parse_exception_table(code))  # type: ignore[attr-defined]
        self._depths: dict[int, int] = {}

    def following(self, op: Op) -> list[tuple[int, bool]]:
        """Where it goes on, and whether by a jump."""
        found = []
        if op.target is not None:
            found.append((op.target, True))
        if op.name not in _ALWAYS and not op.name.startswith(_ENDS):
            found.append((op.end, False))
        return found

    def caught(self, op: Op, depth: int) -> list[int]:
        """Where it goes on after an error, if that is caught inside a loop."""
        inside = [e for e in self.handlers if e.depth >= depth]
        return [e.target for e in inside if e.start <= op.start < e.end]

    def depths(self) -> dict[int, int]:
        """How much lies on the stack before each instruction that can be reached."""
        if not self._depths:
            todo = [(0, 0)]
            todo += [(e.target, e.depth + 1 + bool(e.lasti)) for e in self.handlers]
            while todo:
                at, depth = todo.pop()
                if at in self._depths or at not in self.ops:
                    continue
                self._depths[at] = depth
                op = self.ops[at]
                for to, jump in self.following(op):
                    todo.append((to, depth + dis.stack_effect(op.code, op.argument, jump=jump)))
        return self._depths

    def body(self, head: int, after: int, depth: int | None) -> dict[int, Op] | None:
        """The instructions of a loop; None if it is left otherwise than by its end, or an error.

        With the depth of the stack at its head, those that handle errors are among them.
        """
        found: dict[int, Op] = {}
        todo = [self.ops[head].end]
        while todo:
            at = todo.pop()
            if at == head or at in found:
                continue
            op = self.ops.get(at)
            if op is None or op.name.startswith(("RETURN", "YIELD")):
                return None
            if depth is None and not head < at < after:
                return None
            found[at] = op
            todo += [to for to, _ in self.following(op)]
            if depth is not None:
                todo += self.caught(op, depth)
        return dict(sorted(found.items()))


@functools.lru_cache(maxsize=256)
def _loops(code: CodeType) -> tuple[tuple[int, int, ForLoop | None], ...]:
    """By loop: where its body begins and ends, and what it is, if it can be a step by itself."""
    if code.co_flags & _GENERATOR:
        return ()
    graph = Code(code)
    heads = [op for op in graph.ops.values() if op.name == "FOR_ITER"]
    return tuple((op.start, op.target or 0, _loop(graph, op)) for op in heads)


def loops_around(code: CodeType, at: int) -> list[ForLoop]:
    """The loops that an instruction is in the body of, the innermost first.

    Parameters
    ----------
    at : int
        The offset of the instruction.
    """
    around = [(end - start, loop) for start, end, loop in _loops(code) if start < at < end]
    return [loop for _, loop in sorted(around, key=lambda one: one[0]) if loop is not None]


def _loop(graph: Code, head: Op) -> ForLoop | None:
    after = _after(graph, head)
    depths = graph.depths()
    if head.start not in depths or graph.body(head.start, after, None) is None:
        return None
    depth = depths[head.start]
    body = graph.body(head.start, after, depth)
    if body is None:
        return None
    if any(not _is_inside(op, depths, depth) for op in body.values()):
        return None
    accesses = [access for op in body.values() for access in op.accesses()]
    stored = {name for name, writes in accesses if writes}
    read = {name for name, writes in accesses if not writes}
    target = _target(graph, graph.ops[head.end])
    sites, used, once = _uses_of_items(graph, body, head.start, {*_names_in(target)})
    return ForLoop(
        code=graph.code,
        line=_line_of(graph.code, head.start),
        head=head.start,
        end=head.target or after,
        after=after,
        body=frozenset(body),
        depth=depth,
        target=target,
        used=used,
        once=once,
        live=frozenset(_live(graph, body, head.end, depth) & stored),
        read=frozenset(read - stored),
        appended=frozenset(name for name in read - stored if _is_only_appended(graph, body, name)),
        sites=sites,
    )


def _line_of(code: CodeType, at: int) -> int:
    lines = [line for start, end, line in code.co_lines() if start <= at < end]
    return (lines[0] if lines else None) or code.co_firstlineno


def _after(graph: Code, head: Op) -> int:
    """Where the code goes on after a loop, its iterator gone from the stack."""
    at = head.target
    assert at is not None
    if sys.version_info >= (3, 12):
        for name in ("END_FOR", "POP_TOP", "POP_ITER"):
            if at in graph.ops and graph.ops[at].name == name:
                at = graph.ops[at].end
    return at


def _is_inside(op: Op, depths: dict[int, int], depth: int) -> bool:
    """Whether it does nothing to what lies below the iterator, or to what frames share."""
    if op.name in _REFUSED or op.name.startswith("LOAD_SUPER") or op.start not in depths:
        return False
    if op.name in ("LOAD_GLOBAL", "LOAD_NAME") and op.value in _FRAME_READERS:
        return False
    touched = (op.argument or 0) + _DEEP[op.name] if op.name in _DEEP else 0
    return depths[op.start] - touched >= depth


def _target(graph: Code, op: Op) -> Any:
    """The variables that items become; None if it is something else."""
    names: list[str] = []  # that instructions store at once

    def taken(op: Op) -> tuple[Any, Op]:
        if op.name == "UNPACK_SEQUENCE":
            found, count = [], op.argument or 0
            op = graph.ops[op.end]
            for _ in range(count):
                one, op = taken(op)
                found.append(one)
            return tuple(found), op
        if not names:
            names.extend(name for name, writes in op.accesses() if writes)
            if not op.name.startswith("STORE_FAST"):
                raise _No
        name = names.pop(0)
        return name, op if names else graph.ops[op.end]

    try:
        target, _ = taken(op)
    except _No:
        return None
    return None if names else target


def _names_in(target: Any) -> Iterator[str]:
    if isinstance(target, str):
        yield target
    for part in target if isinstance(target, tuple) else ():
        yield from _names_in(part)


def _live(graph: Code, body: dict[int, Op], start: int, depth: int) -> set[str]:
    """Variables that the body may read as they were before it."""
    before: dict[int, frozenset[str]] = dict.fromkeys(body, frozenset())
    changed = True
    while changed:
        changed = False
        for at, op in reversed(body.items()):
            to = [*(one for one, _ in graph.following(op)), *graph.caught(op, depth)]
            live = set[str]().union(*(before[one] for one in to if one in before))
            for name, writes in reversed([*op.accesses()]):
                live.discard(name) if writes else live.add(name)
            if live != before[at]:
                before[at], changed = frozenset(live), True
    return set(before.get(start, ()))


def _calls_a_method(op: Op) -> bool:
    """Whether what it looks up is called, and nothing else."""
    return op.name == "LOAD_METHOD" or (
        op.name == "LOAD_ATTR" and sys.version_info >= (3, 12) and bool((op.argument or 0) & 1)
    )


def _is_only_appended(graph: Code, body: dict[int, Op], name: str) -> bool:
    for op in body.values():
        names = [one for one, _ in op.accesses()]
        if name in names:
            then = graph.ops.get(op.end)
            if then is None or then.value != "append" or not _calls_a_method(then):
                return False
            if names[-1] != name or names.count(name) != 1:
                return False
    return True


# -- rows by the item ------------------------------------------------------------------------------


class _Item(NamedTuple):
    """The item and a number, in a key."""

    shift: int


class _No(Exception):
    """Instructions are no site."""


_LONGEST = 16  # instructions of a site


def _uses_of_items(
    graph: Code, body: dict[int, Op], head: int, items: set[str]
) -> tuple[tuple[Site, ...], frozenset[str], frozenset[str]]:
    """Where a body takes rows by items; which it reads in other ways, and which once at most."""
    jumps = [op for op in body.values() if op.target is not None]
    joins = {op.target for op in jumps} | {e.target for e in graph.handlers}
    back = [(op.target, op.start) for op in jumps if op.target is not None and op.target > head]
    reads, several, taken = Counter[str](), set[str](), Counter[str]()
    sites: list[Site] = []
    for op in body.values():
        names, repeats = _reads(op), any(to <= op.start <= start for to, start in back)
        reads.update(names)
        several.update(name for name in names if reads[name] > 1 or repeats)
        for k, item in ((k, item) for k in range(len(names)) for item in items):
            try:
                axis, shift, on = _key_from(graph, op, names[k + 1 :], item, joins)
            except _No:
                continue
            sites.append(Site(names[k], item, axis, shift, repeats, on))
            taken.update((names[k], item))
    # What rows are taken of is read in no other way, and not written; items only at the head.
    writes = Counter(name for op in body.values() for name, on in op.accesses() if on)
    other = {name for name in items if writes[name] > 1 or name in graph.code.co_cellvars}
    good = [
        site
        for site in sites
        if reads[site.name] == taken[site.name] and not writes[site.name] and site.item not in other
    ]
    by_rows = Counter(site.item for site in good)
    used = {name for name in items if reads[name] > by_rows[name]} | other
    return tuple(good), frozenset(used), frozenset(items - several - other)


def _reads(op: Op) -> list[str]:
    """Variables whose values it puts on the stack, or anything else that is not a write."""
    if "DEREF" in op.name or op.name in ("LOAD_CLOSURE", "LOAD_CLASSDEREF"):
        return [op.value]
    return [name for name, writes in op.accesses() if not writes]


def _key_from(
    graph: Code, first: Op, more: list[str], target: str, joins: set[int | None]
) -> tuple[int, int, bool]:
    """Axis and shift of a key that is made by what follows a variable, and whether for a write."""
    if first.name != "LOAD_DEREF" and not first.name.startswith(("LOAD_FAST", "STORE_FAST_LOAD")):
        raise _No
    if any(name != target for name in more):
        raise _No
    stack: list[Any] = [_Item(0) for _ in more]
    op = first
    for _ in range(_LONGEST):
        following = graph.ops.get(op.end)
        if following is None or following.start in joins:
            raise _No
        op = following
        if op.is_item_of() or op.name == "STORE_SUBSCR":
            if len(stack) != 1:
                raise _No
            return *_place_in(stack[0]), op.name == "STORE_SUBSCR"
        _run(op, stack, target)
    raise _No


def _run(op: Op, stack: list[Any], target: str) -> None:
    """What an instruction does to a key that is being made."""
    count = op.argument or 0
    if op.name in ("LOAD_CONST", "LOAD_SMALL_INT"):
        stack.append(op.value)
    elif op.name.startswith("LOAD_FAST") and _reads(op) == [target]:
        stack.append(_Item(0))
    elif op.name in ("BUILD_SLICE", "BUILD_TUPLE") and len(stack) >= count:
        parts = stack[-count:] if count else []
        del stack[len(stack) - count :]
        if op.name == "BUILD_SLICE" and any(part is not None for part in parts):
            raise _No
        stack.append(slice(None) if op.name == "BUILD_SLICE" else tuple(parts))
    elif op.name == "BINARY_OP" and count in _PLUS_MINUS and len(stack) >= 2:
        right, left = stack.pop(), stack.pop()
        if type(left) is not _Item or type(right) is not int:
            raise _No
        stack.append(_Item(left.shift + _PLUS_MINUS[count] * right))
    else:
        raise _No


_PLUS_MINUS = {0: 1, 10: -1}


def _place_in(key: Any) -> tuple[int, int]:
    """Axis and shift of the one item in a key that has nothing else in it but full slices."""
    parts = key if type(key) is tuple else (key,)
    items = [k for k, part in enumerate(parts) if type(part) is _Item]
    if len(items) != 1 or any(
        part != slice(None) for k, part in enumerate(parts) if k not in items
    ):
        raise _No
    return items[0], parts[items[0]].shift
