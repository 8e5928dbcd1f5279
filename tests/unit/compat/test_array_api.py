"""The array API standard: names that PyTorch lacks, and what the namespace says of itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

X = ad.tensor([[3.0, 1.0], [2.0, 3.0]])
V = ad.tensor([3, 1, 3, 2])


def test_a_tensor_names_its_namespace() -> None:
    assert X.__array_namespace__() is ad
    assert X.__array_namespace__(api_version="2023.12") is ad
    with pytest.raises(ValueError, match="not known"):
        X.__array_namespace__(api_version="1999.01")


def test_a_tensor_stays_on_the_cpu() -> None:
    assert X.to_device(ad.device("cpu")) is X
    with pytest.raises(ValueError, match="no streams"):
        X.to_device("cpu", stream=1)


def test_the_namespace_describes_itself() -> None:
    info = ad.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() == ad.device("cpu")
    assert info.devices() == [ad.device("cpu")]
    assert info.default_dtypes()["real floating"] == ad.float32
    assert info.dtypes(kind="bool") == {"bool": ad.bool}
    assert set(info.dtypes(kind=("real floating", "bool"))) == {"float32", "float64", "bool"}
    assert "complex128" in info.dtypes()


@pytest.mark.parametrize(
    ("dtype", "kind", "wanted"),
    [
        (ad.int16, "signed integer", True),
        (ad.uint8, "signed integer", False),
        (ad.uint8, "integral", True),
        (ad.bool, "numeric", False),
        (ad.bfloat16, "real floating", True),
        (ad.complex64, ("bool", "complex floating"), True),
        (ad.float32, ad.float64, False),
    ],
)
def test_isdtype(dtype: Any, kind: Any, wanted: bool) -> None:
    assert ad.isdtype(dtype, kind) is wanted


CASES: list[tuple[Callable[[], Any], Any]] = [
    (lambda: ad.astype(X, ad.int32), X.numpy().astype(np.int32)),
    (lambda: ad.permute_dims(X, (1, 0)), X.numpy().T),
    (lambda: ad.matrix_transpose(X), X.numpy().T),
    (lambda: ad.expand_dims(X, -1), X.numpy()[..., None]),
    (lambda: ad.expand_dims(X, (0, 2)), np.expand_dims(X.numpy(), (0, 2))),
    (lambda: ad.broadcast_arrays(X, X[0])[1], X.numpy()[[0, 0]]),
    (lambda: ad.unstack(X, axis=1)[0], X.numpy()[:, 0]),
    (lambda: ad.repeat(V, 2), np.repeat(V.numpy(), 2)),
    (lambda: ad.take_along_axis(V, ad.tensor([1, 0])), V.numpy()[[1, 0]]),
    (lambda: ad.cumulative_sum(V), np.cumsum(V.numpy())),
    (lambda: ad.cumulative_sum(X, axis=1, include_initial=True), [[0, 3, 4], [0, 2, 5]]),
    (lambda: ad.cumulative_prod(V, include_initial=True), [1, 3, 3, 9, 18]),
    (lambda: ad.vecdot(X, X), [10.0, 13.0]),
    (lambda: ad.vecdot(ad.tensor([1j]), ad.tensor([2.0])), -2j),
    (lambda: ad.bitwise_invert(V), ~V.numpy()),
    (lambda: ad.unique_values(V), [1, 2, 3]),
    (lambda: ad.unique_counts(V).counts, [1, 1, 2]),
    (lambda: ad.unique_inverse(X).inverse_indices, [[2, 0], [1, 2]]),
    (lambda: ad.unique_all(V).indices, [1, 3, 0]),
    (lambda: ad.linalg.outer(V, V), np.outer(V.numpy(), V.numpy())),
    (lambda: ad.linalg.trace(X), 6.0),
    (lambda: ad.linalg.trace(X, offset=1), 1.0),
    (lambda: ad.linalg.tensordot(X, X, axes=1), X.numpy() @ X.numpy()),
    (lambda: ad.linalg.matrix_transpose(X), X.numpy().T),
]


@pytest.mark.parametrize(("call", "wanted"), CASES)
def test_names_of_the_standard(call: Callable[[], Any], wanted: Any) -> None:
    np.testing.assert_array_equal(call().numpy(), np.asarray(wanted))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ad.matrix_transpose(V), ValueError),
        (lambda: ad.expand_dims(V, 5), IndexError),
        (lambda: ad.cumulative_sum(X), ValueError),
        (lambda: ad.vecdot(V, V[:2]), ValueError),
        (lambda: ad.isdtype(ad.bool, "colour"), ValueError),
    ],
)
def test_bad_calls_are_refused(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_gradients_pass_through_names_of_the_standard() -> None:
    x = X.clone().requires_grad_()
    ad.cumulative_sum(x, axis=1, include_initial=True).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2, 1], [2, 1]]


def test_result_type_of_many_and_of_dtypes() -> None:
    assert ad.result_type(ad.int8, ad.uint8) == ad.int16
    assert ad.result_type(ad.int8, ad.int32, ad.float32, 1j) == ad.complex64
    assert ad.result_type(V, ad.float64, 2) == ad.float64
    assert ad.result_type(ad.float32) == ad.float32
    with pytest.raises(TypeError):
        ad.result_type()


def test_limits_of_a_tensor_are_those_of_its_dtype() -> None:
    assert ad.finfo(X) == ad.finfo(ad.float32)
    assert ad.iinfo(V).max == 2**63 - 1


def test_signatures_are_those_of_the_standard() -> None:
    names = list(inspect.signature(ad.Tensor.__array_namespace__).parameters)
    assert names == ["self", "api_version"]
    assert list(inspect.signature(ad.Tensor.to_device).parameters) == ["self", "device", "stream"]
