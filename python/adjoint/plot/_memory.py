"""Live bytes over the time of a call and its backward pass, with the lines that hold most."""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ._figure import blank, png, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = 8  # that are named
_MEGABYTE = 1e6


class Moment(NamedTuple):
    """Bytes in use at a time; the line that changed them (``file(line): function``)."""

    seconds: float
    bytes: int
    line: str
    backward: bool


class MemoryTimeline:
    """Bytes in use while a function ran; drawn where a notebook shows it.

    Attributes
    ----------
    moments : list of Moment
        Before and after each operation.
    peak : Moment
        When most was in use.
    """

    def __init__(self, moments: list[Moment]) -> None:
        self.moments = moments
        self.peak = max(moments, key=lambda moment: moment.bytes)

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Bytes held at the peak by the line whose operations allocated them, most first.

        What is given back is taken for the newest allocation of that size.
        """
        held: list[tuple[str, int]] = []
        for before, after in pairwise(self.moments):
            _follow(held, after.line, after.bytes - before.bytes)
            if after is self.peak:
                break
        lines: Counter[str] = Counter()
        for line, count in held:
            lines[line] += count
        return lines.most_common(_LINES)

    def figure(self) -> Figure:
        """The bytes in use over time, forward and backward apart, and the lines below."""
        figure = blank(1100, 640)
        curve, table = figure.subplots(2, 1, height_ratios=(3, 1.4))
        self._draw(curve)
        table.set_axis_off()
        rows = [f"{count / _MEGABYTE:10.2f} MB   {_with_text(line)}" for line, count in self.lines]
        words = "held at the peak, by the line that allocated it\n\n" + "\n".join(rows)
        table.text(0, 1, words, va="top", family="monospace", fontsize=9, parse_math=False)
        return figure

    def _draw(self, axes: Axes) -> None:
        times = [1e3 * moment.seconds for moment in self.moments]
        in_use = [moment.bytes / _MEGABYTE for moment in self.moments]
        axes.fill_between(times, in_use, step="post", color="#2062b4", alpha=0.25, linewidth=0)
        axes.step(times, in_use, where="post", color="#2062b4", linewidth=1.4)
        turn = next((i for i, moment in enumerate(self.moments) if moment.backward), None)
        if turn is not None:
            axes.axvspan(times[turn], times[-1], color="#cd4830", alpha=0.08, label="backward")
            axes.legend(loc="upper left")
        axes.set_title(f"bytes in use: {self.peak.bytes / _MEGABYTE:.2f} MB at the peak")
        place = (1e3 * self.peak.seconds, self.peak.bytes / _MEGABYTE)
        axes.plot(*place, "o", color="#cd4830")
        axes.set_xlabel("milliseconds")
        axes.set_ylabel("MB")
        axes.set_ylim(bottom=0, top=1.1 * place[1] or 1)
        axes.grid(color="0.9")
        axes.set_axisbelow(True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: a PNG, or what the name ends in (.svg, .pdf)."""
        write(self.figure(), path)

    def _repr_png_(self) -> bytes:
        return png(self.figure())


def _follow(held: list[tuple[str, int]], line: str, change: int) -> None:
    """Add an allocation to what is held, or take away what was given back."""
    if change > 0:
        held.append((line, change))
        return
    left = -change
    same = next((i for i in reversed(range(len(held))) if held[i][1] == left), None)
    if same is not None:
        del held[same]
        return
    while left > 0 and held:  # several at once
        line, count = held.pop()
        if count > left:
            held.append((line, count - left))
        left -= count


def memory(
    f: Callable[..., Any], *args: Any, backward: bool = True, **kwargs: Any
) -> MemoryTimeline:
    """Bytes in use, operation by operation, while ``f(*args)`` and its backward pass run.

    Parameters
    ----------
    f, *args, **kwargs
        What is called.
    backward : bool
        Run a backward pass from the result, if it has a history: from the sum of a result with
        several elements. Gradients go into ``.grad`` of the leaves, as always.

    Returns
    -------
    MemoryTimeline
        ``moments``, the ``peak`` and the ``lines`` that hold most there; ``figure()`` and
        ``save(path)`` draw them. Bytes are counted from what was in use before the call.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(1000, requires_grad=True)
    >>> seen = ad.plot.memory(lambda x: (x.exp() * x).sum(), x)
    >>> seen.peak.bytes > 8000, seen.moments[0].bytes
    (True, 0)
    """
    from adjoint._core import Tensor
    from adjoint.profiler import profile

    with profile(profile_memory=True) as seen:
        result = f(*args, **kwargs)
        if backward and isinstance(result, Tensor) and result.requires_grad:
            (result if result.numel() == 1 else result.sum()).backward()
        del result
    events = [event for event in seen.events() if not event.is_user_annotation]
    if not events:
        raise ValueError("the function ran no operation of adjoint's: there is nothing to plot")
    return MemoryTimeline(_moments(events))


def _moments(events: list[Any]) -> list[Moment]:
    first = events[0].live_bytes
    marks = []
    for event in events:
        line = event.stack[0] if event.stack else ""
        reverse = event.scope == 1
        marks.append(Moment(event.time_range.start / 1e6, event.live_bytes - first, "", reverse))
        after = event.live_bytes + event.cpu_memory_usage - first
        if not event.cpu_children:  # what is inside has its own line, and its own end
            marks.append(Moment(event.time_range.end / 1e6, after, line, reverse))
    return sorted(marks, key=lambda moment: moment.seconds)


def _with_text(line: str) -> str:
    """A place of a profile as the name of the file, the line, and the text of that line."""
    found = re.match(r"(.*)\((\d+)\)", line)
    if found is None:
        return line
    file, number = found[1], int(found[2])
    text = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}:{number}  {text}"[:110]
