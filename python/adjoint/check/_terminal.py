"""The two plots of a report, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.plot import log_log_plot

from ._results import Part

if TYPE_CHECKING:
    from ._report import CheckReport

__all__ = ["plots"]


def plots(report: CheckReport, width: int) -> str:
    """The Taylor test and the sweep over steps of every order, one below the other."""
    return "\n\n".join(text for part in report.parts for text in _part(part, width))


def _part(part: Part, width: int) -> list[str]:
    order = {1: "first", 2: "second"}[part.order]
    found = []
    if part.taylor is not None and part.taylor.steps:
        taylor = part.taylor
        curves = {str(k): r for k, r in enumerate(taylor.remainders)}
        names = ", ".join(
            f"{k}: {'exact' if rate is None else f'like t^{rate:.2f}'}"
            for k, rate in enumerate(taylor.rates)
        )
        found.append(
            f"Taylor test of the {order} derivative: remainder after order k against the step t\n"
            f"({names})\n{log_log_plot(taylor.steps, curves, width)}"
        )
    if part.sweep is not None and part.sweep.steps:
        sweep = part.sweep
        mark = sweep.step if sweep.step == sweep.step else None
        found.append(
            f"Step sweep of the {order} derivative: relative error of central differences\n"
            f"(┊ the best step, {sweep.step:.1e})\n"
            f"{log_log_plot(sweep.steps, {'e': sweep.errors}, width, mark=mark)}"
        )
    return found
