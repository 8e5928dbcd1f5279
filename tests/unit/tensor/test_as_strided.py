"""The gradient of as_strided in every geometry: overlapping, outside the input, expanded."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck


@pytest.mark.parametrize(
    ("count", "prepare", "size", "stride", "offset"),
    [
        (25, lambda x: x.view(5, 5), [3, 3], [6, 2], 2),
        (12, None, [1, 2, 1, 5], [0, 5, 100, 1], 2),
        (5, None, [3, 3, 3], [0, 1, 0], 2),
        (5, None, [3, 3, 3], [0, 0, 0], 4),
        (5, lambda x: x.expand(3, 5), [5, 5], [0, 1], 0),
        (35, None, [6, 6], [5, 1], 2),
        (15, None, [3, 2], [3, 6], 2),
        (12, lambda x: x.view(3, 4), [4, 3], [1, 4], None),
        (6, lambda x: x.view(2, 3).expand(4, 2, 3), [2, 3], [3, 1], 0),
        (4, None, [0, 3], [1, 1], 0),
    ],
)
def test_against_differences(count, prepare, size, stride, offset):
    x = ad.rand(count, dtype=ad.float64, requires_grad=True)

    def f(x):
        y = x.clone() if prepare is None else prepare(x.clone())
        return y.as_strided(size, stride, offset)

    assert gradcheck(f, x)
    assert gradgradcheck(f, x)


def test_memory_outside_of_the_input_has_no_gradient():
    x = ad.rand(6, 2, dtype=ad.float64)
    part = x[3:].detach().requires_grad_()
    y = part.as_strided([4, 2], [2, 1], 0)
    assert y.tolist() == x[:4].tolist()
    y.sum().backward()
    assert part.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_gradients_that_start_in_the_middle_of_memory():
    x = ad.rand(5, dtype=ad.float64, requires_grad=True)
    y = x.as_strided([2, 3], [1, 1])
    grads = ad.rand(2, 2, 3, dtype=ad.float64)
    for g in grads:
        (got,) = ad.autograd.grad(y, x, g, retain_graph=True)
        (alone,) = ad.autograd.grad(y, x, g.clone(), retain_graph=True)
        assert got.tolist() == alone.tolist()


def test_views_as_a_larger_dtype_name_what_does_not_fit():
    a = ad.zeros(4, 4, 3)
    with pytest.raises(RuntimeError, match=r"self.size\(-1\) must be divisible by 2"):
        a.view(ad.float64)
    with pytest.raises(RuntimeError, match=r"self.storage_offset\(\) must be divisible by 2"):
        a[:, :, 1:].view(ad.float64)
    with pytest.raises(RuntimeError, match=r"self.stride\(1\) must be divisible by 2"):
        a.as_strided((4, 4, 2), (2, 1, 1)).view(ad.float64)


def test_new_axes_of_length_one_have_the_strides_of_unsqueeze():
    x = ad.rand(5)
    assert x.expand(1, 1, 5).stride() == x.unsqueeze(0).unsqueeze(0).stride() == (5, 5, 1)
    assert x.expand(3, 1, 5).stride() == (0, 5, 1)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("view_copy", ((2, 2),)),
        ("diagonal_copy", ()),
        ("expand_copy", ((3, 4),)),
        ("t_copy", ()),
        ("unsqueeze_copy", (0,)),
        ("split_copy", (2,)),
        ("unbind_copy", ()),
    ],
)
def test_copies_instead_of_views(name, args):
    x = ad.rand(4, requires_grad=True)
    if name in ("diagonal_copy", "t_copy"):
        x = ad.rand(3, 3, requires_grad=True)
    got = getattr(ad, name)(x, *args)
    seen = getattr(ad.Tensor, name.removesuffix("_copy"))(x, *args)
    for a, b in zip(got, seen, strict=True):
        assert a.tolist() == b.tolist()
    parts = got if isinstance(got, tuple) else (got,)
    for part in parts:
        assert not part._is_view()
        part.mul_(2)
    with ad.no_grad():
        out = tuple(ad.empty(0) for _ in parts)
        getattr(ad, name)(x, *args, out=out if isinstance(got, tuple) else out[0])
        assert [o.tolist() for o in out] == [
            s.tolist() for s in (seen if isinstance(got, tuple) else (seen,))
        ]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        getattr(ad, name)(x, *args, out=out if isinstance(got, tuple) else out[0])
