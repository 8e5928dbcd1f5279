"""The variables of a frame that runs, and the iterators of its loops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CellType, FrameType
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.compiler._guards import ABSENT

from ._bytecode import loops_around

__all__ = ["change", "name_at", "shared", "swap", "understood", "value_of", "variables"]


def _names(frame: FrameType) -> tuple[str, ...]:
    code = frame.f_code
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return (*code.co_varnames, *cells, *code.co_freevars)


def variables(frame: FrameType) -> dict[str, Any]:
    """What they are; `ABSENT` where there is nothing, cells where functions inside share them."""
    return dict(zip(_names(frame), _core._frame_variables(frame, ABSENT), strict=True))


def shared(frame: FrameType) -> dict[int, Any]:
    """What those hold that functions inside share, by their places."""
    code, found = frame.f_code, _core._frame_variables(frame, ABSENT)
    own = len(found) - len(code.co_freevars)
    return {
        k: content(held)
        for k, (name, held) in enumerate(zip(_names(frame), found[:own], strict=False))
        if name in code.co_cellvars and isinstance(held, CellType)
    }


def name_at(frame: FrameType, place: int) -> str:
    return _names(frame)[place]


def value_of(frame: FrameType, name: str) -> Any:
    """What a variable holds, its own or one of an enclosing function."""
    held = variables(frame)[name]
    code = frame.f_code
    return content(held) if name in (*code.co_cellvars, *code.co_freevars) else held


def content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def change(
    frame: FrameType,
    values: dict[str, Any],
    lists: list[tuple[list[Any], Any]],
    tensors: list[tuple[Tensor, Tensor]],
) -> None:
    """Give variables other values, lists more of them, and let tensors become what others are.

    That is all at once, as if the code had done it: no signal is handled in between.
    """
    places = {frame.f_code.co_varnames.index(name): value for name, value in values.items()}
    _core._change_frame(frame, places, lists, tensors)


def swap(frame: FrameType, depth: int, kinds: tuple[type, ...], make: Callable[[Any], Any]) -> None:
    """Put ``make(iterator)`` in place of one of these kinds that nobody else has.

    It stays where that is None.
    """
    _core._swap_on_stack(frame, depth, kinds, make)


# -- whether this interpreter is understood --------------------------------------------------------


def _try_out(items: Any) -> list[Any]:
    """A loop on which `understood` tries what is done to those of others."""
    first = second = 1
    found = []
    for outer in (1,):
        for item in items:
            found.append((outer, item, first, second))
            if item == 1:
                found.append(_swap_here(sys._getframe()))
    return [*found, first, second]


def _swap_here(frame: FrameType) -> Any:
    (loop, *_) = loops_around(frame.f_code, frame.f_lasti)
    seen: list[Any] = []

    def made(items: Any) -> Any:
        seen.append(list(items))
        return iter((7,))

    swap(frame, loop.depth, (type(iter(range(0))),), made)
    change(frame, {"second": 5}, [], [])
    return seen


_known: list[bool] = []


def understood() -> bool:
    """Whether the layout of frames is the one that is expected."""
    if not _known:
        expected = [(1, 0, 1, 1), (1, 1, 1, 1), [[2, 3]], (1, 7, 1, 5), 1, 5]
        _known.append(hasattr(_core, "_swap_on_stack") and _try_out(range(4)) == expected)
    return _known[0]
