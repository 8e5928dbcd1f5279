"""Names of PyTorch that are not there say so."""

from __future__ import annotations

import pickle

import pytest

import adjoint as ad


@pytest.mark.parametrize(
    ("module", "name", "whole"),
    [
        (ad, "fft", "fft"),
        (ad.nn, "LSTM", "nn.LSTM"),
        (ad.nn.functional, "grid_sample", "nn.functional.grid_sample"),
        (ad.func, "debug_unwrap", "func.debug_unwrap"),
    ],
)
def test_a_missing_name_points_to_the_limits(module: object, name: str, whole: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    text = str(error.value)
    assert f"has no attribute '{name}': adjoint has no {whole} (docs/limits.md" in text
    assert not hasattr(module, name)
    assert pickle.loads(pickle.dumps(error.value)).args == (text,)


def test_private_names_and_imports_fail_as_ever() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ad._nothing
    assert str(error.value) == "module 'adjoint' has no attribute '_nothing'"
    with pytest.raises(ImportError, match="cannot import name 'LSTM'"):
        from adjoint.nn import LSTM  # type: ignore[attr-defined]  # noqa: F401
