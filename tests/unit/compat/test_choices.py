"""Choices that PyTorch offers and adjoint has made: kept for those that ask, without effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import adjoint as ad


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    ad.use_deterministic_algorithms(False)
    ad.set_float32_matmul_precision("highest")


def state() -> tuple[bool, bool, int]:
    return (
        ad.are_deterministic_algorithms_enabled(),
        ad.is_deterministic_algorithms_warn_only_enabled(),
        ad.get_deterministic_debug_mode(),
    )


def test_determinism_is_remembered() -> None:
    assert state() == (False, False, 0)
    ad.use_deterministic_algorithms(True)
    assert state() == (True, False, 2)
    ad.use_deterministic_algorithms(True, warn_only=True)
    assert state() == (True, True, 1)
    ad.use_deterministic_algorithms(False, warn_only=True)
    assert state() == (False, False, 0)


@pytest.mark.parametrize(
    "mode", [(0, 0), (1, 1), (2, 2), ("default", 0), ("warn", 1), ("error", 2)]
)
def test_debug_modes_are_numbers_or_names(mode: tuple[int | str, int]) -> None:
    ad.set_deterministic_debug_mode(mode[0])
    assert ad.get_deterministic_debug_mode() == mode[1]


def test_other_modes_are_refused_and_change_nothing() -> None:
    ad.set_deterministic_debug_mode(1)
    with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 5"):
        ad.set_deterministic_debug_mode(5)
    with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`, but got x"):
        ad.set_deterministic_debug_mode("x")
    with pytest.raises(TypeError, match=r"debug_mode must be str or int, but got float: 1\.0"):
        ad.set_deterministic_debug_mode(1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"argument 'mode' .* must be bool, not int"):
        ad.use_deterministic_algorithms(1)  # type: ignore[arg-type]
    assert ad.get_deterministic_debug_mode() == 1


def test_precision_of_products_is_remembered() -> None:
    assert ad.get_float32_matmul_precision() == "highest"
    ad.set_float32_matmul_precision("high")
    assert ad.get_float32_matmul_precision() == "high"
    with pytest.raises(RuntimeError, match="'low' is not a valid precision for float32 matmul"):
        ad.set_float32_matmul_precision("low")  # type: ignore[arg-type]
    assert ad.get_float32_matmul_precision() == "high"


def test_default_device_is_the_cpu() -> None:
    ad.set_default_device("cpu")
    ad.set_default_device(None)
    assert ad.get_default_device() == ad.device("cpu")
    with pytest.raises(RuntimeError, match="computes on the CPU only"):
        ad.set_default_device("cuda")


def test_switches_of_other_backends_can_be_set() -> None:
    import adjoint.backends.cudnn as cudnn

    assert not cudnn.is_available() and cudnn.version() is None
    assert not ad.backends.mps.is_available() and not ad.backends.mps.is_built()
    assert not ad.backends.cuda.is_built() and not ad.backends.cuda.matmul.allow_tf32
    assert not cudnn.benchmark
    cudnn.benchmark = True
    try:
        assert ad.backends.cudnn.benchmark
    finally:
        cudnn.benchmark = False


def test_special_functions_have_their_torch_names() -> None:
    x = ad.tensor([0.5, 2.0])
    assert ad.special.expit(x).equal(ad.sigmoid(x))
    assert ad.special.psi(x).equal(ad.digamma(x))
    assert ad.special.i0(x).equal(x.i0())
    with pytest.raises(AttributeError, match=r"adjoint has no special\.bessel_j2"):
        _ = ad.special.bessel_j2


def test_backends_answer_and_keep_what_is_set() -> None:
    found = ad.backends
    assert found.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    assert not found.mkl.is_available() and found.openmp.is_available()
    assert found.quantized.supported_engines == [] and not found.nnpack.is_available()
    with found.nnpack.flags(enabled=True), found.mkl.verbose(found.mkl.VERBOSE_ON):
        assert found.nnpack.set_flags(True) == (True,)
    assert found.mha.get_fastpath_enabled()
    found.mha.set_fastpath_enabled(False)
    assert not found.mha.get_fastpath_enabled()
    found.mha.set_fastpath_enabled(True)
