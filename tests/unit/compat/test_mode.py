"""The most frequent value: ties, places, NaN. (Derivatives: tests/ops.)"""

from __future__ import annotations

import adjoint as ad


def test_the_smallest_of_equally_frequent_values_at_its_last_place() -> None:
    values, indices = ad.tensor([3, 1, 3, 2, 1]).mode()
    assert (values.item(), indices.item()) == (1, 4)
    found = ad.mode(ad.tensor([[0, 1, 1], [0, 1, 1], [2, 0, 1]]), 0)
    assert found.values.tolist() == [0, 1, 1] and found.indices.tolist() == [1, 1, 2]


def test_the_gradient_goes_to_the_place_that_was_taken() -> None:
    x = ad.tensor([2.0, 5.0, 5.0, 1.0], requires_grad=True)
    x.mode().values.backward()
    assert x.grad is not None and x.grad.tolist() == [0, 0, 1, 0]
