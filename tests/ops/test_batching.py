"""vmap of every op and sample against a loop, for every combination of mapped inputs."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.func import grad, vmap
from tests.ops.samples import OPS
from tests.ops.spec import Array, Op, Sample, outputs, to_library, to_numpy

SIZE = 3
# What depends on values cannot be mapped over; others return no tensors.
UNMAPPABLE = {
    "allclose",
    "argwhere",
    "bincount",
    "equal",
    "masked_select",
    "nonzero",
    "nonzero_as_tuple",
    "unique",
    "unique_consecutive",
    "unique_rows",
    "repeat_interleave_each",
    "histc",
}
MAPPED = [n for n, op in OPS.items() if "f" in op.dtypes and n not in UNMAPPABLE]


class Mapping:
    """A sample with several drawings of each of its floating-point arrays."""

    def __init__(self, op: Op, sample: Sample) -> None:
        self.op = op
        self.rows: list[list[Array]] = []
        self.constants = {k: v for k, v in sample.kwargs.items() if k in op.constants}
        varied = {k: v for k, v in sample.kwargs.items() if k not in op.constants}
        self.sample = Sample(sample.args, varied).map(self._collect)

    def _collect(self, leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
            # Permuted along the first axis, so that values stay in the op's domain.
            flat = [np.roll(leaf.reshape(-1), k).reshape(leaf.shape) for k in range(SIZE)]
            self.rows.append(flat)
        return leaf

    def call(self, tensors: Sequence[Any]) -> list[Any]:
        rest = iter(tensors)
        call = self.sample.map(
            lambda a: (
                next(rest)
                if isinstance(a, np.ndarray) and a.dtype.kind == "f"
                else to_library(a, ad)
            )
        )
        constants = Sample((), self.constants).map(lambda a: to_library(a, ad)).kwargs
        return outputs(self.op.function(ad)(*call.args, **call.kwargs, **constants))

    def looped(self, mapped: Sequence[bool]) -> list[Array]:
        results = []
        for b in range(SIZE):
            chosen = [rows[b if m else 0] for rows, m in zip(self.rows, mapped, strict=True)]
            results.append([to_numpy(y) for y in self.call([to_library(a, ad) for a in chosen])])
        return [np.stack(column) for column in zip(*results, strict=True)]

    def batched(self, mapped: Sequence[bool]) -> list[Array]:
        given = [
            ad.from_numpy(np.stack(rows)) if m else to_library(rows[0], ad)
            for rows, m in zip(self.rows, mapped, strict=True)
        ]
        dims = tuple(0 if m else None for m in mapped)
        result = vmap(lambda *xs: tuple(self.call(xs)), in_dims=dims)(*given)
        return [to_numpy(y) for y in result]


def mappings(name: str) -> list[tuple[str, Mapping]]:
    drawn = [(label, Mapping(OPS[name], sample)) for label, sample in OPS[name].drawn("float64")]
    return [(label, m) for label, m in drawn[::2] if m.rows and sum(r[0].size for r in m.rows) < 80]


@pytest.mark.parametrize("name", MAPPED)
def test_the_batch_rule_is_a_loop_over_samples(name: str) -> None:
    for label, mapping in mappings(name):
        for mapped in itertools.product([True, False], repeat=len(mapping.rows)):
            if not any(mapped):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # loops say so once
                got = mapping.batched(mapped)
            for a, b in zip(got, mapping.looped(mapped), strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype, (label, mapped)
                np.testing.assert_allclose(a, b, 1e-12, 1e-13, err_msg=f"{label}, {mapped}")


@pytest.mark.parametrize("name", [n for n in MAPPED if OPS[n].diff])
def test_gradients_of_samples_are_those_of_a_loop(name: str) -> None:
    for label, mapping in mappings(name)[:4]:

        def loss(*xs: Any, mapping: Mapping = mapping) -> Any:
            ys = [y for y in mapping.call(xs) if y.is_floating_point() or y.is_complex()]
            ys = [ad.view_as_real(y.resolve_conj()) if y.is_complex() else y for y in ys]
            weights = [ad.arange(1.0, y.numel() + 1, dtype=y.dtype).view(y.shape) for y in ys]
            return sum(((y * w).sum() for y, w in zip(ys, weights, strict=True)), ad.tensor(0.0))

        every = tuple(range(len(mapping.rows)))
        batch = [ad.from_numpy(np.stack(rows)) for rows in mapping.rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = vmap(grad(loss, every))(*batch)
        for b in range(SIZE):
            want = grad(loss, every)(*(to_library(rows[b], ad) for rows in mapping.rows))
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(to_numpy(g)[b], to_numpy(w), 1e-10, 1e-11, err_msg=label)
