"""Modules beside torch's: what they show, what they hold, what they draw and what they return."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

Make = Callable[[Any], Any]
Give = Callable[[Any], tuple[Any, ...]]


def numbers(t: Any, *shape: int) -> Any:
    """The same numbers in both libraries, around zero."""
    count = t.arange(float(np.prod(shape)), dtype=t.float32)
    return t.sin(1 + 3 * count).reshape(shape)


def given(*shapes: tuple[int, ...]) -> Give:
    return lambda t: tuple(numbers(t, *shape) for shape in shapes)


def signs(t: Any) -> Any:
    return t.tensor([1, -1, 1, -1])


def labels(t: Any) -> Any:
    return t.tensor([2, 0, 1, 2])


LINE, PLANE, VOLUME = given((2, 3, 5)), given((1, 2, 4, 5)), given((1, 2, 3, 4, 3))
SCORES = given((4, 3))
MODULES: dict[str, tuple[Make, Give]] = {
    "RReLU": (lambda t: t.nn.RReLU(), SCORES),
    "RReLU, in place": (lambda t: t.nn.RReLU(0.1, 0.2, True).eval(), SCORES),
    "Softmin": (lambda t: t.nn.Softmin(1), SCORES),
    "Softmax2d": (lambda t: t.nn.Softmax2d(), PLANE),
    "ZeroPad1d": (lambda t: t.nn.ZeroPad1d((1, 2)), LINE),
    "ZeroPad2d": (lambda t: t.nn.ZeroPad2d(1), PLANE),
    "ZeroPad3d": (lambda t: t.nn.ZeroPad3d(1), VOLUME),
    "ConstantPad1d": (lambda t: t.nn.ConstantPad1d(2, 1.5), LINE),
    "ConstantPad2d": (lambda t: t.nn.ConstantPad2d((1, 0, 2, 1), 1.5), PLANE),
    "ConstantPad3d": (lambda t: t.nn.ConstantPad3d(1, 1.5), VOLUME),
    "ReflectionPad1d": (lambda t: t.nn.ReflectionPad1d(2), LINE),
    "ReflectionPad2d": (lambda t: t.nn.ReflectionPad2d((1, 0, 2, 1)), PLANE),
    "ReflectionPad3d": (lambda t: t.nn.ReflectionPad3d(1), VOLUME),
    "ReplicationPad1d": (lambda t: t.nn.ReplicationPad1d(2), LINE),
    "ReplicationPad2d": (lambda t: t.nn.ReplicationPad2d((1, 0, 2, 1)), PLANE),
    "ReplicationPad3d": (lambda t: t.nn.ReplicationPad3d(1), VOLUME),
    "CircularPad1d": (lambda t: t.nn.CircularPad1d(2), LINE),
    "CircularPad2d": (lambda t: t.nn.CircularPad2d((1, 0, 2, 1)), PLANE),
    "CircularPad3d": (lambda t: t.nn.CircularPad3d(1), VOLUME),
    "PixelShuffle": (lambda t: t.nn.PixelShuffle(2), given((1, 8, 2, 3))),
    "PixelUnshuffle": (lambda t: t.nn.PixelUnshuffle(2), given((1, 2, 4, 6))),
    "ChannelShuffle": (lambda t: t.nn.ChannelShuffle(2), given((1, 6, 2, 3))),
    "PairwiseDistance": (lambda t: t.nn.PairwiseDistance(1.0, keepdim=True), given((4, 3), (3,))),
    "CosineSimilarity": (lambda t: t.nn.CosineSimilarity(0), given((4, 3), (4, 3))),
    "RMSNorm": (lambda t: t.nn.RMSNorm(3), SCORES),
    "RMSNorm of two axes": (lambda t: t.nn.RMSNorm((4, 5), 1e-3, False), PLANE),
    "LocalResponseNorm": (lambda t: t.nn.LocalResponseNorm(2, 0.1), PLANE),
    "CosineEmbeddingLoss": (
        lambda t: t.nn.CosineEmbeddingLoss(0.1),
        lambda t: (numbers(t, 4, 3), numbers(t, 4, 3).cos(), signs(t)),
    ),
    "HingeEmbeddingLoss": (
        lambda t: t.nn.HingeEmbeddingLoss(0.5, reduction="none"),
        lambda t: (numbers(t, 4), signs(t)),
    ),
    "MarginRankingLoss": (
        lambda t: t.nn.MarginRankingLoss(0.5),
        lambda t: (numbers(t, 4), numbers(t, 4).cos(), signs(t)),
    ),
    "SoftMarginLoss": (lambda t: t.nn.SoftMarginLoss(), lambda t: (numbers(t, 4), signs(t))),
    "MultiMarginLoss": (
        lambda t: t.nn.MultiMarginLoss(2, 0.7, numbers(t, 3).abs()),
        lambda t: (numbers(t, 4, 3), labels(t)),
    ),
    "MultiLabelMarginLoss": (
        lambda t: t.nn.MultiLabelMarginLoss(),
        lambda t: (numbers(t, 2, 3), t.tensor([[2, 0, -1], [1, -1, 0]])),
    ),
    "MultiLabelSoftMarginLoss": (
        lambda t: t.nn.MultiLabelSoftMarginLoss(numbers(t, 3).abs()),
        lambda t: (numbers(t, 4, 3), numbers(t, 4, 3).abs()),
    ),
    "TripletMarginLoss": (
        lambda t: t.nn.TripletMarginLoss(2.0, 1, swap=True),
        given((4, 3), (4, 3), (4, 3)),
    ),
    "TripletMarginWithDistanceLoss": (
        lambda t: t.nn.TripletMarginWithDistanceLoss(
            distance_function=t.nn.CosineSimilarity(), margin=2.0
        ),
        given((4, 3), (4, 3), (4, 3)),
    ),
    "PoissonNLLLoss": (
        lambda t: t.nn.PoissonNLLLoss(full=True),
        lambda t: (numbers(t, 4, 3), numbers(t, 4, 3).abs() * 4),
    ),
    "GaussianNLLLoss": (
        lambda t: t.nn.GaussianNLLLoss(full=True),
        lambda t: (numbers(t, 4, 3), numbers(t, 4, 3).cos(), numbers(t, 4, 3).abs()),
    ),
    "Upsample": (lambda t: t.nn.Upsample(scale_factor=2, mode="bilinear"), PLANE),
    "Upsample to a size": (lambda t: t.nn.Upsample((3, 7)), PLANE),
    "UpsamplingNearest2d": (lambda t: t.nn.UpsamplingNearest2d(scale_factor=2), PLANE),
    "UpsamplingBilinear2d": (lambda t: t.nn.UpsamplingBilinear2d((3, 7)), PLANE),
    "EmbeddingBag": (
        lambda t: t.nn.EmbeddingBag(5, 3, padding_idx=2),
        lambda t: (t.tensor([[0, 2, 1], [4, 4, 2]]),),
    ),
    "EmbeddingBag with offsets": (
        lambda t: t.nn.EmbeddingBag(5, 3, max_norm=1.0, mode="sum"),
        lambda t: (t.tensor([0, 2, 1, 4, 4]), t.tensor([0, 0, 3]), numbers(t, 5)),
    ),
    "CTCLoss": (
        lambda t: t.nn.CTCLoss(blank=1),
        lambda t: (numbers(t, 6, 2, 4), t.tensor([[0, 2, 3], [3, 3, 1]]), (6, 5), (3, 2)),
    ),
    "MultiheadAttention": (
        lambda t: t.nn.MultiheadAttention(4, 2, add_bias_kv=True),
        given((3, 2, 4), (5, 2, 4), (5, 2, 4)),
    ),
    "NLLLoss2d": (
        lambda t: t.nn.NLLLoss2d(),
        lambda t: (numbers(t, 2, 3, 2, 2), t.tensor([[[0, 1], [2, 1]], [[2, 2], [0, 1]]])),
    ),
}


def tensors(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [t for v in value for t in tensors(v)]
    return [value] if hasattr(value, "detach") else []


def made(t: Any, make: Make) -> Any:
    t.manual_seed(7)
    return make(t)


def run(t: Any, make: Make, give: Give) -> tuple[Any, list[Any], list[Any]]:
    """The module, its results, and the gradients of its parameters and arguments."""
    module, args = made(t, make), give(t)
    for a in args:
        if hasattr(a, "is_floating_point") and a.is_floating_point():
            a.requires_grad_()
    t.manual_seed(11)
    results = tensors(module(*[a + 0 if hasattr(a, "detach") else a for a in args]))
    leaves = [*module.parameters(), *(a for a in tensors(args) if a.requires_grad)]
    total = sum((r * numbers(t, *r.shape)).sum() for r in results if r.requires_grad)
    grads = t.autograd.grad(total, leaves, allow_unused=True) if leaves and results else []
    return module, results, list(grads)


def same(ours: Any, theirs: Any, what: str) -> None:
    assert (ours is None) == (theirs is None), what
    if ours is not None:
        assert str(ours.dtype) == str(theirs.dtype), what
        np.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), 2e-5, 2e-6, err_msg=what
        )


@pytest.mark.parametrize("name", MODULES)
def test_a_module_shows_holds_and_returns_what_torchs_does(name: str) -> None:
    make, give = MODULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (ours, results, grads), (theirs, wanted, want) = run(ad, make, give), run(torch, make, give)
    assert repr(ours) == repr(theirs)
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(other)
    for key in other:
        same(mine[key], other[key], key)
    assert len(results) == len(wanted)
    for i, (a, b) in enumerate(zip(results, wanted, strict=True)):
        same(a, b, f"result {i}")
    for i, (a, b) in enumerate(zip(grads, want, strict=True)):
        same(a, b, f"gradient {i}")


def test_normalisation_across_maps_has_torchs_values() -> None:
    """Its gradient in torch is not that of its values."""
    for channels in (1, 3, 7):
        ours, theirs = (t.nn.CrossMapLRN2d(3, 0.1) for t in (ad, torch))
        assert repr(ours) == repr(theirs)
        shape = (2, channels, 2, 3)
        same(ours(numbers(ad, *shape)), theirs(numbers(torch, *shape)), "value")
        assert ad.autograd.gradcheck(ours, (numbers(ad, *shape).double().requires_grad_(),))
