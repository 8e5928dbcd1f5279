"""What a code object can ask for: the names in its bytecode, read off once, before it runs.

Read next: `_walk`, which follows these names through the program around.
"""

from __future__ import annotations

import dis
import functools
import linecache
import os
import string
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

__all__ = ["Chain", "Names", "code_of", "line_of", "names_of", "place_of", "words"]


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Built-in functions that ask for an attribute; of one name if that is a constant.
ASKING = frozenset(("getattr", "hasattr", "setattr", "delattr"))
# What asks for attributes by names that are computed.
COMPUTED = words(
    "__dict__ attrgetter methodcaller __getattribute__ format format_map vars eval exec "
    "__getstate__ __reduce__ __reduce_ex__ __dir__"
)
_GLOBALS = words("LOAD_GLOBAL LOAD_NAME STORE_GLOBAL DELETE_GLOBAL LOAD_FROM_DICT_OR_GLOBALS")
_ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_METHODS_ARE_FLAGGED = sys.version_info >= (3, 12)
_LONGEST = 200  # of a text that may be a name


class Chain(NamedTuple):
    """``a.b.c`` of a global `a`."""

    name: str
    attributes: tuple[str, ...]
    called: bool  # the last one is called at once, and nothing else happens to it


class Names(NamedTuple):
    """What a code object can ask for."""

    attributes: frozenset[str]  # texts among its constants included
    chains: tuple[Chain, ...]
    imports: tuple[str, ...]
    computed: bool  # it asks for attributes by names that are not in the code
    plain_globals: bool  # of `globals()` it asks for names that are in the code, if at all


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> Names:
    """The names in a code object."""
    ops = _instructions(code)
    chains: dict[Chain, None] = {}  # in order: the same one is refused each time
    attributes: set[str] = set()
    computed, plain_globals = False, True
    for k, op in enumerate(ops):
        if op.opname in _GLOBALS:
            chain = _chain(ops, k)
            chains[chain] = None
            if chain.name == "globals":
                asked = _asked_of_globals(ops, k)
                chains[Chain(asked or chain.name, (), False)] = None
                plain_globals &= asked is not None
            if chain.name in ASKING:
                computed |= not (chain.called and _asks_for_constant(ops, k))
            computed |= chain.name in COMPUTED
        elif op.opname == "MATCH_CLASS":
            computed |= bool(op.arg)  # by position: the class says which attributes
        elif _is_attribute(op) and not (op.argval == "format" and _is_plain_format(ops[k - 1])):
            attributes.add(op.argval)
    attributes.update(_texts(code.co_consts))
    computed |= not attributes.isdisjoint(COMPUTED)
    imports = tuple(op.argval for op in ops if op.opname == "IMPORT_NAME")
    return Names(frozenset(attributes), tuple(chains), imports, computed, plain_globals)


def _is_attribute(op: dis.Instruction) -> bool:
    asks = op.opname.endswith(("_ATTR", "_METHOD", "IMPORT_FROM"))
    return asks and isinstance(op.argval, str)


def _instructions(code: CodeType) -> list[dis.Instruction]:
    skipped = ("CACHE", "NOP", "EXTENDED_ARG")
    return [op for op in dis.get_instructions(code) if op.opname not in skipped]


def _chain(ops: list[dis.Instruction], k: int) -> Chain:
    op = ops[k]
    end = k + 1
    while end < len(ops) and ops[end].opname in _ATTRIBUTES:
        end += 1
    last = ops[end - 1]
    # The lowest bit of these says that a call follows.
    flagged = last.opname == "LOAD_GLOBAL" or (last.opname == "LOAD_ATTR" and _METHODS_ARE_FLAGGED)
    called = last.opname == "LOAD_METHOD" or (flagged and bool((last.arg or 0) & 1))
    return Chain(op.argval, tuple(one.argval for one in ops[k + 1 : end]), called)


def _texts(constants: Iterable[Any]) -> Iterable[str]:
    """Identifiers among constants: ``getattr(x, "a")``, ``attrgetter("a.b")``, ``("a", "b")``."""
    for one in constants:
        if isinstance(one, str):
            if len(one) < _LONGEST:
                yield from (part for part in one.split(".") if part.isidentifier())
        elif isinstance(one, tuple | frozenset):
            yield from _texts(one)


def _asks_for_constant(ops: list[dis.Instruction], k: int) -> bool:
    """Whether the call of the function that `ops[k]` loads has a text for its second argument."""
    stack: list[dis.Instruction] = []  # who has put what stands there
    for op in ops[k + 1 :]:
        if op.opname in ("PRECALL", "CALL") and len(stack) == op.arg:
            return len(stack) > 1 and _is_text(stack[1])
        if op.opcode in dis.hasjrel or op.opcode in dis.hasjabs:
            return False
        effect = dis.stack_effect(op.opcode, op.arg if op.opcode >= dis.HAVE_ARGUMENT else None)
        if effect > 0:
            stack += [op] * effect
        else:
            del stack[len(stack) + effect :]
            if stack:
                stack[-1] = op
    return False


def _asked_of_globals(ops: list[dis.Instruction], k: int) -> str | None:
    """The name in ``globals()["a"]``, ``globals().get("a")`` or ``"a" in globals()``."""
    after = [op for op in ops[k + 1 : k + 6] if op.opname not in ("PRECALL", "PUSH_NULL")]
    if len(after) < 3 or after[0].opname != "CALL" or after[0].arg:
        return None
    first, second = after[1:3]
    if first.opname == "CONTAINS_OP" and _is_text(ops[k - 1]):
        return str(ops[k - 1].argval)
    if _is_text(first) and second.opname in ("BINARY_SUBSCR", "BINARY_OP"):
        return str(first.argval)
    if first.opname in _ATTRIBUTES and first.argval == "get" and _is_text(second):
        return str(second.argval)
    return None


def _is_plain_format(op: dis.Instruction) -> bool:
    """Whether this loads a text that ``format`` can fill without asking for attributes."""
    try:
        fields = [*string.Formatter().parse(op.argval)] if _is_text(op) else None
    except ValueError:
        return False
    return fields is not None and all(
        not {".", "["} & {*(name or ""), *(spec or "" if "{" in (spec or "") else "")}
        for _, name, spec, _ in fields
    )


def _is_text(op: dis.Instruction) -> bool:
    return op.opname == "LOAD_CONST" and isinstance(op.argval, str)


# -- lines, for people -----------------------------------------------------------------------------


def line_of(code: CodeType, names: Iterable[str]) -> int | None:
    """The line of a code object that stores one of some names, or else loads it."""
    wanted = frozenset(names)
    found: list[tuple[bool, int]] = []
    line = code.co_firstlineno
    for op in dis.get_instructions(code):
        line = _line(op) or line
        if op.argval.__class__ is str and op.argval in wanted:
            found.append((not op.opname.startswith(("STORE", "DELETE")), line))
    return min(found)[1] if found else None


def _line(op: dis.Instruction) -> int | None:
    positions = op.positions
    return None if positions is None else positions.lineno


def code_of(function: Any) -> CodeType | None:
    """The code that a call of something starts with, as far as one can tell."""
    for _ in range(10):
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType):
            return code
        inner = getattr(function, "func", None) or getattr(function, "__func__", None)
        function = inner or getattr(type(function), "forward", None) or type(function).__call__
    return None


def place_of(code: CodeType, line: int | None) -> str:
    """``model.py:12   y = x * self.scale``."""
    at = code.co_firstlineno if line is None else line
    text = linecache.getline(code.co_filename, at).strip()
    return f"{os.path.basename(code.co_filename)}:{at}   {text}".rstrip()
