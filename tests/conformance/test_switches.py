"""What is switched on or off takes a bool, as in PyTorch: anything else changes nothing."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

SWITCHES = [
    "set_autocast_cpu_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_gpu_dtype",
    "set_grad_enabled",
    "set_anomaly_enabled",
    "set_warn_always",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "use_deterministic_algorithms",
    "set_default_dtype",
    "autograd.set_detect_anomaly",
    "autograd.set_multithreading_enabled",
]
JUNK = {"text": "no", "None": None, "fraction": 0.5, "list": [1], "tensor": "a tensor"}


def error_of(library: Any, name: str, junk: Any) -> type | None:
    function = library
    for part in name.split("."):
        function = getattr(function, part)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(library.ones(2) if junk == "a tensor" else junk)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
@pytest.mark.parametrize("name", SWITCHES)
def test_junk_is_refused_as_in_torch(name: str, junk: Any) -> None:
    theirs = error_of(torch, name, junk)
    assert theirs is not None
    assert error_of(ad, name, junk) is theirs
