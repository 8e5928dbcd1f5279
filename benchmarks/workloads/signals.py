"""Fourier transforms with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Setup, Workload
from benchmarks.workloads.data import normal


def gradient_of(shape: tuple[int, ...], function: Callable[[Any, Any], Any]) -> Setup:
    """The gradient of the power of a real signal's transform."""

    def setup(lib: Any) -> Callable[[], Any]:
        x = normal(lib, *shape, grad=True)

        def work() -> Any:
            x.grad = None
            y = lib.view_as_real(function(lib, x))
            (y * y).sum().backward()
            return y, x.grad

        return work

    return setup


LIKE_PEER = Mark(speedup=1.0)
WORKLOADS = [
    Workload(
        "rfft of 1e6, gradient",
        gradient_of((1_000_000,), lambda lib, x: lib.fft.rfft(x, norm="ortho")),
        LIKE_PEER,
    ),
    Workload(
        "fft2 of 512x512, gradient",
        gradient_of((512, 512), lambda lib, x: lib.fft.fft2(x, norm="ortho")),
        LIKE_PEER,
    ),
    Workload(
        "fft, 1,000 of 256, gradient",
        gradient_of((1000, 256), lambda lib, x: lib.fft.fft(x, norm="ortho")),
        LIKE_PEER,
    ),
]
