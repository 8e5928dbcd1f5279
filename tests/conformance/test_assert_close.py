"""assert_close answers as PyTorch's does, in its words; make_tensor draws the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

NAN, INF = float("nan"), float("inf")

# Each builds its arguments from a library, so that both get their own tensors.
CASES: dict[str, Any] = {
    "close": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.000001])),
    "floats": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 3.0])),
    "matrix": lambda t: (t.tensor([[1.0, 2.5], [3.0, 4.0]]), t.tensor([[1.5, 2.0], [3.0, 9.0]])),
    "double": lambda t: (
        t.tensor([0.1], dtype=t.float64),
        t.tensor([0.10001], dtype=t.float64),
    ),
    "half": lambda t: (t.tensor([1.0], dtype=t.float16), t.tensor([1.1], dtype=t.float16)),
    "bfloat16": lambda t: (
        t.tensor([1e-3], dtype=t.bfloat16),
        t.tensor([1.1e-3], dtype=t.bfloat16),
    ),
    "complex": lambda t: (t.tensor([1 + 1j]), t.tensor([2 + 1j])),
    "integers": lambda t: (t.tensor([1, 2]), t.tensor([1, 3])),
    "bytes": lambda t: (t.tensor([1], dtype=t.uint8), t.tensor([2], dtype=t.uint8)),
    "bools": lambda t: (t.tensor([True]), t.tensor([False])),
    "infinite": lambda t: (t.tensor([INF]), t.tensor([1.0])),
    "nan": lambda t: (t.tensor([1.0, NAN]), t.tensor([5.0, 1.0])),
    "zero expected": lambda t: (t.tensor([1.0, 1.0]), t.tensor([2.0, 0.0])),
    "no axes": lambda t: (t.tensor(1.0), t.tensor(2.0)),
    "int": lambda t: (1, 2),
    "float": lambda t: (1.0, 2.0),
    "int and float": lambda t: (1.0, 1),
    "complex number": lambda t: (1 + 1j, 2 + 1j),
    "zero number": lambda t: (1.0, 0.0),
    "bool": lambda t: (True, False),
    "none": lambda t: (None, 1),
    "lengths": lambda t: ([1], [1, 2]),
    "keys": lambda t: ({"a": 1}, {"b": 1}),
    "nested": lambda t: (
        [t.tensor([1.0]), {"k": t.tensor([2.0])}],
        [t.tensor([1.0]), {"k": t.tensor([3.0])}],
    ),
    "dtype": lambda t: (t.tensor([1]), t.tensor([1.0])),
    "shape": lambda t: (t.tensor(1), t.tensor([1])),
    "list": lambda t: ([1, 2], 3),
    "text": lambda t: ("a", "a"),
    "sets": lambda t: ({1}, {1}),
    "arrays": lambda t: (np.array([1.0]), np.array([2.0])),
    "array scalars": lambda t: (np.float32(1), np.float64(1)),
}
OPTIONS = [
    {},
    {"rtol": 0.0, "atol": 0.0},
    {"rtol": 0.1, "atol": 0.1},
    {"check_dtype": False},
    {"equal_nan": True},
]


def outcome(library: Any, build: Any, options: dict[str, Any]) -> tuple[str, str]:
    try:
        library.testing.assert_close(*build(library), **options)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error).__name__, str(error)
    return "close", ""


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_assert_close_answers_in_pytorchs_words(name: str, options: dict[str, Any]) -> None:
    expected = outcome(torch, CASES[name], options)
    assert outcome(ad, CASES[name], options) == expected


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "float32", "float64", "complex64"]
)
@pytest.mark.parametrize("options", [{}, {"low": 0, "high": 3}, {"noncontiguous": True}], ids=str)
def test_make_tensor_draws_pytorchs_numbers(dtype: str, options: dict[str, Any]) -> None:
    drawn = []
    for library in (ad, torch):
        library.manual_seed(5)
        t = library.testing.make_tensor(
            3, 4, dtype=getattr(library, dtype), device="cpu", **options
        )
        drawn.append((t.numpy(), t.stride()))
    np.testing.assert_array_equal(drawn[0][0], drawn[1][0])
    assert drawn[0][1] == drawn[1][1]
