"""resize_, resize_as_, fill_diagonal_, renorm_: in-place methods that are not ops of their own."""

from __future__ import annotations

import pytest

import adjoint as ad


def test_resize_keeps_elements_in_their_place_in_memory() -> None:
    x = ad.arange(6.0)
    address = x.data_ptr()
    assert x.resize_(2, 3) is x and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.resize_((2,)).tolist() == [0, 1]
    assert x.resize_(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]] and x.data_ptr() == address
    assert x.resize_([]).item() == 0
    assert x.resize_(0, 4).shape == (0, 4)


def test_resize_of_strided_and_shifted_tensors_reads_on_in_memory() -> None:
    base = ad.arange(6.0).reshape(2, 3)
    assert base.t().resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert base[1:].resize_(2).tolist() == [3, 4]


def test_resize_to_more_keeps_what_was_there() -> None:
    x = ad.arange(3)
    x.resize_(2, 4)
    assert x.shape == (2, 4) and x.flatten()[:3].tolist() == [0, 1, 2]
    assert x.is_contiguous()
    assert x.resize_as_(ad.zeros(2, 2)).tolist()[0] == [0, 1]


def test_resize_refuses_what_it_cannot_do() -> None:
    x = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        x.resize_(2)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        ad.ones(3).resize_(-1)
    with pytest.raises(TypeError, match="'size' must be a tuple of ints"):
        ad.ones(3).resize_(1.5)


def test_a_value_kept_for_backward_may_not_be_resized() -> None:
    w, x = ad.ones(3, requires_grad=True), ad.arange(3.0)
    for size in ((3, 1), (9,)):
        y = (w * x).sum()
        x.resize_(size)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.backward()
        x = ad.arange(3.0)


def test_a_view_does_not_grow_beyond_its_base() -> None:
    base = ad.arange(6.0)
    assert base[2:4].resize_(4).tolist() == [2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="a view cannot grow"):
        base[2:4].resize_(5)
    assert base.tolist() == [0, 1, 2, 3, 4, 5]


def test_fill_diagonal_sets_equal_indices() -> None:
    assert ad.zeros(2, 3).fill_diagonal_(5).tolist() == [[5, 0, 0], [0, 5, 0]]
    cube = ad.zeros(2, 2, 2).fill_diagonal_(1)
    assert cube[0, 0, 0] == 1 and cube[1, 1, 1] == 1 and cube.sum() == 2
    tall = ad.zeros(7, 2)
    assert tall.fill_diagonal_(1).nonzero().tolist() == [[0, 0], [1, 1]]
    wrapped = [[0, 0], [1, 1], [3, 0], [4, 1], [6, 0]]
    assert tall.fill_diagonal_(1, wrap=True).nonzero().tolist() == wrapped
    strided = ad.zeros(3, 2).t()
    assert strided.fill_diagonal_(2).tolist() == [[2, 0, 0], [0, 2, 0]]


def test_fill_diagonal_stops_the_gradient_there() -> None:
    x = ad.ones(2, 2, requires_grad=True)
    (x * 3).fill_diagonal_(0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 3], [3, 0]]


def test_fill_diagonal_refuses_other_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"larger than 1.*\[3\]"):
        ad.zeros(3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match=r"equal length.*\[2, 2, 3\]"):
        ad.zeros(2, 2, 3).fill_diagonal_(1)


def test_renorm_in_place_gives_values_and_gradients_of_renorm() -> None:
    x = ad.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=ad.float64, requires_grad=True)
    y = x.clone()
    assert y.renorm_(2, 0, 1.0) is y
    want = ad.renorm(x, 2, 0, 1.0)
    assert ad.equal(y, want)
    (g,) = ad.autograd.grad(y.pow(2).sum(), x)
    (h,) = ad.autograd.grad(want.pow(2).sum(), x)
    assert ad.allclose(g, h)


def test_a_number_can_be_copied_into_a_tensor() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    y = (x * 2).copy_(1.5)
    y.sum().backward()
    assert (y == 1.5).all() and x.grad is not None and not x.grad.any()
    assert ad.zeros(2, dtype=ad.int64).copy_(1.7).tolist() == [1, 1]
    assert ad.func.vmap(lambda row: row.clone().copy_(2.0))(ad.ones(2, 3)).sum() == 12
    tangent = ad.func.jvp(lambda x: x.clone().copy_(2.0), (ad.ones(2),), (ad.ones(2),))[1]
    assert not tangent.any()


def test_amax_of_no_axes_named_is_that_of_all() -> None:
    x = ad.arange(6.0).reshape(2, 3)
    assert x.amax(None) == 5 and ad.amin(x, dim=None, keepdim=True).shape == (1, 1)
    assert ad.func.grad(lambda x: x.amax(None))(x).sum() == 1
    assert ad.func.vmap(lambda row: row.amin(None))(x).tolist() == [0.0, 3.0]
