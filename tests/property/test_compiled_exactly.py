"""Functions drawn at random do compiled what they do eagerly, to the last bit.

``python -m tests.property.test_compiled_exactly 0 10000`` tries as many as one likes.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import _core

from .drawn_functions import Calls, draw, history

# What a compiled function says it cannot do, where its plain form can.
KNOWN = (
    "has no second derivative",
    "are results of one node",
    # A batch of gradients runs the function again, under vmap: it has transforms of its own.
    "on a sample inside vmap",
    "does not have vmap support",
)


def same(a: Any, b: Any, exact: bool) -> bool:
    """Whether the same is seen; not exact: sums were taken in another order."""
    if exact or a == b:
        return bool(a == b)
    if isinstance(a, tuple) and isinstance(b, tuple) and a[1:] == b[1:] and ad.float32 in a:
        x, y = (np.frombuffer(one[0], "f4") for one in (a, b))
        return bool(np.allclose(x, y, 3e-3, 3e-5, equal_nan=True))  # some in half precision
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return all(same(x, y, exact) for x, y in zip(a, b, strict=True))
    return False


def compare(seed: int) -> Calls:
    """Call a function both ways; the compiled calls."""
    drawn = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, want = history(drawn, lambda function: function)
        compiled, got = history(drawn, ad.compile)
    if any(text in compiled.ended for text in KNOWN):
        got.pop()
        want = want[: len(got)]
    exact = plain.exact and compiled.exact
    assert len(got) == len(want), (seed, drawn.text, compiled.ended, plain.ended)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert same(a, b, exact), (seed, k, drawn.text, compiled.ended)
    assert not _core._is_recording()
    assert not _core._is_unusual_mode()
    return compiled


@pytest.mark.parametrize("start", range(0, 240, 20))
def test_drawn_functions_do_the_same_compiled(start: int) -> None:
    recorded = sum(bool(compare(seed).function.programs) for seed in range(start, start + 20))
    assert recorded >= 4


# Each of these was wrong once.
@pytest.mark.parametrize("seed", [311, 1149, 1739, 4519, 5364, 2681, 3247, 1290, 1978])
def test_functions_that_were_found_by_drawing(seed: int) -> None:
    compare(seed)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    for seed in range(first, last):
        compare(seed)
