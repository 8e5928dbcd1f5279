"""Which instructions of a code object the watch has to look at, and their places in the source.

`steps(code)` lists them for the core, which takes a step before each (src/bindings/watch.cpp):
it calls a method of `Steps` or `Calls`, unless that is needless. Everything else (arithmetic,
jumps, local variables) runs unseen. Read next: `_watch`.
"""

from __future__ import annotations

import dis
import linecache
import os
from types import CodeType
from typing import Any, NamedTuple

from adjoint.compiler._depths import depths

__all__ = ["Step", "place_of", "steps", "text_of"]

# The order of `Kind` in src/bindings/watch.cpp: what the core knows to be needless, and when.
_KINDS = (
    "other",
    "attribute_read",
    "attribute_stored",
    "global_read",
    "cell_read",
    "item_read",
    "item_stored",
    "changed_in_place",
    "iterated",
    "called",
    "resulted",
)
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}

_BY_NAME = {
    "LOAD_GLOBAL": "global_read",
    "LOAD_NAME": "name_read",
    "LOAD_FROM_DICT_OR_GLOBALS": "name_read",
    "STORE_NAME": "name_stored",
    "DELETE_NAME": "name_stored",
    "STORE_GLOBAL": "global_stored",
    "DELETE_GLOBAL": "global_stored",
    "LOAD_ATTR": "attribute_read",
    "LOAD_METHOD": "attribute_read",
    "LOAD_SUPER_ATTR": "super_read",
    "IMPORT_FROM": "attribute_read",
    "STORE_ATTR": "attribute_stored",
    "DELETE_ATTR": "attribute_deleted",
}
_BY_CELL = {
    "LOAD_DEREF": "cell_read",
    "LOAD_CLASSDEREF": "cell_read",
    "LOAD_FROM_DICT_OR_DEREF": "cell_read",
    "STORE_DEREF": "cell_stored",
    "DELETE_DEREF": "cell_stored",
}
_BY_STACK = {
    "BINARY_SUBSCR": "item_read",
    "BINARY_SLICE": "slice_read",
    "STORE_SUBSCR": "item_stored",
    "DELETE_SUBSCR": "item_stored",
    "STORE_SLICE": "slice_stored",
    "MATCH_CLASS": "class_matched",
    "LIST_EXTEND": "iterated",
    "SET_UPDATE": "iterated",
    "UNPACK_SEQUENCE": "iterated",
    "UNPACK_EX": "iterated",
    "CONTAINS_OP": "iterated",
    "GET_ITER": "iterated",
    "GET_YIELD_FROM_ITER": "iterated",
    "CALL_FUNCTION_EX": "called_with_stars",
}
_FIRST_INPLACE = 13  # BINARY_OP with this argument is +=, the ones after it the other x=
# What may leave a container on the stack that was there before, or that is new.
_RESULTS = frozenset(
    (
        "CALL",
        "CALL_KW",
        "CALL_FUNCTION_EX",
        "BUILD_LIST",
        "BUILD_MAP",
        "BUILD_SET",
        "BUILD_CONST_KEY_MAP",
        "MAKE_FUNCTION",
        "BINARY_OP",
        "BINARY_SUBSCR",
        "BINARY_SLICE",
    )
)


class Step(NamedTuple):
    """One instruction that the core looks at."""

    offset: int
    kind: int
    number: int  # of a variable, or of arguments
    above: int  # operands that stand above the arguments
    always: bool  # whether the core must not leave it out
    depth: int  # of the stack
    method: str
    argument: Any


def steps(code: CodeType, own: bool) -> list[Step]:
    """The instructions to look at; globals count unless the code is adjoint's own."""
    found: list[Step] = []
    start: int | None = None  # of the prefixes that lengthen an argument: the event is theirs
    names: tuple[str, ...] = ()  # of the arguments of the next call
    resulted = False
    depth = depths(code)
    for one in dis.get_instructions(code):
        if one.offset not in depth:
            resulted = False
            continue  # never reached
        if one.opname == "EXTENDED_ARG":
            start = one.offset if start is None else start
            continue
        if one.opname == "KW_NAMES":
            names = code.co_consts[one.arg or 0]
        new = [_step(one, "resulted", 0, None)] if resulted else []
        new += [step for step in _steps(one, code, names) if not (own and _is_global(step))]
        if one.opname == "CALL":
            names = ()
        resulted = one.opname in _RESULTS
        new = [step._replace(depth=depth[one.offset]) for step in new]
        found += new
        if start is not None:
            found += [step._replace(offset=start) for step in new]
        start = None
    return found


def _is_global(step: Step) -> bool:
    return step.method == "global_read"


def _step(one: dis.Instruction, method: str, number: int, argument: Any) -> Step:
    return Step(one.offset, _NUMBER.get(method, 0), number, 0, False, 0, method, argument)


def _steps(one: dis.Instruction, code: CodeType, names: tuple[str, ...]) -> list[Step]:
    name, number = one.opname, one.arg or 0
    if name in _BY_NAME:
        return [_step(one, _BY_NAME[name], 0, one.argval)]
    if name in _BY_CELL:
        free = one.argval in code.co_freevars  # cells of its own are made by the frame
        return [_step(one, _BY_CELL[name], number, number)] if free else []
    if name in _BY_STACK:
        return [_step(one, _BY_STACK[name], number, number)]
    if name in ("CALL", "CALL_KW"):
        above = int(name == "CALL_KW")  # the names of arguments stand there
        step = _step(one, "called", number, (number, above, names))
        return [step._replace(above=above, always="out" in names or bool(above))]
    if name == "BINARY_OP" and number >= _FIRST_INPLACE:
        return [_step(one, "changed_in_place", 0, None)]
    return []


def place_of(code: CodeType, offset: int) -> str:
    """``model.py:12 in forward``."""
    line = next(
        (
            line
            for start, end, line in code.co_lines()
            if start <= offset < end and line is not None
        ),
        code.co_firstlineno,
    )
    return f"{os.path.basename(code.co_filename)}:{line} in {code.co_name}"


def text_of(code: CodeType, offset: int) -> str:
    """The expression that an instruction belongs to, as the program has it; empty if not known."""
    positions = [*code.co_positions()]
    line, last, start, end = positions[offset // 2]
    if line is None or last != line or start is None or end is None:
        return ""
    source = linecache.getline(code.co_filename, line).encode()
    text = source[start:end].decode(errors="replace").strip()
    return text if 0 < len(text) <= 80 else ""
