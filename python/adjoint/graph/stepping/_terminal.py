"""Steps as text, and the prompt that steps from a terminal; by rich."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from adjoint.graph._lines import Source, described, neighbours, size

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from adjoint.graph._view import GraphNode

    from ._numbers import Numbers
    from ._record import Step
    from ._stepper import Stepper

_WAITING = 6  # nodes listed at most
_WIDTH = 200  # of text that is not for a terminal
_LINE = 72  # characters of a line of the program


def plain(step: Step) -> str:
    """A step as text."""
    return _text(_step_table(step), f"step {step.number}")


def plain_stepper(stepper: Stepper) -> str:
    """Where a pass is, as text."""
    return _text(*_view(stepper))


def _text(*parts: Any) -> str:
    from rich.console import Console

    console = Console(
        file=io.StringIO(),
        width=_WIDTH,
        color_system=None,
        legacy_windows=False,
        force_jupyter=False,  # which would write into the cell, and nothing into the file
    )
    for part in parts[::-1] if isinstance(parts[-1], str) else parts:
        console.print(part, highlight=False, markup=False, soft_wrap=False)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines)


def _view(stepper: Stepper) -> Iterator[RenderableType]:
    from rich.text import Text

    total, ran = len(stepper.graph), len(stepper.history)
    head = f"backward pass of {stepper.graph._title.removeprefix('graph of ')}: "
    head += f"{ran:,} of {total:,} nodes have run"
    if stepper.position < ran:
        head += f", step {stepper.position} is in view"
    yield Text(head, style="bold")
    if stepper.current is not None:
        yield _step_table(stepper.current)
    if stepper.position == ran:
        yield from _waiting(stepper)


def _step_table(step: Step) -> Any:
    table = _grid()
    node = step.node
    table.add_row("ran", f"{node.title} {list(node.shape)}", _where(node))
    for name, grads in (("got", step.arrived), ("after hooks", step.used)):
        if name == "got" or step.changed_by_hooks:
            for grad in grads:
                table.add_row(name, _described(grad), "")
    for sent in step.sent:
        verb = "added to" if sent.added else "to"
        table.add_row("sent", _described(sent.gradient), f"{verb} {sent.node.title}")
    if step.after is not None:
        table.add_row(".grad was", _described(step.before), node.label)
        table.add_row(".grad is", _described(step.after), node.label)
    if step.freed:
        table.add_row("freed", size(step.freed), "")
    for reason in step.breaks:
        table.add_row("stopped", reason, "")
    return table


def _waiting(stepper: Stepper) -> Iterator[RenderableType]:
    from ._numbers import numbers

    waiting = stepper.waiting
    if not waiting:
        return
    table = _grid()
    for i, (node, sums) in enumerate(waiting[:_WAITING]):
        grads = ", ".join(_described(numbers(g)) for g in sums)
        table.add_row("next" if i == 0 else "waiting", f"{node.title}  {grads}", _where(node))
    if len(waiting) > _WAITING:
        table.add_row("", f"and {len(waiting) - _WAITING} more", "")
    yield table


def _grid() -> Any:
    from rich.table import Table
    from rich.text import Text

    class Grid(Table):
        """Its cells are text, and no markup: ``[nan, 1]`` would be taken for a style."""

        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*map(Text, cells), **options)

    table = Grid.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="cyan", min_width=30)
    table.add_column(style="green", no_wrap=True)
    return table


def _where(node: GraphNode) -> str:
    text = "" if node.is_leaf else described(node.source)
    return text if len(text) <= _LINE else f"{text[: _LINE - 1]}…"


def _described(grad: Numbers | None) -> str:
    return "nothing" if grad is None else str(grad)


# --- the prompt ----------------------------------------------------------------------------------
_HELP = """\
n [count]     next node                b [count]    back, through what has run
r             run to the end or a break
l LINE        run to a line            o OP         run to an op
nan, zero     break there              norm NUMBER  break above this norm
w             the nodes that wait      s            the lines around
q             leave; the pass stays where it is"""


def interact(stepper: Stepper, console: Console | None = None) -> None:
    """Read commands until ``q``, or until the input ends."""
    from rich.console import Console

    screen = Console() if console is None else console
    _show(stepper, screen)
    while True:
        try:
            words = screen.input("[bold]step>[/] ").split()
        except (EOFError, KeyboardInterrupt):
            return
        if words[:1] == ["q"]:
            return
        over = stepper.done
        try:
            shown = _obey(stepper, words or ["n"], screen)
        except (ValueError, TypeError) as error:
            if stepper.done and not over:  # a hook's, which has ended the pass
                raise
            screen.print(str(error), style="red", markup=False)
            continue
        if shown:
            _show(stepper, screen)


def _obey(stepper: Stepper, words: list[str], screen: Console) -> bool:
    """Do what a line says; whether the place is to be shown."""
    command, rest = words[0], words[1:]
    argument = " ".join(rest)
    if command in ("n", "b"):
        (stepper.next if command == "n" else stepper.back)(int(argument or 1))
    elif command == "r":
        stepper.run()
    elif command == "l" and rest:
        stepper.run_to(line=int(argument) if argument.isdigit() else argument)
    elif command == "o" and rest:
        stepper.run_to(op=argument)
    elif command == "nan":
        stepper.break_on(nan=True)
    elif command == "zero":
        stepper.break_on(zero=True)
    elif command == "norm" and rest:
        stepper.break_on(norm=float(argument))
    elif command == "s":
        _show_source(stepper, screen)
        return False
    elif command != "w":
        screen.print(_HELP, markup=False, highlight=False)
        return False
    return True


def _show(stepper: Stepper, screen: Console) -> None:
    for part in _view(stepper):
        screen.print(part)


def _show_source(stepper: Stepper, screen: Console) -> None:
    node = stepper.current.node if stepper.current else stepper.upcoming
    source: Source | None = None if node is None else node.source
    for number, text in neighbours(source):
        mark = "→" if source and number == source[1] else " "
        screen.print(f"{mark} {number:5}  {text}", markup=False, highlight=False)
