"""What holds for all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest

import adjoint as ad


def pytest_configure() -> None:
    """Let Ctrl-C raise: a shell starts what it runs in the background with SIGINT ignored."""
    gc.disable()  # until all tests are collected
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Spare the garbage collector the tests themselves: thousands that it would walk each time."""
    spare_collector()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def what_ran_is_spared() -> None:
    """And what pytest keeps of each test that has run, and modules that tests have imported."""
    spare_collector()


def spare_collector() -> None:
    gc.collect()
    gc.freeze()


def switched() -> dict[str, object]:
    """What a program sets for everything that comes after."""
    return {
        "grad": ad.is_grad_enabled(),
        "inference": ad.is_inference_mode_enabled(),
        "anomaly": ad.is_anomaly_enabled(),
        "autocast": (ad.is_autocast_enabled("cpu"), ad.get_autocast_dtype("cpu")),
        "autocast cache": ad.is_autocast_cache_enabled(),
        "default dtype": ad.get_default_dtype(),
        "deterministic": ad.get_deterministic_debug_mode(),
        "threads": ad.get_num_threads(),
    }


@pytest.fixture(autouse=True)
def nothing_is_left_switched() -> Iterator[None]:
    """A test that leaves something on fails itself, not those that follow it in its process."""
    before = switched()
    yield
    after = switched()
    if after != before:
        ad.set_grad_enabled(bool(before["grad"]))
        ad.set_autocast_enabled("cpu", False)
        ad.set_autocast_dtype("cpu", ad.bfloat16)
        ad.set_autocast_cache_enabled(True)
        ad.autograd.set_detect_anomaly(False)
        ad.set_default_dtype(before["default dtype"])
        ad.set_deterministic_debug_mode(before["deterministic"])
        ad.set_num_threads(before["threads"])
    assert after == before
