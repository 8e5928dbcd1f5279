"""Devices: every name that PyTorch knows can be made; only the CPU holds tensors."""

from __future__ import annotations

import io
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from tests.errors.table import Row, check, refusals

NAMES = ["cpu", "cpu:1", "cuda", "cuda:0", "mps", "mps:1", "meta", "xpu", "hip", "privateuseone:0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_device_of_torchs_can_be_made(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = ad.device(name), torch.device(name)
    assert repr(ours) == repr(theirs) and str(ours) == str(theirs) == name
    assert (ours.type, ours.index) == (theirs.type, theirs.index)
    assert ours == ad.device(ours) and hash(ours) == hash(ad.device(name))


def test_the_number_may_stand_apart() -> None:
    assert ad.device("cuda", 1) == ad.device("cuda:1") == ad.device(type="cuda", index=1)
    assert ad.device("cuda") != ad.device("cuda:0") != ad.device("cpu:0")


def test_devices_compare_and_hash_by_value() -> None:
    assert ad.device("cpu:0") == ad.device("cpu", 0) != ad.device("cpu")
    assert len({ad.device("cpu"), ad.device(ad.device("cpu"))}) == 1
    assert ad.device("cpu").index is None and str(ad.device("cpu:1")) == "cpu:1"


def test_a_device_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="not writable"):
        ad.device("cpu").type = "cuda"  # type: ignore[misc]


def given(device: Any) -> list[Row]:
    there = "device 'cuda:1' is not available: adjoint computes on the CPU only"
    x = ad.ones(2)
    return [
        (lambda: ad.zeros(2, device=device), RuntimeError, there),
        (lambda: ad.tensor([1.0], device=device), RuntimeError, there),
        (lambda: ad.as_tensor([1.0], device=device), RuntimeError, there),
        (lambda: ad.zeros_like(x, device=device), RuntimeError, there),
        (lambda: ad.randn(2, device=device), RuntimeError, there),
        (lambda: x.new_ones(2, device=device), RuntimeError, there),
        (lambda: x.new_tensor(2, device=device), RuntimeError, there),
        (lambda: x.to(device), RuntimeError, "the device 'cuda:1' is not available"),
        (lambda: nn.Linear(2, 2, device=device), RuntimeError, there),
        (lambda: nn.Linear(2, 2).to(device), RuntimeError, there),
        (lambda: ad.set_default_device(device), RuntimeError, there),
        (lambda: ad.Generator(device), RuntimeError, there),
        (lambda: ad.load(io.BytesIO(), map_location=device), RuntimeError, there),
        (lambda: ad.device(device).__enter__(), RuntimeError, there),
    ]


@refusals(*given("cuda:1"), *given(ad.device("cuda", 1)))
def test_nothing_can_be_put_on_another_device(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.device("gpu"), RuntimeError, "Expected one of cpu, cuda"),
    (lambda: ad.device("CUDA"), RuntimeError, "at start of device string: CUDA"),
    (lambda: ad.device("cuda:"), RuntimeError, "Invalid device string: 'cuda:'"),
    (lambda: ad.device("cuda:01"), RuntimeError, "Invalid device string: 'cuda:01'"),
    (lambda: ad.device("cuda:-1"), RuntimeError, "Invalid device string: 'cuda:-1'"),
    (lambda: ad.device("cuda:0", 1), RuntimeError, "index was passed explicitly: cuda:0"),
    (lambda: ad.device("cuda", -1), RuntimeError, "must not be negative, got -1"),
    (lambda: ad.device("cuda", "1"), TypeError, "(position 2) must be int, not str"),
    (lambda: ad.device("cuda", True), TypeError, "(position 2) must be int, not bool"),
    (lambda: ad.device(0), RuntimeError, "is a number of an accelerator, and there is none"),
    (lambda: ad.device(1.0), TypeError, "(position 1) must be str, not float"),
    (lambda: ad.zeros(2, device=0), RuntimeError, "device(0) is a number of an accelerator"),
    (lambda: nn.Linear(2, 2).to(0), RuntimeError, "device(0) is a number of an accelerator"),
)
def test_what_is_not_the_name_of_a_device_is_refused(row: Row) -> None:
    check(row)
