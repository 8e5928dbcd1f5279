"""How deep the value stack of a frame is before each of its instructions.

CPython fixes that when it compiles a function, but keeps the result to itself. Here it is worked
out again from what each instruction pushes and pops; the core needs it to find the operands of an
instruction in memory (src/bindings/frames.h). Read next: `_instructions`.
"""

from __future__ import annotations

import dis
import inspect
from types import CodeType

__all__ = ["depths"]

_NO_NEXT = frozenset(
    (
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "INTERPRETER_EXIT",
    )
)
_SUSPENDING = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def depths(code: CodeType) -> dict[int, int]:
    """The depth of the stack before each instruction that can be reached, by offset.

    Raises
    ------
    ValueError
        The instructions do not fit together.
    """
    body = dis.Bytecode(code)
    instructions = [*body]
    index = {one.offset: k for k, one in enumerate(instructions)}
    found: dict[int, int] = {}
    # A generator finds on its stack what was sent to it.
    stack = [(0, int(bool(code.co_flags & _SUSPENDING) and not _pushes_what_is_sent()))]
    stack += [
        (index[entry.target], entry.depth + int(entry.lasti) + 1)
        for entry in body.exception_entries  # type: ignore[attr-defined]
    ]
    while stack:
        k, depth = stack.pop()
        while k < len(instructions):
            one = instructions[k]
            known = found.get(one.offset)
            if known == depth:
                break
            if known is not None or depth < 0:
                raise ValueError(f"{code.co_name}: no one depth at {one.offset} ({one.opname})")
            found[one.offset] = depth
            if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
                stack.append((index[one.argval], depth + _effect(one, True)))
            if one.opname in _NO_NEXT:
                break
            depth += _effect(one, False)
            k += 1
    return found


def _effect(one: dis.Instruction, jump: bool) -> int:
    """What an instruction adds to the stack."""
    if one.opname == "PRECALL":
        return 0
    if one.opname == "CALL" and "PRECALL" in dis.opmap:  # which is said to take the arguments
        return -(one.arg or 0) - 1
    argument = one.arg if one.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(one.opcode, argument, jump=jump)


def _pushes_what_is_sent() -> bool:
    """Whether the instruction that makes a generator counts what is sent to it."""
    return dis.stack_effect(dis.opmap["RETURN_GENERATOR"]) == 1
