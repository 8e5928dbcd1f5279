"""Names of PyTorch that are not there say so."""

from __future__ import annotations

import pickle

import pytest

import adjoint as ad


@pytest.mark.parametrize(
    ("module", "name", "whole"),
    [
        (ad, "hub", "hub"),
        (ad.nn, "QuantStub", "nn.QuantStub"),
        (ad.nn.functional, "scaled_mm", "nn.functional.scaled_mm"),
        (ad.func, "debug_unwrap", "func.debug_unwrap"),
        (ad.optim, "Lion", "optim.Lion"),
        (ad.optim.lr_scheduler, "NoamLR", "optim.lr_scheduler.NoamLR"),
        (ad.nn.init, "delta_", "nn.init.delta_"),
        (ad.nn.utils, "weight_clip", "nn.utils.weight_clip"),
        (ad.autograd, "profiler", "autograd.profiler"),
        (ad.autograd.functional, "lop", "autograd.functional.lop"),
        (ad.utils, "tensorboard", "utils.tensorboard"),
    ],
)
def test_a_missing_name_points_to_the_limits(module: object, name: str, whole: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    text = str(error.value)
    assert f"has no attribute '{name}': adjoint has no {whole} (docs/limits.md" in text
    assert not hasattr(module, name)
    assert pickle.loads(pickle.dumps(error.value)).args == (text,)


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [(ad, "sinn", "sin"), (ad, "zeroes", "zeros"), (ad.func, "jacref", "jacrev")],
)
def test_a_slip_is_told_what_it_may_mean(module: object, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"\. Did you mean (.* or )?{meant}\b.*\?$"):
        getattr(module, name)


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    with pytest.raises(AttributeError, match=r"is not there\)$"):
        _ = ad.xyzzyplugh  # type: ignore[attr-defined]


def test_private_names_and_imports_fail_as_ever() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ad._nothing
    assert str(error.value) == "module 'adjoint' has no attribute '_nothing'"
    with pytest.raises(ImportError, match="cannot import name 'QuantStub'"):
        from adjoint.nn import QuantStub  # type: ignore[attr-defined]  # noqa: F401
