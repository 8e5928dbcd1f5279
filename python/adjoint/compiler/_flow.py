"""Which instruction may run after which: how the core knows that it was told of all of them.

In Python 3.13 it is a code object that has events of its instructions, not a thread: where
another thread runs the same code, and is not watched, they end for all. So each instruction that is
seen must be one that can follow the last one of its frame, and a frame must end at the last one
(src/bindings/watch.cpp); otherwise some ran unseen. Read next: `_watch`.
"""

from __future__ import annotations

import dis
from types import CodeType

__all__ = ["Flow", "flow"]

Flow = tuple[int, int, int, int, bool, bool]


def flow(code: CodeType) -> list[Flow]:
    """What may follow each instruction.

    Returns
    -------
    list of tuple
        For each its offset, that of the instruction it belongs to (prefixes that lengthen an
        argument belong to the next one), that of the next one, that of the one it jumps to, both
        -1 where there is none, whether it can follow any other, and whether it raises what another
        one has raised.
    """
    body = dis.Bytecode(code)
    units: list[tuple[dis.Instruction, list[int]]] = []  # each with its prefixes
    offsets: list[int] = []
    for one in body:
        offsets.append(one.offset)
        if one.opname != "EXTENDED_ARG":
            units.append((one, offsets))
            offsets = []
    owner = {offset: one.offset for one, offsets in units for offset in offsets}
    handlers = {owner[entry.target] for entry in body.exception_entries}  # type: ignore[attr-defined]
    jumping = {*dis.hasjrel, *dis.hasjabs}
    found: list[Flow] = []
    for k, (one, offsets) in enumerate(units):
        following = units[k + 1][0].offset if k + 1 < len(units) else -1
        jump = owner[one.argval] if one.opcode in jumping else -1
        rest = (one.offset, following, jump, one.offset in handlers, one.opname == "RERAISE")
        found += [(offset, *rest) for offset in offsets]
    return found
