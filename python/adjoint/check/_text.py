"""A report as text: the verdict first, then what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from ._results import DotProduct, Element, InputResult, Part, Sweep, Taylor

if TYPE_CHECKING:
    from ._report import CheckReport

__all__ = ["render", "verdict_line"]

_STYLE = {"right": "green", "wrong": "bold red", "undecided": "yellow", "unused": "dim"}
_WORD = {"right": "right", "wrong": "WRONG", "undecided": "UNDECIDED", "unused": "no influence"}
_ORDER = {1: "first derivative", 2: "second derivative"}


def render(report: CheckReport) -> Text:
    """The whole report."""
    text = verdict_line(report)
    dtype = str(report.dtype).replace("torch.", "")
    inside = report.external_evaluations
    text.append(
        f"\n  {dtype}, relative tolerance {report.tolerance:.2g}, {report.evaluations} evaluations"
        + (f", with derivatives by differences {inside} of externals" if inside else ""),
        "dim",
    )
    for part in report.parts:
        _part(text, part)
    if report.second is None:
        text.append("\n\nsecond derivative  ", "bold")
        text.append(report.second_note, "dim")
    return text


def verdict_line(report: CheckReport) -> Text:
    """The name of the function and the verdict."""
    text = Text()
    text.append(f"{report.name}: ", "bold")
    text.append(_headline(report), _STYLE[report.verdict])
    return text


def _headline(report: CheckReport) -> str:
    wrong = [_ORDER[p.order] for p in report.parts if p.verdict == "wrong"]
    if wrong:
        return f"WRONG {' and '.join(wrong)}"
    if report.verdict == "undecided":
        part = next(p for p in report.parts if p.verdict == "undecided")
        return f"UNDECIDED: the {_ORDER[part.order]} cannot be compared here"
    return "all right" if report.second is not None else "first derivative right"


def _part(text: Text, part: Part) -> None:
    text.append(f"\n\n{_ORDER[part.order]}  ", "bold")
    text.append(_WORD[part.verdict], _STYLE[part.verdict])
    width = max([20, *(len(_title(item)) for item in part.inputs)])
    for item in part.inputs:
        _input(text, item, width)
    if part.dot is not None:
        _dot(text, part.dot)
    elif part.dot_note:
        _line(text, "dot-product test", part.dot_note, "dim")
    if part.taylor is not None:
        _line(text, "Taylor test", _rates(part.taylor), "")
    if part.sweep is not None:
        _line(text, "step sweep", _swept(part.sweep), "")
    for note in part.notes:
        _line(text, "note", note, "")


def _line(text: Text, title: str, words: str, style: str) -> None:
    text.append(f"\n  {title:<18} ")
    text.append(words, style)


def _title(item: InputResult) -> str:
    return f"{item.name} {list(item.shape)}"


def _input(text: Text, item: InputResult, width: int) -> None:
    text.append(f"\n  {_title(item):<{width}}  ")
    text.append(_WORD[item.status], _STYLE[item.status])
    if item.status == "right":
        text.append(f": agrees to {_small(max(item.relative, item.doubt))} of the derivative")
    elif item.status == "undecided":
        text.append(f": differences are uncertain by {_small(item.doubt)} of the derivative")
    elif item.status == "unused":
        text.append(": it gets no gradient (None), and the outputs do not change with it")
    elif item.status == "wrong":
        _wrong(text, item)


def _wrong(text: Text, item: InputResult) -> None:
    elements = [e for e in item.worst if e.kind == "wrong"]
    text.append(f": off by {_small(item.relative)} of the derivative along a random direction")
    if elements:
        count = f"{item.wrong} of {item.looked_at}" if item.looked_at else f"at least {item.wrong}"
        noun = "elements" if item.looked_at != 1 or not item.looked_at else "element"
        text.append(f"\n    {count} {noun}; the worst:")
    _elements(text, elements[:5], "derivative")
    if item.cause:
        text.append(f"\n    likely cause: {item.cause}", "italic")


def _elements(text: Text, elements: list[Element], word: str) -> None:
    if not elements:
        return
    place = max(len(e.place) for e in elements)
    text.append(f"\n      {'':<{place}}  {word:>14}  {'differences':>14}  {'error':>8}", "dim")
    for e in elements:
        text.append(
            f"\n      {e.place:<{place}}  {e.derivative:>14.8g}  {e.differences:>14.8g}  "
            f"{_small(e.relative):>8}  (of {e.output})"
        )


def _dot(text: Text, dot: DotProduct) -> None:
    word = {"right": "right", "wrong": "WRONG", "approximate": "right"}[dot.status]
    text.append(f"\n  {dot.title:<18} ")
    text.append(word, _STYLE["wrong" if dot.status == "wrong" else "right"])
    if dot.forward != dot.forward and dot.note:  # there is no number to show
        text.append(f": {dot.note}")
        return
    names = ("u·Hv", "v·Hu") if dot.title.startswith("Hessian") else ("forward", "backward")
    text.append(
        f": {names[0]} {dot.forward:.10g}, {names[1]} {dot.reverse:.10g}, "
        f"{_small(dot.relative)} apart"
    )
    if dot.note:
        text.append(f"; {dot.note}")
    _elements(text, dot.worst, "jvp")


def _rates(taylor: Taylor) -> str:
    words = []
    for order, (rate, expected, right) in enumerate(
        zip(taylor.rates, taylor.expected, taylor.right, strict=True)
    ):
        shown = "exact" if rate is None else f"rate {rate:.2f} (should be {expected})"
        words.append(f"order {order}: {shown}{'' if right else ' <- too low'}")
    return ", ".join(words)


def _swept(sweep: Sweep) -> str:
    if sweep.step != sweep.step:
        return "the function is finite on neither side of the inputs"
    return (
        f"central differences are best at t = {sweep.step:.1e}: error {_small(sweep.error)}, "
        f"known to {_small(sweep.doubt)}"
    )


def _small(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"
