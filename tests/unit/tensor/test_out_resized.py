"""``out=`` of another shape is resized, with PyTorch's warning unless it was empty."""

from __future__ import annotations

import warnings

import pytest

import adjoint as ad

CALLS = [
    lambda out: ad.add(ad.ones(2), 1, out=out),
    lambda out: ad.cat([ad.ones(1), ad.ones(1)], out=out),
    lambda out: ad.mm(ad.ones(2, 1), ad.ones(1, 1), out=out),
    lambda out: ad.arange(2.0, out=out),
]


@pytest.mark.parametrize("call", CALLS)
def test_an_output_with_elements_is_resized_with_a_warning(call):
    out = ad.zeros(3)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized") as w:
        result = call(out)
    assert result is out
    assert out.numel() == 2
    assert "since it had shape [3], which does not match the required output shape [2" in str(
        w[0].message
    )
    assert w[0].filename == __file__


@pytest.mark.parametrize("call", CALLS)
def test_a_warning_made_an_error_changes_nothing(call):
    out = ad.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="was resized"):
            call(out)
    assert ad.equal(out, ad.zeros(3))


@pytest.mark.parametrize("call", CALLS)
def test_an_empty_or_fitting_output_is_no_reason_to_warn(call):
    out = ad.empty(0)
    call(out)
    again = call(out)
    assert again is out


def test_each_of_several_outputs_warns():
    values, indices = ad.zeros(3), ad.zeros(0, dtype=ad.int64)
    with pytest.warns(UserWarning, match="was resized"):
        ad.max(ad.ones(2, 2), 0, out=(values, indices))
    assert values.shape == indices.shape == (2,)
