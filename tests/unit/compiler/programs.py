"""Recording a function and its gradients as programs, by the core alone: for tests of recordings.

`recorded` calls a function while its ops are taken down; the result runs them again on other
tensors. A difference to eager execution in a single bit is an error of the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _core
from tests.ops.spec import to_numpy


class Recorded:
    """A function's forward and backward as programs; `refused` says why there are none."""

    def __init__(self, f: Callable[..., Sequence[Any]], inputs: Sequence[ad.Tensor]) -> None:
        self.recording = _core._Recording(list(inputs))
        self.refused: str | None = None
        self.results = self._taken(lambda: list(f(*inputs)))
        if self._is_refused():
            return
        outputs = [y for y in self.results if y.requires_grad]
        self.count = len(self.results)
        end = self.recording.size()
        grads: list[Any] = []
        weights = [ad.ones_like(y) for y in outputs]
        if outputs:
            self.recording.add_inputs(weights)
            wanted = [x for x in inputs if x.requires_grad]
            grads = self._taken(
                lambda: list(
                    ad.autograd.grad(outputs, wanted, weights, retain_graph=True, allow_unused=True)
                )
            )
        self.recording.outside(self.results)
        if self._is_refused():
            return
        self.backward = self.recording.program(end, self.recording.size(), weights, grads)
        held = self.backward.held()
        self.forward = self.recording.program(0, end, list(inputs), [*self.results, *held])

    def _taken(self, run: Callable[[], Any]) -> Any:
        self.recording.start()
        try:
            return run()
        finally:
            self.recording.stop()

    def _is_refused(self) -> bool:
        why = self.recording.refused()
        if why is not None:
            self.refused = why[0]
        return why is not None

    def run(self, inputs: Sequence[ad.Tensor], weights: Sequence[ad.Tensor]) -> list[Any]:
        """The results and gradients that the programs compute."""
        assert self.forward.mismatch(list(inputs)) is None
        results = self.forward.run(list(inputs))
        rest = results[self.count :]
        gradients = self.backward.run(list(weights), rest) if weights else []
        return results[: self.count] + gradients


def eager(
    f: Callable[..., Sequence[Any]], inputs: Sequence[ad.Tensor]
) -> tuple[list[Any], list[ad.Tensor]]:
    """Results and gradients without a program, and the weights of the results."""
    results = list(f(*inputs))
    outputs = [y for y in results if y.requires_grad]
    if not outputs:
        return results, []
    rng = np.random.default_rng(2)
    weights = [
        ad.ones_like(y).copy_(ad.from_numpy(rng.uniform(-1, 1, tuple(y.shape)))) for y in outputs
    ]
    wanted = [x for x in inputs if x.requires_grad]
    gradients = ad.autograd.grad(outputs, wanted, weights, allow_unused=True)
    return results + list(gradients), weights


def same_bits(got: Any, want: Any) -> bool:
    """Whether two results are equal in dtype, shape and every bit that counts."""
    if got is None or want is None:
        return got is want
    a, b = to_numpy(got), to_numpy(want)
    if got.dtype != want.dtype or a.shape != b.shape:
        return False
    signs = a.dtype.kind != "f" or np.array_equal(np.signbit(a), np.signbit(b)) or np.isnan(a).any()
    return bool(signs) and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def check(
    f: Callable[..., Sequence[Any]],
    inputs: Sequence[ad.Tensor],
    others: Sequence[Sequence[ad.Tensor]],
    label: str = "",
) -> str | None:
    """Record `f`, run it on other tensors and compare; the reason if it was refused."""
    recorded = Recorded(f, inputs)
    if recorded.refused is not None:
        return recorded.refused
    for k, tensors in enumerate([inputs, *others]):
        want, weights = eager(f, tensors)
        got = recorded.run(tensors, weights)
        assert len(got) == len(want), label
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert same_bits(a, b), f"{label}: result {i} of run {k}: {a} instead of {b}"
    return None
