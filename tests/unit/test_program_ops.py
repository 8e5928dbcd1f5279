"""Every op and sample as a recorded program: run on other values, it gives what eager gives.

What an op's forward leaves for backward, or what a derivative looks at, must not be a number that
depends on values: a program would keep that of its recording, silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import Op, Sample, outputs, strided, to_library
from tests.unit.programs import check

# Shapes or errors that depend on values; what is refused, and nothing else, with these words.
REFUSED = {
    "allclose": "depends on data",
    "argwhere": "depends on data",
    "as_strided": "storage_offset",
    "bincount": "depends on data",
    "bincount_weighted": "depends on data",
    "cov": "weights",
    "cov_weighted": "weights",
    "equal": "depends on data",
    "index_fill": "which indices differ",  # the gradient of a value that is a tensor
    "index_put": "depends on data",  # the gradient of values behind a mask
    "index_put_added": "depends on data",
    "masked_fill": "depends on data",  # the gradient of a value that is a tensor
    "masked_scatter": "depends on data",
    "masked_select": "depends on data",
    "nanquantile": "values of q",
    "nonzero": "depends on data",
    "nonzero_as_tuple": "depends on data",
    "quantile": "values of q",
    "repeat_interleave_each": "depends on data",
    "unique": "depends on data",
    "unique_consecutive": "depends on data",
    "unique_rows": "depends on data",
}
# Of these, every sample.
NEVER = {n for n in REFUSED if n not in ("as_strided", "cov", "masked_fill", "masked_scatter")} - {
    "index_fill",
    "index_put",
    "index_put_added",
    "quantile",
    "nanquantile",
}


class Case:
    """A sample as a function of its tensors, with several drawings of them."""

    def __init__(self, op: Op, sample: Sample, dtype: str, change: Callable[[Any], Any]) -> None:
        self.op, self.dtype = op, dtype
        first = sample.draw(dtype, op.name)
        self.drawings = [first.map(change)]
        for k in range(2):
            rng = np.random.default_rng(k)
            drawn = sample.draw(dtype, f"{op.name}{k}")
            self.drawings.append(drawn.map(lambda a, rng=rng: shuffled(a, rng)).map(change))

    def tensors(self, k: int) -> list[ad.Tensor]:
        found: list[ad.Tensor] = []
        constants = [v for n, v in self.drawings[k].kwargs.items() if n in self.op.constants]

        def take(leaf: Any) -> Any:
            if isinstance(leaf, np.ndarray):
                t = to_library(leaf, ad, self.dtype)
                varies = self.op.diff and not any(leaf is c for c in constants)
                if varies and (t.is_floating_point() or t.is_complex()):
                    t.requires_grad_()
                found.append(t)
            return leaf

        self.drawings[k].map(take)
        return found

    def __call__(self, *tensors: ad.Tensor) -> Sequence[Any]:
        rest = iter(tensors)
        call = self.drawings[0].map(
            lambda a: next(rest) if isinstance(a, np.ndarray) else to_library(a, ad)
        )
        return outputs(self.op.function(ad)(*call.args, **call.kwargs))


def shuffled(leaf: Any, rng: np.random.Generator) -> Any:
    """Other indices and flags from among those of the sample, which fit."""
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub" and leaf.size:
        return rng.choice(leaf.reshape(-1), leaf.shape)
    return leaf


def same(leaf: Any) -> Any:
    return leaf


def cases(name: str, letters: str) -> list[tuple[str, Case]]:
    op = OPS[name]
    found = []
    for dtype in op.letters(letters):
        for sample in op.samples:
            for change in (same, strided) if op.restride else (same,):
                label = f"{name}({sample}) in {dtype}, {change.__name__}"
                found.append((label, Case(op, sample, dtype, change)))
    return found


def run_all(name: str, letters: str) -> None:
    expected = REFUSED.get(name, "\0")
    for label, case in cases(name, letters):
        refused = check(case, case.tensors(0), [case.tensors(1), case.tensors(2)], label)
        assert refused is None or expected in refused, (label, refused)
        assert refused is not None or name not in NEVER, label


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if "f" in op.dtypes])
def test_a_program_gives_the_bits_of_eager_execution(name: str) -> None:
    run_all(name, "f")


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if set("bihc") & set(op.dtypes)])
def test_so_it_does_for_other_dtypes(name: str) -> None:
    run_all(name, "bihc")
