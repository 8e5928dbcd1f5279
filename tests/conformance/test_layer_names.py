"""Layers at the top level take their arguments in torch's order, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")


def numbers(t: Any, *shape: int) -> Any:
    count = t.arange(float(t.ones(shape).numel()), dtype=t.float64)
    return t.sin(1 + 3 * count).reshape(shape)


CALLS: dict[str, Callable[[Any], Any]] = {
    "conv1d": lambda t: t.conv1d(numbers(t, 2, 3, 8), numbers(t, 4, 3, 3), None, 2, 1),
    "conv2d": lambda t: t.conv2d(
        numbers(t, 1, 2, 5, 5), numbers(t, 2, 1, 3, 3), numbers(t, 2), padding=1, groups=2
    ),
    "conv3d": lambda t: t.conv3d(numbers(t, 1, 1, 3, 3, 3), numbers(t, 1, 1, 2, 2, 2)),
    "max_pool1d": lambda t: t.max_pool1d(numbers(t, 1, 2, 6), 2),
    "max_pool2d": lambda t: t.max_pool2d(numbers(t, 1, 2, 6, 6), (2, 3), stride=2, padding=1),
    "max_pool3d": lambda t: t.max_pool3d(numbers(t, 1, 1, 4, 4, 4), 2),
    "prelu": lambda t: t.prelu(numbers(t, 2, 3), numbers(t, 3)),
    "bilinear": lambda t: t.bilinear(numbers(t, 4, 2), numbers(t, 4, 3), numbers(t, 5, 2, 3), None),
    "cosine_similarity": lambda t: t.cosine_similarity(numbers(t, 4, 3), numbers(t, 3), 1),
    "batch_norm": lambda t: t.batch_norm(
        numbers(t, 4, 3),
        numbers(t, 3),
        None,
        numbers(t, 3),
        numbers(t, 3) ** 2,
        False,
        0.1,
        1e-5,
        False,
    ),
    "batch_norm in training": lambda t: t.batch_norm(
        numbers(t, 4, 3), None, numbers(t, 3), None, None, True, 0.1, 1e-5, True
    ),
    "instance_norm": lambda t: t.instance_norm(
        numbers(t, 2, 3, 4), numbers(t, 3), numbers(t, 3), None, None, True, 0.1, 1e-5, True
    ),
    "group_norm": lambda t: t.group_norm(numbers(t, 2, 4, 3), 2, numbers(t, 4), None, 1e-5, True),
    "kl_div": lambda t: t.kl_div(numbers(t, 3, 2), numbers(t, 3, 2).abs()),
    "kl_div, no reduction": lambda t: t.kl_div(
        numbers(t, 3, 2), numbers(t, 3, 2), 0, log_target=True
    ),
    "kl_div, mean": lambda t: t.kl_div(numbers(t, 3, 2), numbers(t, 3, 2).abs(), 1),
    "ctc_loss": lambda t: t.ctc_loss(
        t.log_softmax(numbers(t, 6, 2, 4), -1), t.tensor([[1, 2], [3, 3]]), [6, 5], [2, 2], 0, 2
    ),
    "kl_div, summed": lambda t: t.kl_div(numbers(t, 3, 2), numbers(t, 3, 2).abs(), reduction=2),
    "alpha_dropout": lambda t: t.alpha_dropout(numbers(t, 3, 2), 0.5, False),
    "alpha_dropout_": lambda t: t.alpha_dropout_(numbers(t, 3, 2), 0.5, False),
    "feature_alpha_dropout": lambda t: t.feature_alpha_dropout(numbers(t, 3, 2), 0.5, False),
    "feature_alpha_dropout_": lambda t: t.feature_alpha_dropout_(numbers(t, 3, 2), 0.5, False),
    "selu_": lambda t: t.selu_(numbers(t, 3, 2)),
    "celu_": lambda t: t.celu_(numbers(t, 3, 2), 0.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_gives_the_same_numbers(name: str) -> None:
    ours, theirs = CALLS[name](ad), CALLS[name](torch)
    assert list(ours.shape) == list(theirs.shape)
    ad.testing.assert_close(ours, ad.from_numpy(theirs.numpy()))


def test_layers_of_nn_functional_are_at_the_top_level_where_torch_has_them() -> None:
    functional = ad.nn.functional
    names = [n for n in dir(torch) if not n.startswith("_") and hasattr(functional, n)]
    assert len(names) > 20
    # torch.embedding_bag returns tables for its backward pass beside the result.
    assert [n for n in names if not hasattr(ad, n)] == ["embedding_bag"]
