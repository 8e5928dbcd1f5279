"""What `torch.cuda` answers where there is no GPU: as PyTorch's build for CPUs does."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad


def test_there_is_nothing_to_count_or_to_keep() -> None:
    cuda = ad.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_bf16_supported()
    assert cuda.max_memory_allocated() == cuda.memory_reserved(0) == 0
    assert cuda.memory_stats() == {} and cuda.get_arch_list() == []
    assert cuda.get_rng_state_all() == []
    cuda.set_rng_state_all([])
    for nothing in (cuda.empty_cache, cuda.reset_peak_memory_stats, cuda.seed_all):
        nothing()


def test_blocks_without_a_gpu_are_ordinary_ones() -> None:
    with ad.cuda.stream(None), ad.cuda.device(None), ad.cuda.device_of(ad.ones(1)):
        assert ad.ones(2).sum() == 2


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda: ad.cuda.get_device_name(0), AssertionError),
        (lambda: ad.cuda.set_device(0), AssertionError),
        (lambda: ad.cuda.device(0).__enter__(), AssertionError),
        (lambda: ad.cuda.set_rng_state_all([ad.get_rng_state()]), AssertionError),
        (lambda: ad.cuda.Event(enable_timing=True), RuntimeError),
        (lambda: ad.cuda.Stream(), RuntimeError),
        (lambda: ad.cuda.FloatTensor(2), TypeError),
        (lambda: ad.cuda.nvtx.range_push("a"), RuntimeError),
    ],
)
def test_what_needs_a_gpu_says_that_there_is_none(use: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="CUDA"):
        use()


def test_no_tensor_is_one_of_a_gpu() -> None:
    assert ad.cuda.LongTensor.dtype == ad.int64
    assert not isinstance(ad.ones(1), (ad.cuda.FloatTensor, ad.cuda.DoubleTensor))
