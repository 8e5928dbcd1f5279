"""What prints well by itself, as HTML: text, rich tables, programs, graphs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from adjoint.compiler._recorded import Recorded
    from adjoint.graph import Graph

_IN_A_CELL = 2000  # nodes of a graph whose page is kept in the notebook, some 100 kB
_PRE = '<pre style="line-height:1.25;white-space:pre;overflow-x:auto;background:none">{}</pre>'


def text_html(text: str) -> str:
    """Text, in its columns."""
    return _PRE.format(escape(text))


def rich_html(renderable: RenderableType, width: int = 110) -> str:
    """What rich draws in a terminal, with its colours."""
    import io

    from rich.console import Console

    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, force_jupyter=False
    )
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format=_PRE.format("{code}"))


def compiled_html(compiled: Any) -> str:
    """The programs of a compiled function, a listing for each, which opens."""
    programs = compiled.programs
    name = getattr(compiled.function, "__qualname__", type(compiled.function).__qualname__)
    count = f"{len(programs)} program" + ("" if len(programs) == 1 else "s")
    parts = [f"<div><code>{escape(name)}</code>, compiled: {count}</div>"]
    parts += [text_html(message) for message in compiled.reasons]
    return "".join(parts) + programs_html(programs)


def programs_html(programs: Sequence[Recorded]) -> str:
    """A listing of each, which opens."""
    if not programs:
        return text_html("[]")
    return "".join(program_html(program, f"{n}: ") for n, program in enumerate(programs, 1))


def program_html(program: Recorded, number: str = "") -> str:
    """The instructions of each pass, which open."""
    lines = str(program).split("\n")
    title = escape(number + "; ".join(line for line in lines if not line.startswith(" ")))
    return f"<details><summary>{title}</summary>{text_html(str(program))}</details>"


def graph_html(graph: Graph) -> str:
    """The tree of a graph below its title, and the page of it, which opens, if it is not large."""
    title, _, tree = str(graph).partition("\n")
    html = f"<details open><summary>{escape(title)}</summary>{text_html(tree)}</details>"
    if len(graph) > _IN_A_CELL:
        return html
    from adjoint.graph._page import text

    page = escape(text(graph), quote=True)
    frame = f'<iframe srcdoc="{page}" style="width:100%;height:480px;border:0"></iframe>'
    return f"{html}<details><summary>as a page</summary>{frame}</details>"
