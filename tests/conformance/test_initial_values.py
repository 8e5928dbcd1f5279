"""The initialisers of nn.init draw PyTorch's numbers from the same seed, to the last bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform_": lambda i, x: i.uniform_(x, -1, 2),
    "normal_": lambda i, x: i.normal_(x, 1, 2),
    "trunc_normal_": lambda i, x: i.trunc_normal_(x, 0.1, 0.5, -0.3, 1),
    "trunc_normal_ far out": lambda i, x: i.trunc_normal_(x, 0, 1, 2, 3),
    "constant_": lambda i, x: i.constant_(x, 3),
    "ones_": lambda i, x: i.ones_(x),
    "zeros_": lambda i, x: i.zeros_(x),
    "eye_": lambda i, x: i.eye_(x),
    "dirac_": lambda i, x: i.dirac_(x),
    "dirac_ in groups": lambda i, x: i.dirac_(x, 2),
    "xavier_uniform_": lambda i, x: i.xavier_uniform_(x, 2.0),
    "xavier_normal_": lambda i, x: i.xavier_normal_(x),
    "kaiming_uniform_": lambda i, x: i.kaiming_uniform_(x, 0.1),
    "kaiming_normal_": lambda i, x: i.kaiming_normal_(x, mode="fan_out", nonlinearity="relu"),
    "sparse_": lambda i, x: i.sparse_(x, 0.3),
    "old name": lambda i, x: i.xavier_uniform(x),
    "bad mode": lambda i, x: i.kaiming_normal_(x, mode="fan"),
}
SHAPES = [(4, 6), (20, 7), (4, 2, 3), (6, 2, 3, 3), (5,), (0, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_an_initialiser_draws_the_same_numbers(name: str, shape: tuple[int, ...]) -> None:
    def outcome(t: Any) -> Any:
        t.manual_seed(5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                filled = CALLS[name](t.nn.init, t.full(shape, 9.0)).tolist()
            except (ValueError, ZeroDivisionError) as error:
                filled = [type(error).__name__, str(error)]
        return filled, [str(w.message) for w in caught], t.rand(1).item()

    ours, theirs = outcome(ad), outcome(torch)
    if theirs[0] and isinstance(theirs[0][0], str):
        assert ours == theirs
    else:
        np.testing.assert_array_equal(np.array(ours[0]), np.array(theirs[0]))
        assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (4, 2, 3)], ids=str)
def test_orthogonal_matrices_are_those_of_torch_to_rounding(shape: tuple[int, ...]) -> None:
    made = []
    for t in (ad, torch):
        t.manual_seed(5)
        made.append(np.array(t.nn.init.orthogonal_(t.empty(shape), 2.0).tolist()))
    np.testing.assert_allclose(*made, rtol=1e-5, atol=1e-5)


def test_gains_are_those_of_torch() -> None:
    names = ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
    for name in names:
        assert ad.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert ad.nn.init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain(
        "leaky_relu", 0.2
    )
