"""Which instructions of a code object the watch has to look at, and their places in the source.

`steps(code)` is a table from the offset of an instruction to the name of the watch's method for it
and that method's argument. Everything else (arithmetic, jumps, local variables) runs unseen. Read
next: `_watch`.
"""

from __future__ import annotations

import dis
import linecache
import os
from types import CodeType

__all__ = ["place_of", "steps", "text_of"]

Step = tuple[str, object]  # the name of a method of `Steps` or `Calls`, and its argument

_BY_NAME = {
    "LOAD_GLOBAL": "global_read",
    "LOAD_NAME": "name_read",
    "STORE_NAME": "name_stored",
    "DELETE_NAME": "name_stored",
    "STORE_GLOBAL": "global_stored",
    "DELETE_GLOBAL": "global_stored",
    "LOAD_ATTR": "attribute_read",
    "LOAD_METHOD": "attribute_read",
    "IMPORT_FROM": "attribute_read",
    "STORE_ATTR": "attribute_stored",
    "DELETE_ATTR": "attribute_deleted",
}
_BY_CELL = {
    "LOAD_DEREF": "cell_read",
    "LOAD_CLASSDEREF": "cell_read",
    "STORE_DEREF": "cell_stored",
    "DELETE_DEREF": "cell_stored",
}
_BY_STACK = {
    "BINARY_SUBSCR": "item_read",
    "STORE_SUBSCR": "item_stored",
    "DELETE_SUBSCR": "item_stored",
    "GET_ITER": "iterated",
    "GET_YIELD_FROM_ITER": "iterated",
    "CALL": "called",
    "CALL_FUNCTION_EX": "called_with_stars",
}
_MAKING = frozenset(
    (
        "CALL",
        "CALL_FUNCTION_EX",
        "BUILD_LIST",
        "BUILD_MAP",
        "BUILD_SET",
        "BUILD_CONST_KEY_MAP",
        "MAKE_FUNCTION",
        "BINARY_OP",
        "BINARY_SUBSCR",
    )
)
_RESULTED: Step = ("resulted", None)
_FIRST_INPLACE = 13  # BINARY_OP with this argument is +=, the ones after it the other x=


def steps(code: CodeType, own: bool) -> dict[int, list[Step]]:
    """The instructions to look at, by offset; globals count unless the code is adjoint's own."""
    found: dict[int, list[Step]] = {}
    returned = False  # whether the instruction before left a container on the stack, perhaps
    start: int | None = None  # of the prefixes that lengthen an argument: the event is theirs
    names: tuple[str, ...] = ()  # of the arguments of the next call
    for one in dis.get_instructions(code):
        if one.opname == "EXTENDED_ARG":
            start = one.offset if start is None else start
            continue
        if one.opname == "KW_NAMES":
            names = code.co_consts[one.arg or 0]
        at_offset = [_RESULTED] if returned else []
        returned = one.opname in _MAKING
        step = _step(one, code)
        if step is not None and one.opname == "CALL":
            step = step[0], (one.arg, names)
            names = ()
        if step is not None and not (own and step[0] == "global_read"):
            at_offset.append(step)
        if at_offset:
            found[one.offset] = at_offset
            if start is not None:
                found[start] = at_offset
        start = None
    return found


def _step(one: dis.Instruction, code: CodeType) -> Step | None:
    name = one.opname
    if name in _BY_NAME:
        return _BY_NAME[name], one.argval
    if name in _BY_CELL:
        free = one.argval in code.co_freevars  # cells of its own are made by the frame
        return (_BY_CELL[name], one.arg) if free else None
    if name in _BY_STACK:
        return _BY_STACK[name], one.arg
    if name == "BINARY_OP" and one.arg is not None and one.arg >= _FIRST_INPLACE:
        return "changed_in_place", None
    return None


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
