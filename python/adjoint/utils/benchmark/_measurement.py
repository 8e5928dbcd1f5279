"""The times of one statement, and what can be said about them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
# Below this share of the median the quartiles are taken to be noise; above it there is a warning.
_WARN = 0.1
_UNUSABLE = 0.25
_MIN_SIGNIFICANT, _MAX_SIGNIFICANT = 2, 4


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What was measured; enough to tell one row of a table from another."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{_indented(self.stmt)}"

    def setup_str(self) -> str:
        """The preparation, as it is shown."""
        if self.setup in ("", "pass") or not self.setup:
            return ""
        if "\n" in self.setup:
            return f"setup:\n{_indented(self.setup)}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and preparation."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(part for part in parts if part)


@dataclass(init=True, repr=False)
class Measurement:
    """Times of a statement.

    Parameters
    ----------
    number_per_run
        How often the statement ran for each time.
    raw_times
        Seconds for so many runs.
    task_spec
        What ran.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        """Seconds of one run, for each time that was taken."""
        return [t / self.number_per_run for t in self.raw_times]

    def _sorted(self) -> list[float]:
        if not self.raw_times:
            raise AssertionError("there are no times")
        return sorted(self.times)

    @property
    def median(self) -> float:
        """The middle of the times."""
        return _quantile(self._sorted(), 0.5)

    @property
    def mean(self) -> float:
        """Their mean."""
        return math.fsum(self._sorted()) / len(self.raw_times)

    @property
    def iqr(self) -> float:
        """How far the quartiles are from one another."""
        times = self._sorted()
        return _quantile(times, 0.75) - _quantile(times, 0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something, from the spread of the times."""
        count = len(self._sorted())
        # Of a normal variable the median varies by 1.25 σ/√n, and the quartiles lie 1.35 σ apart.
        spread = self.iqr / 1.35 * 1.25 / math.sqrt(count)
        half_interval = 1.645 * spread
        if half_interval <= 0:
            return _MAX_SIGNIFICANT
        digits = math.ceil(math.log10(self.median / (2 * half_interval)))
        return min(max(digits, _MIN_SIGNIFICANT), _MAX_SIGNIFICANT)

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary too much to be trusted."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _WARN) -> bool:
        """Whether the quartiles are close to the median."""
        return self.iqr / self.median < threshold

    # -- what it is called ---------------------------------------------------------------------
    @property
    def title(self) -> str:
        """The title of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """The environment, as the user named it."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """What a table calls the row."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count = len(self.raw_times)
        shown = [f"<adjoint.utils.benchmark.Measurement object at {hex(id(self))}>"]
        shown.append(self.task_spec.summarize())
        if count > 1:
            shown.append(f"  Median: {self.median / scale:.2f} {unit}")
        else:
            shown.append(f"  {self.median / scale:.2f} {unit}")
        if count > 3:
            low, high = (_quantile(self._sorted(), q) / scale for q in (0.25, 0.75))
            shown.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = self.task_spec.num_threads
        several = count > 1
        shown.append(
            f"  {count} measurement{'s' if several else ''}, {self.number_per_run} runs "
            f"{'per measurement' if several else ''}, {threads} thread{'s' if threads > 1 else ''}"
        )
        if count > 1 and not self.meets_confidence(_WARN):
            sure = self.meets_confidence(_UNUSABLE)
            shown.append(
                f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the "
                f"median measurement.\n           This "
                f"{'could indicate system fluctuation' if sure else 'suggests significant environmental influence'}."  # noqa: E501
            )
        return "\n".join(shown)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Put together the times of equal tasks."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [
            Measurement(1, [t for m in group for t in m.times], spec)
            for spec, group in groups.items()
        ]


def select_unit(t: float) -> tuple[str, float]:
    """The unit that suits a time, and its seconds: ``("us", 1e-6)``."""
    for unit, scale in reversed(_UNITS.items()):
        if t >= scale:
            return unit, scale
    return "ns", 1e-9


def unit_to_english(u: str) -> str:
    """The unit as a word."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` with so many digits."""
    if x == 0:
        return 0.0
    scale = 10 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, as they first come."""
    return list(dict.fromkeys(elements))


def _quantile(ordered: list[float], q: float) -> float:
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())
