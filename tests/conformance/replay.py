"""One entry of torch's operator database replayed on both libraries, and what differs.

`replay` runs torch's samples of an entry and a dtype and compares what both saw (`aspects.py`).
`python -m tools.opinfo_report` prints what it finds; `test_torchs_samples.py` runs a part of it.
"""

from __future__ import annotations

import builtins
import random
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.conformance.aspects import Seen, Side, aspects
from tests.conformance.opinfo import Unsupported, entries, ours, seed_torch, to_numpy

torch = pytest.importorskip("torch")

DTYPES = ("float64", "float32", "complex128", "int64", "bool", "bfloat16")
# Relative, and (times the largest element) absolute.
TOLERANCE = {
    "float64": (1e-7, 1e-9),
    "complex128": (1e-7, 1e-9),
    "float32": (2e-5, 1e-5),
    "complex64": (2e-5, 1e-5),
    "bfloat16": (2e-2, 2e-2),
    "float16": (2e-3, 1e-3),
}
# Where both round, neither is the truth: ours may differ more than that if it is not much farther
# than torch's from what torch computes in double precision.
NARROW = ("float32", "bfloat16")
FARTHER = 2.0
# A second gradient goes through many ops, which torch rounds to 16 bits one by one.
MANY_ROUNDINGS = 4
UNINITIALISED = ("empty", "new_empty", "resize")


@dataclass(frozen=True)
class Difference:
    """Where ours disagrees: an entry, a dtype, the number of the sample, the aspect."""

    entry: str
    dtype: str
    sample: int
    aspect: str
    message: str

    def __str__(self) -> str:
        return f"{self.entry} {self.dtype} #{self.sample} {self.aspect}: {self.message}"


@dataclass
class Result:
    """What a replay has seen."""

    samples: int = 0
    checks: int = 0
    skipped: int = 0
    differences: list[Difference] = field(default_factory=list)


class Mismatch(AssertionError):
    """Values that differ by more than rounding."""


def outcome(aspect: Callable[[Side], Seen], side: Side) -> Seen | Exception:
    """Return what a side sees with the seed set, or its exception."""
    seed_torch(7)
    ad.manual_seed(7)
    try:
        return aspect(side)
    except Exception as error:
        return error


def lacking(error: Any) -> bool:
    """Say whether torch has no kernel or no derivative for something."""
    text = str(error)
    return isinstance(error, NotImplementedError) or (
        isinstance(error, RuntimeError) and ("not implemented" in text or "not support" in text)
    )


def same_class(found: Any, wanted: Exception) -> bool:
    """Say whether an exception is caught by what catches torch's."""
    known = next(c for c in type(wanted).__mro__ if getattr(builtins, c.__name__, None) is c)
    return isinstance(found, known)


def shown(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {' '.join(str(value).split())[:150]}"
    return f"a {type(value).__name__}" if isinstance(value, ad.Tensor | dict) else repr(value)


def check(side: Side, name: str, aspect: Callable[[Side], Seen]) -> None:
    """Assert that both sides see the same."""
    wanted = outcome(aspect, side)
    if isinstance(wanted, Exception) and (lacking(wanted) or "grad" in name):
        return
    found = outcome(aspect, side.ours())
    if isinstance(wanted, Exception) or isinstance(found, Exception):
        refused = isinstance(wanted, Exception) and same_class(found, wanted)
        assert refused, shown(found) if isinstance(wanted, dict) else _instead(found, wanted)
        return
    truth: Seen | Exception | None = None
    refused = [key for key, b in wanted.items() if isinstance(b, Exception) and lacking(b)]
    for key in [*wanted, *(key for key in found if key not in wanted)]:
        if key.startswith(tuple(refused)):
            continue
        try:
            compare(side, key, found, wanted, name != "value")
        except Mismatch:
            if str(side.dtype)[6:] not in NARROW:
                raise
            truth = outcome(aspect, side.truth()) if truth is None else truth
            if isinstance(truth, Exception) or not nearer(found[key], wanted[key], truth[key]):
                raise


def _instead(found: Any, wanted: Any) -> str:
    return f"{shown(found)} where torch has {shown(wanted)}"


def compare(side: Side, key: str, found: Seen, wanted: Seen, derivative: bool) -> None:
    """Assert that one thing agrees: class of a refusal, structure, dtype, shape and value."""
    optional = key.startswith("second gradient")
    assert optional or (key in found and key in wanted), f"{key}: only one of the two has it"
    a, b = found.get(key), wanted.get(key)
    if isinstance(b, Exception):
        assert same_class(a, b), f"{key}: {_instead(a, b)}"
    elif isinstance(a, Exception):
        raise AssertionError(f"{key}: {shown(a)}")
    elif b is None and isinstance(a, ad.Tensor) and derivative:
        assert is_zero(a), f"{key}: not zero, where torch has none"
    elif a is None and isinstance(b, torch.Tensor) and derivative:
        assert is_zero(b), f"{key}: none, where torch's is not zero"
    elif isinstance(b, torch.Tensor):
        assert isinstance(a, ad.Tensor), f"{key}: {_instead(a, b)}"
        assert str(a.dtype) == str(b.dtype), f"{key}: {a.dtype} where torch has {b.dtype}"
        assert tuple(a.shape) == tuple(b.shape), f"{key}: {tuple(a.shape)}, not {tuple(b.shape)}"
        if not side.op.name.startswith(UNINITIALISED):
            close(a, b, str(side.dtype)[6:], key)
    else:
        same = str(a) == str(b) or a == b or (a != a and b != b)
        assert same or close_numbers(a, b), f"{key}: {_instead(a, b)}"


def is_zero(derivative: Any) -> bool:
    """Say whether a derivative that need not be there is zero, up to rounding."""
    dtype = str(derivative.dtype).removeprefix("torch.")
    size = np.max(np.abs(to_numpy(derivative)), initial=0.0)
    return bool(size <= TOLERANCE[dtype][1])


def close_numbers(a: Any, b: Any) -> bool:
    return isinstance(b, float | complex) and abs(a - b) <= 1e-6 * abs(b)


def close(found: Any, wanted: Any, computed: str, what: str) -> None:
    """Assert that values agree up to rounding, and are not finite in the same places."""
    have, want = to_numpy(found).reshape(-1), to_numpy(wanted).reshape(-1)
    kinds = (computed, str(wanted.dtype)[6:])
    exact = not (wanted.is_floating_point() or wanted.is_complex())
    rtol, atol = max(TOLERANCE.get(k, TOLERANCE["float32"]) for k in kinds)
    if what.startswith("second") and computed == "bfloat16":
        rtol, atol = MANY_ROUNDINGS * rtol, MANY_ROUNDINGS * atol
    if exact:
        wrong = have != want
    else:
        finite = np.isfinite(want)
        scale = float(np.max(np.abs(want[finite]), initial=1.0)) if want.size else 1.0
        with np.errstate(all="ignore"):
            wrong = ~(np.abs(have - want) <= rtol * np.abs(want) + atol * scale)
            if np.iscomplexobj(want):  # which part is infinite or NaN is nobody's promise
                wrong[~finite] = np.isfinite(have[~finite])
            else:
                wrong[~finite] = ~((have == want) | (np.isnan(have) & np.isnan(want)))[~finite]
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise Mismatch(
            f"{what}: {have[at]!r} where torch has {want[at]!r}, at {at} of {tuple(wanted.shape)} "
            f"({int(wrong.sum())} of {want.size} differ)"
        )


def nearer(found: Any, wanted: Any, truth: Any) -> bool:
    """Say whether ours is about as near to the truth as torch's, over the whole tensor."""
    have, want, true = (to_numpy(t).reshape(-1).astype("f8") for t in (found, wanted, truth))
    if not (np.isfinite(have).all() and np.isfinite(want).all()) or true.shape != have.shape:
        return False
    error, allowed = (float(np.max(np.abs(x - true), initial=0.0)) for x in (have, want))
    return error <= FARTHER * allowed


def replay(
    entry: str,
    dtype: str,
    limit: int | None = None,
    seed: int = 0,
    aspect: str = "",
    reference: bool = False,
) -> Result:
    """Run torch's samples of an entry, at most about so many of them, evenly chosen.

    Where to begin depends on the entry and the dtype, so that dtypes share the samples out. With
    `reference` they are those of torch's tests against NumPy, which are more.
    """
    result = Result()
    op, kind = entries()[entry], getattr(torch, dtype)
    if ours(op) is None or kind not in op.supported_dtypes("cpu"):
        return result
    seed_torch(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - some of torch's samples are drawn from it
    grad = op.supports_autograd and kind in op.supported_backward_dtypes("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = op.reference_inputs if reference else op.sample_inputs
        samples = list(make("cpu", kind, requires_grad=grad))
        step = max(1, len(samples) // limit) if limit else 1
        start = zlib.crc32(f"{entry} {dtype}".encode()) % step
        for number in range(start, len(samples), step):
            replay_sample(result, entry, number, Side(op, kind, samples[number], torch), aspect)
    return result


def replay_sample(result: Result, entry: str, number: int, side: Side, only: str) -> None:
    """Ask each aspect of a sample and note what differs."""
    try:
        side.ours().given()
    except Unsupported:
        result.skipped += 1
        return
    result.samples += 1
    for name, aspect in aspects(side):
        if only and name != only:
            continue
        result.checks += 1
        try:
            check(side, name, aspect)
        except AssertionError as error:
            result.differences.append(
                Difference(entry, str(side.dtype)[6:], number, name, str(error))
            )
            if name == "value" and not isinstance(error, Mismatch):
                return  # the others would say the same
