"""A tensor as HTML: shape and dtype, its numbers in brief, where it comes from, a heat map."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor

_SIDE = 32  # cells of a heat map along an axis; larger tensors are averaged
_PIXELS = 160
_SMALL = 8  # elements that are just printed
# From the most negative to the most positive value; the middle is zero where signs differ.
_COLOURS = (
    *("#2166ac", "#4393c3", "#92c5de", "#d1e5f0"),
    "#f0f0f0",
    *("#fddbc7", "#f4a582", "#d6604d", "#b2182b"),
)
_NOT_FINITE = "#222222"


def tensor_html(t: Tensor) -> str:
    """The cell that a notebook shows for a tensor."""
    with np.errstate(all="ignore"):  # means of huge numbers
        values = _array(t)
        lines = [f"<b>{escape(_title(t))}</b>", *(escape(line) for line in _facts(t, values))]
        picture = _heat_map(values)
    text = "<br>".join(lines)
    return (
        '<div style="display:flex;gap:1em;align-items:flex-start;font-family:monospace">'
        f"{picture}<div>{text}</div></div>"
    )


def _title(t: Tensor) -> str:
    dtype = str(t.dtype).removeprefix("torch.")
    return f"{type(t).__name__.lower()} {dtype} {list(t.shape)}"


def _facts(t: Tensor, values: Any) -> list[str]:
    facts = []
    if values is None:
        facts.append(repr(t) if t.numel() <= _SMALL else f"{t.numel():,} elements{_stored(t)}")
    elif t.numel() == 0:
        facts.append("empty")
    elif t.numel() <= _SMALL:
        facts.append(str(t.detach().tolist()))
    else:
        facts.append(_numbers(t, values))
    if t.grad_fn is not None:
        facts.append(f"grad_fn: {type(t.grad_fn).__name__}{_made_at(t)}")
    elif t.requires_grad:
        facts.append("leaf, requires_grad" + _gradient(t))
    return facts


def _gradient(t: Tensor) -> str:
    if t.grad is None:
        return "; grad is None"
    norm = float(t.grad.detach().double().norm()) if not t.grad.is_sparse else math.nan
    return f"; norm of grad {norm:.4g}"


def _made_at(t: Tensor) -> str:
    from adjoint.graph._lines import described

    source = _core._node_facts(t.grad_fn)[4] if t.grad_fn is not None else None
    return f", made at {described(source)}" if source is not None else ""


def _stored(t: Tensor) -> str:
    layout = str(t.layout).removeprefix("torch.")
    if not layout.startswith("sparse"):
        return ""
    return f", {t.detach().values().numel() if not t.is_sparse else t._nnz():,} stored, {layout}"


def _array(t: Tensor) -> Any:
    """The numbers as float64, absolute values of complex ones; None if there are none to show.

    Sparse, batched and meta tensors have none.
    """
    try:
        plain = t.detach()
        if plain.is_complex():
            plain = plain.abs()
        return np.asarray(plain.double().numpy(force=True))
    except (RuntimeError, TypeError, NotImplementedError, ValueError):
        return None


def _numbers(t: Tensor, values: Any) -> str:
    is_finite = np.isfinite(values)
    finite = values if is_finite.all() else values[is_finite]
    words = "of absolute values: " if t.is_complex() else ""
    if finite.size:
        parts = (f"{f.__name__} {f(finite):.4g}" for f in _BRIEF)
        words += ", ".join(parts)
    if finite.size < values.size:
        for name, count in (("NaN", np.isnan(values).sum()), ("infinite", np.isinf(values).sum())):
            if count:
                words += f"; {count:,} {name}"
    return words


_BRIEF = (np.min, np.mean, np.max, np.std)


def _heat_map(values: Any) -> str:
    """The last two axes as coloured squares; of more axes the first matrix."""
    if values is None or values.size <= 1:
        return ""
    while values.ndim > 2:
        values = values[0]
    cells = _averaged(np.atleast_2d(values))
    rows, columns = cells.shape
    side = _PIXELS / max(rows, columns)
    paths = [
        f'<path fill="{colour}" d="{places}"/>' for colour, places in _by_colour(cells).items()
    ]
    return (
        f'<svg width="{side * columns:.0f}" height="{max(side * rows, 4):.0f}" '
        f'viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" shape-rendering="crispEdges" '
        f'role="img" aria-label="heat map">{"".join(paths)}</svg>'
    )


def _averaged(values: Any) -> Any:
    """At most so many rows and columns, each the mean of what it stands for."""
    for axis in (0, 1):
        n = values.shape[axis]
        if n > _SIDE:
            starts = np.arange(_SIDE) * n // _SIDE
            counts = np.diff(starts, append=n)
            shape = (-1, 1) if axis == 0 else (1, -1)
            values = np.add.reduceat(values, starts, axis=axis) / counts.reshape(shape)
    return values


def _by_colour(cells: Any) -> dict[str, str]:
    finite = cells[np.isfinite(cells)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if low < 0 < high:  # zero in the middle
        high = max(high, -low)
        low = -high
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = (cells / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)
    places: dict[str, list[str]] = {}
    for (row, column), value in np.ndenumerate(scaled):
        if math.isfinite(value):
            colour = _COLOURS[min(int(value * len(_COLOURS)), len(_COLOURS) - 1)]
        else:
            colour = _NOT_FINITE
        places.setdefault(colour, []).append(f"M{column} {row}h1v1h-1z")
    return {colour: "".join(parts) for colour, parts in places.items()}
