"""embedding_bag and ctc_loss beside torch's, on drawn calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")


def compared(run: Any, tolerance: float, label: str) -> None:
    """Results and gradients of a call in both libraries."""
    for i, (a, b) in enumerate(zip(run(ad), run(torch), strict=True)):
        assert tuple(a.shape) == tuple(b.shape), f"{label}: {i}"
        np.testing.assert_allclose(
            a.detach().numpy(), b.detach().numpy(), tolerance, tolerance, err_msg=f"{label}: {i}"
        )


@pytest.mark.parametrize("seed", range(12))
def test_bags_are_torchs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = (np.float32, np.float64)[seed % 2]
    mode = ("sum", "mean", "max")[seed % 3]
    rows, width = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    kwargs: dict[str, Any] = {"mode": mode}
    offsets: Any = None
    if seed % 4 == 0:
        index = rng.integers(0, rows, (3, 2))
    else:
        index = rng.integers(0, rows, int(rng.integers(1, 8)))
        offsets = np.sort(rng.integers(0, index.size + 1, 4))
        offsets[0] = 0
        if seed % 4 == 1:
            kwargs["include_last_offset"] = True
            offsets[-1] = index.size
    if rng.random() < 0.4:
        kwargs["padding_idx"] = int(rng.integers(-rows, rows))
    if rng.random() < 0.3 and mode != "max":  # of equal rows, either may be the largest
        kwargs["max_norm"] = 0.7
    table = rng.standard_normal((rows, width)).astype(dtype)
    shares = rng.standard_normal(index.shape).astype(dtype) if mode == "sum" else None

    def run(t: Any) -> list[Any]:
        weight = t.from_numpy(table.copy()).requires_grad_()
        given = None if shares is None else t.from_numpy(shares.copy()).requires_grad_()
        starts = None if offsets is None else t.from_numpy(offsets)
        bags = t.nn.functional.embedding_bag(
            t.from_numpy(index), weight, starts, per_sample_weights=given, **kwargs
        )
        leaves = [x for x in (weight, given) if x is not None]
        return [bags, *t.autograd.grad((bags**2).sum(), leaves), weight]

    compared(run, 1e-10 if dtype is np.float64 else 1e-4, str(kwargs))


def test_a_row_is_scaled_by_how_often_it_was_looked_up() -> None:
    """In torch by how often another one was."""
    weight = ad.ones(3, 2, requires_grad=True)
    index = ad.tensor([1, 1, 2, 1])
    bags = ad.nn.functional.embedding_bag(
        index, weight, ad.tensor([0]), mode="sum", scale_grad_by_freq=True
    )
    bags.sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[0, 0], [1, 1], [1, 1]]


@pytest.mark.parametrize("seed", range(12))
def test_losses_of_sequences_are_torchs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = (np.float32, np.float64)[seed % 2]
    times, samples, classes = (int(rng.integers(a, b)) for a, b in ((1, 9), (1, 4), (2, 6)))
    blank = int(rng.integers(0, classes))
    inputs = [int(rng.integers(1, times + 1)) for _ in range(samples)]
    labels = [int(rng.integers(0, 5)) for _ in range(samples)]
    others = [c for c in range(classes) if c != blank]
    table = rng.choice(others, (samples, max(*labels, 1, 1)))
    joined = np.concatenate([row[:n] for row, n in zip(table, labels, strict=True)])
    targets = joined if seed % 3 == 0 else table
    reduction, zero = ("mean", "sum", "none")[seed % 3], bool(seed & 4)
    logits = rng.standard_normal((times, samples, classes)).astype(dtype)

    def run(t: Any) -> list[Any]:
        x = t.from_numpy(logits.copy()).requires_grad_()
        lengths = (inputs, labels)
        if seed % 2:
            lengths = (t.tensor(inputs), t.tensor(labels))
        loss = t.nn.functional.ctc_loss(
            x.log_softmax(2), t.from_numpy(targets), *map(tuple_or_tensor, lengths), blank,
            reduction, zero,
        )  # fmt: skip
        return [loss, *t.autograd.grad(loss.sum(), x)]

    compared(run, 1e-8 if dtype is np.float64 else 2e-3, f"{times} {inputs} {labels}")


def tuple_or_tensor(lengths: Any) -> Any:
    return tuple(lengths) if isinstance(lengths, list) else lengths


def test_the_loss_of_a_sequence_has_derivatives_of_the_second_order_and_forward() -> None:
    ad.manual_seed(0)
    x = ad.randn(6, 2, 4, dtype=ad.float64, requires_grad=True)
    targets = ad.tensor([[1, 1, 2], [3, 2, 0]])

    def loss(x: ad.Tensor) -> ad.Tensor:
        logs = x.log_softmax(2)
        return ad.nn.functional.ctc_loss(logs, targets, (6, 5), (3, 2), reduction="none")

    assert ad.autograd.gradcheck(loss, (x,), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(loss, (x,))


def test_one_sequence_needs_no_axis_for_samples() -> None:
    logits = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)

    def run(t: Any) -> list[Any]:
        x = t.from_numpy(logits.copy()).requires_grad_()
        loss = t.nn.functional.ctc_loss(
            x.log_softmax(1), t.tensor([1, 2]), t.tensor(5), t.tensor(2), reduction="none"
        )
        return [loss, *t.autograd.grad(loss, x)]

    compared(run, 1e-5, "one sequence")
