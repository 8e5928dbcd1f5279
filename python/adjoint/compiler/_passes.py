"""What each pass makes of a program: `show_passes`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core

from ._compile import Compiled, compile
from ._listing import part

__all__ = ["show_passes"]


def show_passes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Record a call of a function and show the program after each pass.

    The function is called once, as its first compiled call would be; a compiled function keeps the
    programs that it has.

    Parameters
    ----------
    fn : callable
        A function or module, compiled or not.
    *args, **kwargs
        What to call it with.

    Returns
    -------
    str
        The instructions of the forward part as they were recorded and after each pass that changed
        them, then those of the backward part.

    Raises
    ------
    CompileError
        The call cannot be recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> print(ad.compiler.show_passes(lambda x: (x.T + 1) * (x.T + 1), ad.ones(2, 3)))
    forward, as recorded: 5 instructions
      %1 = ...
    forward, after views: 5 instructions
      %1 = alias(%0)...
    forward, after merge: 3 instructions
      ...
    """
    plain = fn.function if isinstance(fn, Compiled) else getattr(fn, "_orig_mod", fn)
    fresh = compile(plain, fullgraph=True)
    before = _core._keep_stages(True)
    try:
        fresh(*args, **kwargs)
    finally:
        _core._keep_stages(before)
    lines: list[str] = []
    for made in fresh.programs:
        for name, program in (("forward", made.program), ("backward", made.backward)):
            if program is not None:
                lines += _stages(name, program.stages())
    return "\n".join(lines)


def _stages(name: str, stages: list[tuple[str, list[Any]]]) -> list[str]:
    (_, code), *rest = stages
    lines = part(f"{name}, as recorded", code)
    for passed, left in rest:
        if left == code:
            continue
        lines += part(f"{name}, after {passed}", left)
        code = left
    return lines
