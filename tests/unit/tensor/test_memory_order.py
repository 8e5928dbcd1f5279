"""In which order the axes of results lie in memory, and what ``memory_format`` does about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad


@pytest.mark.parametrize(
    ("compute", "strides"),
    [
        (lambda: ad.rand(4, 6)[::2].t().exp(), (1, 6)),
        (lambda: ad.rand(4, 6).t() * ad.rand(1), (1, 6)),
        (lambda: ad.rand(4, 6).t() * 2, (1, 6)),
        (lambda: ad.rand(4, 6).t() + ad.rand(6, 4), (1, 6)),
        (lambda: ad.rand(6, 4) + ad.rand(4, 6).t(), (4, 1)),
        (lambda: ad.rand(6, 1) + ad.rand(4), (4, 1)),
        (lambda: ad.rand(4).expand(3, 4) + ad.rand(4, 3).t(), (1, 3)),
        (lambda: ad.rand(4).expand(3, 4).clone(), (4, 1)),
        (lambda: ad.rand(5, 4, 6)[:, ::2].permute(2, 0, 1) < 0, (1, 12, 6)),
        (lambda: ad.zeros_like(ad.rand(4, 6)[:, 1:].t()), (1, 5)),
        (lambda: ad.rand(4, 6)[::2].t().double(), (1, 6)),
        (lambda: ad.where(ad.rand(4, 6).t() > 0, 1.0, 0.0), (1, 6)),
        (lambda: ad.rand(4, 6).t().masked_fill(ad.tensor(True), 0), (4, 1)),
    ],
)
def test_a_result_keeps_the_order_of_its_operands(compute: Any, strides: tuple[int, ...]) -> None:
    assert compute().stride() == strides


def test_values_are_right_in_every_order() -> None:
    x = ad.arange(24.0).view(4, 6)
    y = x[::2].t()
    assert ((y * 2 + y.contiguous()) == y.contiguous() * 3).all()
    assert (ad.where(y > 5, y, -y).contiguous() == ad.where(y.contiguous() > 5, y, -y)).all()


def test_reshape_copies_where_the_order_forbids_a_view() -> None:
    y = ad.rand(4, 6)[::2].t().exp()
    assert y.reshape(-1).data_ptr() != y.data_ptr()
    assert y.t().view(-1).data_ptr() == y.data_ptr()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        y.view(-1)


FORMATS = [
    (ad.contiguous_format, (60, 20, 5, 1)),
    (ad.channels_last, (60, 1, 15, 3)),
    (ad.preserve_format, (1, 2, 6, 24)),
]


@pytest.mark.parametrize(("memory_format", "strides"), FORMATS)
def test_copies_take_the_memory_format(memory_format: Any, strides: tuple[int, ...]) -> None:
    x = ad.rand(5, 4, 3, 2).permute(3, 2, 1, 0)
    copies = [
        x.clone(memory_format=memory_format),
        ad.empty_like(x, memory_format=memory_format),
        ad.ones_like(x, memory_format=memory_format),
        ad.rand_like(x, memory_format=memory_format),
        x.to(ad.float64, memory_format=memory_format),
        x.double(memory_format=memory_format),
    ]
    assert [copy.stride() for copy in copies] == [strides] * len(copies)
    assert (copies[0] == x).all()
    assert (copies[5] == x).all()


def test_contiguous_returns_what_is_already_in_the_format() -> None:
    x = ad.rand(2, 3, 4, 5)
    last = x.contiguous(memory_format=ad.channels_last)
    assert last.contiguous(memory_format=ad.channels_last) is last
    assert last.to(memory_format=ad.channels_last) is last
    assert x.to(memory_format=ad.contiguous_format) is x
    assert (last == x).all()
    assert not last.is_contiguous()
    assert last.is_contiguous(memory_format=ad.channels_last)
    assert not x.is_contiguous(memory_format=ad.channels_last)
    deep = ad.empty(2, 3, 4, 5, 6, memory_format=ad.channels_last_3d)
    assert deep.stride() == (360, 1, 90, 18, 3)
    assert deep.is_contiguous(memory_format=ad.channels_last_3d)


def test_the_gradient_passes_through_a_change_of_format() -> None:
    x = ad.rand(2, 3, 4, 5, requires_grad=True)
    y = x.to(ad.float64, memory_format=ad.channels_last)
    (y * 3).sum().backward()
    assert x.grad is not None
    assert (x.grad == 3).all()


def test_resizing_takes_a_memory_format() -> None:
    flat = ad.rand(24)
    assert flat.resize_(1, 2, 3, 4, memory_format=ad.channels_last).stride() == (24, 1, 8, 2)
    other = ad.rand(24).resize_as_(flat, memory_format=ad.preserve_format)
    assert other.stride() == (24, 1, 8, 2)
    assert ad.rand(24).resize_as_(flat).stride() == (24, 12, 4, 1)


def test_formats_that_do_not_fit_are_refused() -> None:
    x = ad.rand(2, 3)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        x.contiguous(memory_format=ad.channels_last)
    with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d format"):
        ad.empty(2, 3, memory_format=ad.channels_last_3d)
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported"):
        x.contiguous(memory_format=ad.preserve_format)
    assert x.is_contiguous(memory_format=ad.preserve_format) == x.is_contiguous()  # PyTorch too
    with pytest.raises(RuntimeError, match="unsupported memory format option Preserve"):
        ad.empty(2, 3, memory_format=ad.preserve_format)
    with pytest.raises(TypeError, match=r"must be torch\.memory_format, not str"):
        x.clone(memory_format="torch.channels_last")


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("axes", [(2, 0, 1), (1, 0, 2), (0, 1, 2)])
def test_gradients_of_unbind_lie_as_the_tensor_does(axes: tuple[int, ...], dim: int) -> None:
    """So that the views which lead to it from a contiguous tensor are undone without a copy."""
    x = ad.randn(3, 4, 5, requires_grad=True)
    seen = x.permute(*axes)
    seen.retain_grad()
    parts = seen.unbind(dim)
    weights = [ad.randn(*part.shape) for part in parts]
    used = list(zip(parts, weights, strict=True))[1:]  # the first gets no gradient
    sum((part * w).sum() for part, w in used).backward()
    expected = np.stack([np.zeros(weights[0].shape), *(w.numpy() for _, w in used)], axis=dim)
    assert seen.grad is not None and seen.grad.stride() == seen.stride()
    np.testing.assert_array_equal(seen.grad.numpy(), expected)
