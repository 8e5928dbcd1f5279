"""Where a function passes zero within a step: by the secant where that helps, else by halves."""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import any_of

__all__ = ["crossing"]

_MOST = 200

_State = tuple[Tensor, Tensor, Tensor, Tensor]


def crossing(f: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """The place in [0, 1] where a function changes its sign, to rounding; one if it does not.

    Dekker's method, of each sample of a `vmap`. The place is that end of the last interval on whose
    side the function is at one.
    """
    zero = ad.zeros((), dtype=like.dtype)
    one = ad.ones((), dtype=like.dtype)
    before, after = f(zero), f(one)
    bracketed = ((before <= 0) & (after > 0)) | ((before >= 0) & (after < 0))
    least = 4 * float(ad.finfo(like.dtype).eps)

    def unfinished(low: Tensor, high: Tensor, f_low: Tensor, f_high: Tensor) -> Tensor:
        return bracketed & (f_high != 0) & (high - low > least)

    def narrowed(low: Tensor, high: Tensor, f_low: Tensor, f_high: Tensor) -> _State:
        middle = (low + high) / 2
        secant = high - f_high * (high - low) / (f_high - f_low)
        guess = ad.where((low < secant) & (secant < high), secant, middle)
        for s in (guess, middle):
            inside = unfinished(low, high, f_low, f_high) & (low < s) & (s < high)
            value = f(ad.where(inside, s, high))
            # A zero counts as the end: nothing is left to narrow then.
            behind = (value == 0) | ((value > 0) == (f_high > 0))
            ends, begins = inside & behind, inside & ~behind
            high, f_high = ad.where(ends, s, high), ad.where(ends, value, f_high)
            low, f_low = ad.where(begins, s, low), ad.where(begins, value, f_low)
        return low, high, f_low, f_high

    # All are of each sample from the start, as the loop leaves them.
    each = 0 * (before + after)
    each = ad.where(ad.isfinite(each), each, 0.0)
    state: _State = (zero + each, one + each, before + each, after + each)
    if _core._is_recording() and not _core._loop_mode():
        k = ad.zeros((), dtype=ad.int64)
        _, *found = ad.while_loop(
            lambda k, *state: any_of(unfinished(*state)) & (k < _MOST),
            lambda k, *state: (k + 1, *narrowed(*state)),
            (k, *state),
        )
        high: Tensor = found[1]
    else:
        for _ in range(_MOST):
            if not bool(any_of(unfinished(*state))):
                break
            state = narrowed(*state)
        high = state[1]
    return high.detach()
