"""Programs as text."""

from __future__ import annotations

from typing import Any

__all__ = ["listing", "part"]

_SHOWN = 24  # instructions of a part: the first ones, and the last


def listing(forward: Any, backward: Any) -> str:
    """The instructions of a recording, with the lines they come from."""
    lines = part("forward", forward.code())
    if backward is not None:
        lines += part("backward", backward.code())
    return "\n".join(lines)


def part(name: str, code: list[tuple[Any, ...]]) -> list[str]:
    """The lines of one list of instructions, cut short in the middle if it is long."""
    count = f"{len(code)} instruction" + ("" if len(code) == 1 else "s")
    shown = code if len(code) <= _SHOWN else [*code[: _SHOWN - 4], *code[-4:]]
    rows = [(_instruction(*row[:4]), _line(row[4])) for row in shown]
    width = max((len(text) for text, _ in rows), default=0)
    lines = [f"  {text:<{width}}   {line}".rstrip() for text, line in rows]
    if len(shown) < len(code):
        lines.insert(_SHOWN - 4, f"  ... {len(code) - len(shown)} more")
    return [f"{name}: {count}", *lines]


def _instruction(name: str, in_place: bool, reads: list[int], writes: list[int]) -> str:
    call = f"{name}({_registers(reads)})" + (" in place" if in_place else "")
    return f"{_registers(writes)} = {call}" if writes else call


def _registers(numbers: list[int]) -> str:
    names = [f"%{k}" for k in numbers]
    if len(names) > 6:
        names = [*names[:3], f"... {len(names) - 4} more ...", names[-1]]
    return ", ".join(names)


def _line(where: str) -> str:
    place, _, text = where.partition("   ")
    return f"{place}  {text}"
