"""histogram and histogramdd: what NumPy counts, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

RNG = np.random.default_rng(3)
EDGES = np.array([-1.5, -0.25, 0.0, 0.5, 2.0])


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins", [1, 7, EDGES])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogram_counts_as_numpy_does(bins: Any, weighted: bool, density: bool) -> None:
    x = RNG.standard_normal((5, 6))
    weight = RNG.random((5, 6)) if weighted else None
    given = ad.tensor(bins) if isinstance(bins, np.ndarray) else bins
    got = ad.tensor(x).histogram(
        given, weight=None if weight is None else ad.tensor(weight), density=density
    )
    hist, edges = np.histogram(x, bins, weights=weight, density=density)
    close(got.hist, hist)
    close(got.bin_edges, edges)


@pytest.mark.parametrize("bins", [3, (2, 4), [EDGES, EDGES[1:]]])
def test_histogramdd_counts_as_numpy_does(bins: Any) -> None:
    x = RNG.standard_normal((40, 2))
    given = [ad.tensor(b) for b in bins] if isinstance(bins, list) else bins
    got = ad.histogramdd(ad.tensor(x), given, density=True)
    hist, edges = np.histogramdd(x, bins, density=True)
    close(got.hist, hist)
    for mine, theirs in zip(got.bin_edges, edges, strict=True):
        close(mine, theirs)


def test_right_edges_and_nan() -> None:
    x = ad.tensor([0.0, 1.0, 2.0, float("nan"), 3.0, -1.0])
    assert ad.histogram(x, 2, range=(0.0, 2.0)).hist.tolist() == [1, 2]


def test_histogram_of_nothing_and_of_one_value() -> None:
    assert ad.histogram(ad.zeros(0), 2).bin_edges.tolist() == [0, 0.5, 1]
    assert ad.histogram(ad.ones(3), 2).bin_edges.tolist() == [0.5, 1, 1.5]


def test_out_takes_the_results() -> None:
    out = ad.empty(0), ad.empty(0)
    ad.histogram(ad.tensor([1.0, 2.0]), 2, out=out)
    assert out[0].tolist() == [1, 1]
    assert out[1].tolist() == [1, 1.5, 2]


X = ad.zeros(3, 2)
BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: ad.histogram(X, 0), RuntimeError, "bins must be > 0"),
    (lambda: ad.histogram(X, 1.5), TypeError, "must be int or Tensor"),
    (lambda: ad.histogram(X, ad.zeros(2), range=(0, 1)), TypeError, "with a number of bins"),
    (lambda: ad.histogram(X.long(), 2), NotImplementedError, "not implemented for"),
    (lambda: ad.histogram(X, ad.zeros(2, 2)), RuntimeError, "should have one dimension"),
    (lambda: ad.histogram(X, ad.zeros(0)), RuntimeError, "at least 1 element"),
    (lambda: ad.histogram(X, ad.zeros(2).double()), RuntimeError, "the same dtype"),
    (lambda: ad.histogram(X, 2, weight=ad.zeros(3, 2).double()), RuntimeError, "the same dtype"),
    (lambda: ad.histogram(X, 2, weight=ad.zeros(3)), RuntimeError, "the shape of the points"),
    (lambda: ad.histogram(X, 2, range=(0, 1, 2)), RuntimeError, "range should have 2 elements"),
    (lambda: ad.histogram(X, 2, range=(1, 0)), RuntimeError, "min should not exceed max"),
    (lambda: ad.histogram(X / 0, 2), RuntimeError, "is not finite"),
    (lambda: ad.histogramdd(X, [2]), RuntimeError, "expected 2 numbers of bins"),
    (lambda: ad.histogramdd(X, [ad.zeros(2)]), RuntimeError, "expected 2 sequences of bin edges"),
    (lambda: ad.histogramdd(ad.zeros(3), 2), RuntimeError, "at least 2 dimensions"),
    (lambda: ad.histogram([1.0]), TypeError, "must be Tensor, not list"),
]


@pytest.mark.parametrize("row", BAD, ids=lambda row: row[2])
def test_refusals(row: tuple[Any, type[Exception], str]) -> None:
    call, kind, part = row
    with pytest.raises(kind, match=part):
        call()
