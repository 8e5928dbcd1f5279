"""Result dtypes of every pair of dtypes, 0-d tensors and Python numbers, against torch."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from tests.ops.spec import DTYPES, dtype_name

torch = pytest.importorskip("torch")

NAMES = [d for group in DTYPES.values() for d in group]
NUMBERS = [True, 2, 2.5, 1 + 2j]
BINARY = [
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2", "maximum",
    "minimum", "fmax", "eq", "lt", "logical_and", "bitwise_and", "bitwise_or", "hypot",
]  # fmt: skip
TENSORS_ONLY = ("atan2", "maximum", "minimum", "fmax", "hypot")
# torch answers some mixtures of half and complex with an experimental dtype that adjoint lacks, or
# fails because an op has no kernel for it.
ABSENT = "complex32"
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def meets_complex_half(*operands: Any) -> bool:
    return torch.result_type(*operands) == torch.complex32


def ones(library: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    return library.ones(shape, dtype=getattr(library, dtype))


def operands(library: Any, left: str, right: Any, shapes: tuple[Any, Any]) -> tuple[Any, Any]:
    second = ones(library, right, shapes[1]) if isinstance(right, str) else right
    return ones(library, left, shapes[0]), second


SHAPES = [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())]


@pytest.mark.parametrize("left", NAMES)
def test_result_type(left: str) -> None:
    for shapes in SHAPES:
        for right in [*NAMES, *NUMBERS]:
            got = ad.result_type(*operands(ad, left, right, shapes))
            want = torch.result_type(*operands(torch, left, right, shapes))
            assert name_of(want) in (name_of(got), ABSENT), (left, right, shapes)


@pytest.mark.parametrize("left", NAMES)
def test_promote_types_and_can_cast(left: str) -> None:
    for right in NAMES:
        ours, theirs = ((getattr(m, left), getattr(m, right)) for m in (ad, torch))
        assert name_of(ad.promote_types(*ours)) == name_of(torch.promote_types(*theirs)), right
        assert ad.can_cast(*ours) == torch.can_cast(*theirs), right


def outcome(library: Any, op: str, operands: tuple[Any, Any]) -> str:
    try:
        return dtype_name(getattr(library, op)(*operands))
    except (RuntimeError, TypeError) as error:
        return "RuntimeError" if isinstance(error, RuntimeError) else "TypeError"


@pytest.mark.parametrize("op", BINARY)
def test_dtypes_of_binary_ops(op: str) -> None:
    """Every pair of dtypes in every mixture of dimensions, and every Python number on the right."""
    wrong = []
    for left in NAMES:
        for shapes in SHAPES:
            for right in [*NAMES, *NUMBERS]:
                if not isinstance(right, str) and op in TENSORS_ONLY:
                    continue
                theirs = operands(torch, left, right, shapes)
                got = outcome(ad, op, operands(ad, left, right, shapes))
                want = outcome(torch, op, theirs)
                if want not in (got, ABSENT) and not meets_complex_half(*theirs):
                    pair = f"{left} {shapes[0]}, {right} {shapes[1]}"
                    wrong.append(f"{op}({pair}): {got}, torch {want}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("number", NUMBERS)
def test_reflected_operators_promote_alike(number: Any) -> None:
    for left in NAMES:
        for op in ("__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rpow__"):
            results = []
            for library in (ad, torch):
                try:
                    results.append(dtype_name(getattr(ones(library, left, (2,)), op)(number)))
                except RuntimeError:
                    results.append("RuntimeError")
            if not meets_complex_half(ones(torch, left, (2,)), number):
                assert results[1] == results[0], (left, op, number)


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_the_default_dtype_decides_for_integers_and_numbers(default: str) -> None:
    before = ad.get_default_dtype()
    try:
        ad.set_default_dtype(getattr(ad, default))
        assert dtype_name(ad.tensor(1.5)) == default
        assert dtype_name(ad.ones(2)) == default
        assert dtype_name(ad.tensor([1]) / 2) == default
        assert dtype_name(ad.tensor([1]).sin()) == default
        assert dtype_name(ad.tensor([1]) + 0.5) == default
        wide = {"float32": "complex64", "float64": "complex128"}[default]
        assert dtype_name(ad.tensor([1]) * 1j) == wide
    finally:
        ad.set_default_dtype(before)
    with pytest.raises(TypeError):
        ad.set_default_dtype(ad.int64)


def test_where_cat_and_stack_promote() -> None:
    for left in NAMES:
        for right in NAMES:
            for build in (
                lambda m, a, b: m.where(m.tensor([True, False]), a, b),
                lambda m, a, b: m.cat([a, b]),
                lambda m, a, b: m.stack([a, b]),
            ):
                got, want = (
                    dtype_name(build(m, ones(m, left, (2,)), ones(m, right, (2,))))
                    for m in (ad, torch)
                )
                assert got == want, (left, right)
