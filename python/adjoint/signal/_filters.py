"""Digital filters: ``lfilter``, ``sosfilt``, and both of them forward and backward.

A recursive filter is a triangular system with as many diagonals as coefficients, so its output is a
solution of a banded system (src/ops/linalg/band.cpp): native, and differentiable by the
coefficients and the signal alike.
"""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched, must_hold

from ._convolution import as_float

__all__ = ["filtfilt", "lfilter", "lfilter_zi", "sosfilt", "sosfilt_zi", "sosfiltfilt"]


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter a signal along an axis; differentiable by coefficients, signal and initial state.

    Parameters
    ----------
    b, a
        The numerator and the denominator of the transfer function; ``a[0]`` is not zero.
    x
        The signal; other axes are more signals.
    zi
        The state at the start, as SciPy has it; the result is ``(y, zf)`` then.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.signal.lfilter([1.0], [1.0, -0.5], ad.tensor([1.0, 0.0, 0.0, 0.0], dtype=ad.float64))
    tensor([1.0000, 0.5000, 0.2500, 0.1250], dtype=torch.float64)
    """
    b, a, x = as_float(b, "lfilter"), as_float(a, "lfilter"), as_float(x, "lfilter")
    if b.ndim != 1 or a.ndim != 1 or not b.numel() or not a.numel():
        raise ValueError(
            f"lfilter(): coefficients are vectors, got shapes {list(b.shape)} and {list(a.shape)}"
        )
    if x.ndim == 0:
        raise ValueError("lfilter(): x must have at least one axis")
    must_hold(a.detach()[0] != 0, _no_scale)
    dtype = ad.promote_types(ad.promote_types(b.dtype, a.dtype), x.dtype)
    b, a, x = b.to(dtype), a.to(dtype), x.to(dtype)
    b, a = b / a[0], a / a[0]
    rows = x.movedim(axis, 0)
    rest, n = rows.shape[1:], rows.shape[0]
    signals = rows.reshape(n, math.prod(rest))
    order = max(b.numel(), a.numel()) - 1
    driven = _delayed(b, signals)
    state = None
    if zi is not None:
        state = _state(zi, order, rows.shape, axis, x, dtype)
        driven = driven + _resized(state, n)
    y = driven
    if a.numel() > 1 and n:
        diagonals = a.unsqueeze(1).expand(a.numel(), n)
        y = _core._band_solve(diagonals, driven, a.numel() - 1, 0)
    made = y.reshape(n, *rest).movedim(0, axis)
    if state is None:
        return made
    left = _carried(b, signals, order) - _carried(a, y, order) + _resized(state[n:], order)
    return made, left.reshape(order, *rest).movedim(0, axis)


def _delayed(b: Tensor, signals: Tensor) -> Tensor:
    """The sum of ``b[k]`` times the signals k samples ago."""
    n = signals.shape[0]
    made = b[0] * signals
    for k in range(1, min(b.numel(), n)):
        made = made + ad.cat([signals.new_zeros(k, signals.shape[1]), b[k] * signals[: n - k]])
    return made


def _carried(c: Tensor, signals: Tensor, order: int) -> Tensor:
    """What the last samples add to the next ones: row m has the sum of c[k] x[n + m - k], k > m."""
    n, columns = signals.shape
    rows = []
    for m in range(order):
        total = signals.new_zeros(columns)
        for k in range(m + 1, c.numel()):
            if 0 <= n + m - k < n:
                total = total + c[k] * signals[n + m - k]
        rows.append(total)
    return ad.stack(rows) if rows else signals.new_zeros(0, columns)


def _resized(state: Tensor, n: int) -> Tensor:
    """The state as so many rows: cut, or followed by zeros."""
    if state.shape[0] >= n:
        return state[:n]
    return ad.cat([state, state.new_zeros(n - state.shape[0], state.shape[1])])


def _state(zi: Any, order: int, shape: Any, axis: int, x: Tensor, dtype: Any) -> Tensor:
    zi = as_float(zi, "lfilter").to(dtype)
    if zi.ndim == 1 and x.ndim > 1:
        zi = zi.reshape(order, *[1] * (x.ndim - 1)) if zi.numel() == order else zi
    elif zi.ndim == x.ndim:
        zi = zi.movedim(axis, 0)
    if zi.ndim != x.ndim or zi.shape[0] != order:
        raise ValueError(
            f"lfilter(): the state of {order} delays of a signal of shape {list(x.shape)} has "
            f"{order} elements along axis {axis}, got the shape {list(zi.shape)}"
        )
    rows: Tensor = zi.expand(order, *shape[1:]).reshape(order, math.prod(shape[1:]))
    return rows


def _no_scale(holds: Tensor) -> Exception:
    return ValueError("lfilter(): a[0], by which all coefficients are divided, is zero")


def lfilter_zi(b: Any, a: Any) -> Tensor:
    """The state at which a constant signal of one has a constant output."""
    b, a = as_float(b, "lfilter_zi"), as_float(a, "lfilter_zi")
    n = max(b.numel(), a.numel())
    b, a = (_padded(t / a[0], n) for t in (b, a))
    if n == 1:
        return ad.zeros(0, dtype=b.dtype)
    moved = ad.cat([ad.eye(n - 2, dtype=a.dtype), a.new_zeros(1, n - 2)]) if n > 2 else None
    first = -a[1:].unsqueeze(1)
    companion = first if moved is None else ad.cat([first, moved], 1)
    right = b[1:] - a[1:] * b[0]
    found: Tensor = ad.linalg.solve(ad.eye(n - 1, dtype=a.dtype) - companion, right)
    return found


def _padded(t: Tensor, n: int) -> Tensor:
    return ad.cat([t, t.new_zeros(n - t.numel())])


def filtfilt(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
) -> Tensor:
    """Filter forward, then backward: no phase is left. SciPy's arguments, its method ``"pad"``."""
    b, a, x = as_float(b, "filtfilt"), as_float(a, "filtfilt"), as_float(x, "filtfilt")
    n = 3 * max(a.numel(), b.numel()) if padlen is None else padlen
    rows = x.movedim(axis, -1)
    extended = _extended(rows, 0 if padtype is None else n, padtype, "filtfilt")
    zi = lfilter_zi(b, a)

    def once(t: Tensor) -> Tensor:
        y, _ = lfilter(b, a, t, -1, zi * t[..., :1])
        made: Tensor = y
        return made

    y = once(once(extended).flip(-1)).flip(-1)
    pad = 0 if padtype is None else n
    return y[..., pad : pad + rows.shape[-1]].movedim(-1, axis)


def _extended(rows: Tensor, n: int, kind: str | None, name: str) -> Tensor:
    if kind not in (None, "odd", "even", "constant"):
        raise ValueError(f"{name}(): padtype is 'odd', 'even', 'constant' or None, got {kind!r}")
    if n == 0 or kind is None:
        return rows
    if rows.shape[-1] <= n:
        raise ValueError(
            f"{name}(): the signal has {rows.shape[-1]} samples, and must have more than the "
            f"padding of {n}.\n  fix: give a smaller padlen="
        )
    first, last = rows[..., :1], rows[..., -1:]
    before, after = rows[..., 1 : n + 1].flip(-1), rows[..., -n - 1 : -1].flip(-1)
    if kind == "odd":
        before, after = 2 * first - before, 2 * last - after
    elif kind == "constant":
        before, after = first.expand_as(before), last.expand_as(after)
    return ad.cat([before, rows, after], -1)


def _sections(sos: Any, name: str) -> Tensor:
    rows = as_float(sos, name)
    if rows.ndim != 2 or rows.shape[1] != 6:
        raise ValueError(f"{name}(): sos must have the shape (sections, 6), got {list(rows.shape)}")
    return rows


def sosfilt(sos: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter by sections of second order, one after the other; see `lfilter`.

    ``zi`` has the shape ``(sections, ..., 2, ...)``; the result is ``(y, zf)`` then.
    """
    sos, y = _sections(sos, "sosfilt"), as_float(x, "sosfilt")
    ends = []
    for k, section in enumerate(sos):
        if zi is None:
            y = lfilter(section[:3], section[3:], y, axis)
        else:
            y, end = lfilter(section[:3], section[3:], y, axis, as_float(zi, "sosfilt")[k])
            ends.append(end)
    return y if zi is None else (y, ad.stack(ends))


def sosfilt_zi(sos: Any) -> Tensor:
    """The states of the sections at which a constant signal of one has a constant output."""
    states: list[Tensor] = []
    scale: Any = 1.0
    for section in _sections(sos, "sosfilt_zi"):
        b, a = section[:3], section[3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * b.sum() / a.sum()
    return ad.stack(states)


def _usual_padding(sos: Tensor) -> int:
    """How many samples SciPy adds to both ends, which coefficients that are zero tell."""
    if is_batched(sos):
        raise ValueError(
            "sosfiltfilt(): how much is added to a signal depends on which coefficients are zero, "
            "and samples of vmap may differ in that\n  fix: give padlen="
        )
    taps = 2 * sos.shape[0] + 1
    taps -= min(int((sos[:, 2] == 0).sum()), int((sos[:, 5] == 0).sum()))
    return 3 * taps


def sosfiltfilt(
    sos: Any, x: Any, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None
) -> Tensor:
    """Filter forward and backward by sections of second order; see `filtfilt`."""
    sos, x = _sections(sos, "sosfiltfilt"), as_float(x, "sosfiltfilt")
    pad = 0 if padtype is None else _usual_padding(sos) if padlen is None else padlen
    rows = x.movedim(axis, -1)
    extended = _extended(rows, pad, padtype, "sosfiltfilt")
    zi = sosfilt_zi(sos)

    def once(t: Tensor) -> Tensor:
        state = zi.reshape(len(zi), *[1] * (t.ndim - 1), 2) * t[..., :1]
        y, _ = sosfilt(sos, t, -1, state)
        made: Tensor = y
        return made

    y = once(once(extended).flip(-1)).flip(-1)
    return y[..., pad : pad + rows.shape[-1]].movedim(-1, axis)
