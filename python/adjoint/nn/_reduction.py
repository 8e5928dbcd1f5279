"""The reductions of losses as numbers, and their old boolean arguments."""

from __future__ import annotations

from adjoint.nn.functional import _legacy_reduction

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction: 0 for "none", 1 for "mean", 2 for "sum"."""
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that two old arguments mean."""
    if emit_warning:
        return _legacy_reduction(
            True if size_average is None else size_average,
            True if reduce is None else reduce,
            "mean",
        )
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of the reduction that two old arguments mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
