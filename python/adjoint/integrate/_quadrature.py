"""Integrals: of samples (`trapezoid`, `simpson`, `cumulative_*`) and of functions (`quad`)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint._core import Tensor, _is_recording
from adjoint._plain import refuse_structures
from adjoint._progress import CallsBar
from adjoint._samples import is_batched, largest_value, must_hold
from adjoint.func import vmap
from adjoint.optimize import ConvergenceError, OptimizeResult
from adjoint.optimize._inside import Inside, is_inside
from adjoint.optimize._unknowns import as_arguments

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "quad", "simpson", "trapezoid"]

_NUMBERS = (bool, int, float)

# Gauss and Kronrod on [-1, 1]: half of the nodes, weights of 15 points, and of 7 among them.
_NODES = (
    0.991455371120812639206854697526329,
    0.949107912342758524526189684047851,
    0.864864423359769072789712788640926,
    0.741531185599394439863864773280788,
    0.586087235467691130294144691693013,
    0.405845151377397166906606412076961,
    0.207784955007898467600689403773245,
    0.0,
)
_KRONROD = (
    0.022935322010529224963732008058970,
    0.063092092629978553290700663189204,
    0.104790010322250183839876322541518,
    0.140653259715525918745189590510238,
    0.169004726639267902826583426598550,
    0.190350578064785409913256402421014,
    0.204432940075298892414161999234649,
    0.209482141084727828012999174891714,
)
_GAUSS = (
    0.129484966168869693270611432679082,
    0.279705391489276667901467771423780,
    0.381830050505118944950369775488975,
    0.417959183673469387755102040816327,
)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral of samples along an axis by the trapezoidal rule."""
    y, x = _samples("trapezoid", y), None if x is None else _samples("trapezoid", x)
    made: Tensor = ad.trapezoid(y, dx=dx, dim=axis) if x is None else ad.trapezoid(y, x, dim=axis)
    return made


def cumulative_trapezoid(
    y: Any,
    x: Any = None,
    dx: float = 1.0,
    axis: int = -1,
    initial: float | None = None,
) -> Tensor:
    """The integral from the first sample to each; ``initial=0`` puts a zero in front."""
    y, x = (
        _samples("cumulative_trapezoid", y),
        None if x is None else _samples("cumulative_trapezoid", x),
    )
    made: Tensor
    if x is None:
        made = ad.cumulative_trapezoid(y, dx=dx, dim=axis)
    else:
        made = ad.cumulative_trapezoid(y, x, dim=axis)
    return _with_initial(made, axis, initial)


def simpson(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral of samples by parabolas through three of them, at any spacing.

    With an even number of samples the last interval is that of the parabola through the last three,
    as SciPy has it.
    """
    y = _samples("simpson", y)
    made = cumulative_simpson(y, x, dx, axis)
    return made.select(axis, made.shape[axis] - 1) if made.shape[axis] else y.sum(axis)


def cumulative_simpson(
    y: Any,
    x: Any = None,
    dx: float = 1.0,
    axis: int = -1,
    initial: float | None = None,
) -> Tensor:
    """The integral from the first sample to each, by parabolas: exact for cubics at even places."""
    y = _samples("cumulative_simpson", y).movedim(axis, -1)
    n = y.shape[-1]
    h = ad.full((max(n - 1, 0),), float(dx), dtype=y.dtype) if x is None else _spacing(x, y, axis)
    if n < 3:
        pieces = h * (y[..., 1:] + y[..., :-1]) / 2
    else:
        a, b, c = y[..., :-2], y[..., 1:-1], y[..., 2:]
        first = _left(h[..., :-1], h[..., 1:], a, b, c)  # of the first interval of a triple
        second = _left(h[..., 1:], h[..., :-1], c, b, a)
        # By pairs: both intervals of a pair from one parabola; a last single one from the last
        # three.
        pairs = (n - 1) // 2
        both = ad.stack([first[..., : 2 * pairs : 2], second[..., : 2 * pairs : 2]], -1).flatten(-2)
        pieces = both if 2 * pairs == n - 1 else ad.cat([both, second[..., -1:]], -1)
    return _with_initial(pieces.cumsum(-1).movedim(-1, axis), axis, initial)


def _samples(name: str, given: Any) -> Tensor:
    """Samples as a tensor of floating-point numbers; Python's and NumPy's are float64."""
    refuse_structures(name, given)
    if isinstance(given, (list, tuple)) and any(isinstance(t, Tensor) for t in given):
        given = ad.stack([ad.as_tensor(t, dtype=ad.float64) for t in given])
    made = given if isinstance(given, Tensor) else ad.as_tensor(np.asarray(given))
    return made if made.is_floating_point() or made.is_complex() else made.double()


def _spacing(x: Tensor, y: Tensor, axis: int) -> Tensor:
    x = _samples("cumulative_simpson", x).to(y.dtype)
    return (x if x.ndim == 1 else x.movedim(axis, -1)).diff(dim=-1)


def _left(h: Tensor, k: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Of the parabola through three samples with spacings h and k, the integral over the first."""
    slope = (b - a) / h
    bend = ((c - b) / k - slope) / (h + k)
    return h * (a + b) / 2 - bend * h**3 / 6


def _with_initial(values: Tensor, axis: int, initial: float | None) -> Tensor:
    if initial is None:
        return values
    front = ad.full_like(values.narrow(axis, 0, 1), initial)
    return ad.cat([front, values + initial], axis)


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: Any = False,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 200,
    points: Any = None,
    weight: Any = None,
    wvar: Any = None,
    wopts: Any = None,
    *,
    complex_func: bool = False,
) -> tuple[Any, ...]:
    """Integrate a function from ``a`` to ``b``, either of which may be infinite; differentiable.

    Intervals are halved where the rule of Gauss and Kronrod with 15 points has the largest error,
    without being recorded. The derivative is that of the sum over the intervals that were found: by
    the ends, by ``args`` and by everything that ``func`` reads. It has as many digits where the
    derivative of ``func`` is as smooth as ``func``; where it is not (``x**k`` by ``k`` near zero),
    a smaller ``epsrel``, or ``points`` near that place, gives more.

    Parameters
    ----------
    func
        ``func(x, *args)`` of one number; gives one number, or a tensor of any shape.
    a, b
        The ends; numbers or tensors.
    args
        Further arguments: a tuple, or one.
    epsabs, epsrel
        The error that is allowed.
    limit
        The largest number of intervals.
    full_output
        Whether a dict follows, as SciPy's: ``neval``, ``last`` (the number of intervals) and rows
        of length ``limit``: ``alist`` and ``blist``, their ends, ``rlist`` and ``elist``, their
        integrals and errors. Of an infinite integral they are those of the finite one that stands
        for it.
    points
        Where the function has a kink or a jump: numbers, or a tensor, by which the integral is
        differentiable: a jump that moves changes it. Those beyond the ends are left out.
    weight, wvar, wopts
        Refused: write the weight into the function.
    complex_func
        Whether the function is complex, and so the value; the error is that of the worse part.

    Returns
    -------
    value, error
        The integral, and an estimate of its error; and the dict, if it is asked for.

    Raises
    ------
    ConvergenceError
        If so many intervals were not enough.

    Examples
    --------
    >>> import math
    >>> import adjoint as ad
    >>> k = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> value, error = ad.integrate.quad(lambda x: ad.exp(-k * x * x), -math.inf, math.inf)
    >>> value  # sqrt(pi / k)
    tensor(1.2533, dtype=torch.float64, grad_fn=<...>)
    """
    if not (weight is None and wvar is None and wopts is None):
        raise NotImplementedError(
            f"quad(): there are no weights, got weight={weight!r}\n  fix: multiply the function by "
            "it ('cos', 'sin'); for 'alg' and its like substitute x = a + t**2, or a higher power, "
            "which takes the singular end away; for 'cauchy' subtract the pole, whose integral is "
            "a logarithm"
        )
    if complex_func:
        return _complex(func, a, b, args, full_output, epsabs, epsrel, limit, points)
    arguments = as_arguments(args)
    low, high, inner, sign = _finite(func, a, b, arguments)
    edges = _edges(a, b, low, high, points)
    if edges.numel() - 1 > limit:
        raise ValueError(f"quad(): {edges.numel() - 2} points make more intervals than {limit=}")
    nodes, kronrod, gauss = _rule(low.dtype)
    each = vmap(inner)

    def integral(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Of all intervals at once, by 15 points and by 7."""
        middle, half = (left + right) / 2, (right - left) / 2
        x = (middle[:, None] + half[:, None] * nodes).flatten()
        found = each(x)
        if not isinstance(found, Tensor) or found.is_complex():
            kind = found.dtype if isinstance(found, Tensor) else type(found).__name__
            raise TypeError(
                f"quad(): the function must give a real tensor, or a number, got {kind}\n"
                "  fix: integrate the parts by themselves: of a structure, or real and imag"
            )
        values = found.unflatten(0, (-1, len(nodes))).movedim(1, -1)
        width = half.reshape(-1, *[1] * (values.ndim - 2))
        return width * (values @ kronrod), width * (values @ gauss)

    def halved(integral: Callable[..., Sequence[Tensor]], edges: Tensor) -> list[_Part]:
        with CallsBar("quad") as bar:
            return _halved(bar.counting(integral), edges, epsabs, epsrel, limit)

    with ad.no_grad():
        inside = _halved_inside(integral, halved, edges.detach(), limit) if is_inside() else None
        parts = halved(integral, edges.detach()) if inside is None else []
    last: Any
    error: Any
    if inside is not None:
        left, right, errors, last, error = inside
    else:
        left, right, errors = (ad.tensor(row, dtype=low.dtype) for row in _columns(parts))
        last, error = len(parts), sum(part.error for part in parts)
    begin, end = _placed(edges, left, right)
    pieces = integral(begin, end)[0]
    if inside is not None:
        counts = (ad.arange(limit) < last).reshape(-1, *[1] * (pieces.ndim - 1))
        pieces = ad.where(counts, pieces, 0.0)
    value = sign * pieces.sum(0)
    if not full_output:
        return value, error
    rows = {"alist": begin, "blist": end, "rlist": sign * pieces, "elist": errors}
    return (
        value,
        error,
        {
            "neval": 15 * (2 * last - (edges.numel() - 1)),
            "last": last,
            **{name: _in_rows(t.detach(), last, limit) for name, t in rows.items()},
        },
    )


class _Part(NamedTuple):
    """An interval: where it begins and ends, and the error on it.

    Places are counted in edges: 1.5 is halfway between the second and the third.
    """

    left: float
    right: float
    error: float


def _columns(parts: Sequence[_Part]) -> list[list[float]]:
    return [list(column) for column in zip(*parts, strict=True)]


def _edges(a: Any, b: Any, low: Tensor, high: Tensor, points: Any) -> Tensor:
    """The ends, and the points between them in the order in which they are passed."""
    ends = ad.stack([low, high])
    if points is None:
        return ends
    if any(not isinstance(end, Tensor) and math.isinf(end) for end in (a, b)):
        raise ValueError(
            "quad(): points are for finite ends\n  fix: split the integral: one part with points, "
            "and one to infinity"
        )
    at = _samples("quad", points).to(low.dtype).reshape(-1)
    if not (_is_recording() or is_batched(at, ends)):
        first, last = sorted(ends.tolist())
        known = {place: k for k, place in enumerate(at.tolist()) if not place <= first}
        at = at[[k for place, k in known.items() if not place >= last]]
    span = high - low
    share = (at - low) / ad.where(span == 0, 1.0, span)
    must_hold(~ad.isnan(share.detach()), lambda _: ValueError("quad(): a point is NaN"))
    share = share.clamp(0, 1).sort()[0]  # samples beyond make intervals of no length
    return ad.cat([ends[:1], low + span * share, ends[1:]])


def _placed(edges: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Where intervals begin and end."""
    if edges.numel() == 2:
        low, span = edges[0], edges[1] - edges[0]
        return low + span * left, low + span * right
    number = left.floor().long()
    first, span = (t.index_select(0, number) for t in (edges[:-1], edges.diff()))
    return first + span * (left - number), first + span * (right - number)


def _in_rows(t: Tensor, last: Any, limit: int) -> Tensor:
    """The first rows of as many as there may be; zeros follow."""
    if len(t) < limit:
        return ad.cat([t, t.new_zeros((limit - len(t), *t.shape[1:]))])
    return ad.where((ad.arange(limit) < last).reshape(-1, *[1] * (t.ndim - 1)), t, 0.0)


def _complex(func: Callable[..., Any], a: Any, b: Any, args: Any, *options: Any) -> tuple[Any, ...]:
    """Both parts of a complex function, side by side."""

    def parts(x: Tensor, *rest: Any) -> Tensor:
        made = ad.as_tensor(func(x, *rest))
        if not made.is_complex():
            made = ad.complex(made, ad.zeros_like(made))
        return ad.view_as_real(made.resolve_conj())

    full_output, epsabs, epsrel, limit, points = options
    value, *rest = quad(parts, a, b, args, full_output, epsabs, epsrel, limit, points)
    if full_output:
        rest[1]["rlist"] = ad.view_as_complex(rest[1]["rlist"])
    return ad.view_as_complex(value), *rest


def _halved_inside(
    integral: Callable[[Tensor, Tensor], Sequence[Tensor]],
    halved: Callable[..., list[_Part]],
    edges: Tensor,
    limit: int,
) -> tuple[Tensor, ...] | None:
    """The intervals as an instruction of the program that is recorded; None where it cannot be.

    As many as there may be: those beyond the ones that were found repeat the first. Their errors,
    how many count and the sum of the errors follow.
    """
    low, high = edges[:1], edges[-1:]
    place = Inside(lambda t: integral(t, high)[0], low, edges)
    if not place.takes([(integral, [low, high])]):
        return None

    def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
        parts = halved(functions[0], *operands)
        rest = [parts[0]] * (limit - len(parts))
        rows = (ad.tensor(row, dtype=edges.dtype) for row in _columns([*parts, *rest]))
        error = ad.tensor(sum(part.error for part in parts), dtype=edges.dtype)
        return [*rows, ad.tensor(len(parts)), error]

    return tuple(place.solved(solve, edges))


def _rule(dtype: Any) -> tuple[Tensor, Tensor, Tensor]:
    gauss = [0.0] * 15
    gauss[1::2] = [*_GAUSS, *_GAUSS[2::-1]]
    nodes = [*(-x for x in _NODES[:-1]), *_NODES[::-1]]
    kronrod = [*_KRONROD, *_KRONROD[-2::-1]]
    made = [ad.tensor(v, dtype=dtype) for v in (nodes, kronrod, gauss)]
    return made[0], made[1], made[2]


def _halved(
    integral: Callable[[Tensor, Tensor], Sequence[Tensor]],
    edges: Tensor,
    epsabs: float,
    epsrel: float,
    limit: int,
) -> list[_Part]:
    """Intervals, in order, on which the rule is exact enough."""

    def measure(left: float, right: float) -> tuple[float, Any]:
        k = int(left)
        low, span = edges[k], edges[k + 1] - edges[k]
        fine, coarse = integral((low + span * (left - k))[None], (low + span * (right - k))[None])
        return largest_value((fine - coarse).abs().max()), fine

    heap: list[tuple[float, int, float, float, Any]] = []
    total: Any = None
    for count in range(edges.numel() - 1):
        error, value = measure(count, count + 1)
        heapq.heappush(heap, (-error, count, float(count), float(count + 1), value))
        total = value if total is None else total + value
    count = len(heap)
    while True:
        whole = sum(-part[0] for part in heap)
        allowed = max(epsabs, epsrel * largest_value(total.abs().max()))
        if not math.isfinite(whole):
            raise _not_enough("the function is not finite in between", count, heap)
        # The rule with 7 points says more than the error of that with 15.
        if whole <= allowed or whole <= 1e-12 * largest_value(total.abs().max()):
            ordered = sorted(heap, key=lambda part: part[2])
            return [_Part(left, right, -e) for e, _, left, right, _ in ordered]
        if len(heap) >= limit:
            raise _not_enough(
                f"{limit} intervals were not enough: the error is {whole:.3g}", count, heap
            )
        _, _, left, right, value = heapq.heappop(heap)
        middle = (left + right) / 2
        total = total - value
        for ends in ((left, middle), (middle, right)):
            error, value = measure(*ends)
            heapq.heappush(heap, (-error, count, *ends, value))
            count += 1
            total = total + value


def _not_enough(reason: str, count: int, heap: list[Any]) -> ConvergenceError:
    worst = min(heap)
    several = max(part[3] for part in heap) > 1
    counted = ", counted in points" if several else " of the way"
    result = OptimizeResult(success=False, message=reason, intervals=len(heap), neval=15 * count)
    return ConvergenceError(
        f"quad(): {reason}. The worst interval is from {worst[2]:.6g} to {worst[3]:.6g}"
        f"{counted}.\n  fix: say where the function is not smooth (points=), allow more intervals "
        "(limit=...), or a larger error (epsabs=, epsrel=)",
        result,
    )


def _known(given: Any, t: Tensor) -> float:
    """A limit as a number; one that a program computes, or that has samples, must be finite."""
    if not isinstance(given, Tensor) or not (is_batched(t) or _is_recording()):
        return float(given)
    must_hold(ad.isfinite(t.detach()), _not_finite)
    return 0.0


def _not_finite(holds: Tensor) -> Exception:
    return ValueError(
        "quad(): a limit is NaN or infinite\n  fix: inside compile, scan and vmap an infinite "
        "limit is a number, such as math.inf, not a tensor"
    )


def _finite(
    func: Callable[..., Any], a: Any, b: Any, args: tuple[Any, ...]
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor], float]:
    """The same integral over a finite interval, and the sign of its value."""

    def number(v: Any) -> Tensor:
        if isinstance(v, Tensor):
            return v.reshape(())
        return ad.tensor(float(v), dtype=ad.float64)

    low, high, sign = number(a), number(b), 1.0
    dtype = ad.promote_types(low.dtype, high.dtype)
    low, high = low.to(dtype), high.to(dtype)
    below = above = False
    first, last = (_known(given, t) for given, t in ((a, low), (b, high)))
    if math.isnan(first) or math.isnan(last):
        raise ValueError(f"quad(): a limit is NaN: from {first:g} to {last:g}")
    if math.isinf(first) or math.isinf(last):
        if first > last:
            low, high, sign = high, low, -1.0
            first, last = last, first
        below, above = math.isinf(first), math.isinf(last)

    def value(x: Tensor) -> Tensor:
        made = func(x, *args)
        plain: Tensor = ad.as_tensor(made, dtype=dtype) if isinstance(made, _NUMBERS) else made
        return plain

    if not (below or above):
        return low, high, value, sign
    zero, one = ad.zeros((), dtype=dtype), ad.ones((), dtype=dtype)
    if below and above:  # both halves at once, by x = (1 - t) / t

        def both(t: Tensor) -> Tensor:
            x = (1 - t) / t
            return (value(x) + value(-x)) / (t * t)

        return zero, one, both, sign

    def half(t: Tensor) -> Tensor:
        x = (1 - t) / t
        return value(high - x if below else low + x) / (t * t)

    return zero, one, half, sign
