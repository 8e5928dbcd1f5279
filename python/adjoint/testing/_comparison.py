"""``assert_close``: structures are walked, leaves compared, the first difference is raised.

Messages are PyTorch's. The text of a difference between values is made in ``_differences``.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.creation import as_tensor

from ._differences import numbers_differ, tensors_differ

# (relative, absolute), PyTorch's; everything else must be equal.
_TOLERANCES = {
    _core.float16: (1e-3, 1e-5),
    _core.bfloat16: (1.6e-2, 1e-5),
    _core.float32: (1.3e-6, 1e-5),
    _core.float64: (1e-7, 1e-7),
    _core.complex64: (1.3e-6, 1e-5),
    _core.complex128: (1e-7, 1e-7),
}
_NUMBER_DTYPES = {int: _core.int64, float: _core.float64, complex: _core.complex128}


@dataclass(frozen=True)
class _Rules:
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        """What the caller gave, or the larger of the dtypes' own."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        known = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
        return max(rtol for rtol, _ in known), max(atol for _, atol in known)


class _Mismatch(Exception):
    """A difference and the keys that lead to it."""

    def __init__(self, message: str, kind: type[Exception] = AssertionError) -> None:
        super().__init__(message)
        self.kind = kind
        self.path: list[Any] = []


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless ``|actual - expected| <= atol + rtol·|expected|``, element by element.

    Parameters
    ----------
    actual, expected
        Tensors, arrays, numbers, None, or sequences and mappings of them with one structure.
    allow_subclasses
        Accept two types of which one derives from the other.
    rtol, atol
        Both or none. Default, by dtype (the larger one if dtypes differ): float16 1e-3 and 1e-5,
        bfloat16 1.6e-2 and 1e-5, float32 and complex64 1.3e-6 and 1e-5, float64 and complex128 1e-7
        and 1e-7; 0 for all others.
    equal_nan
        NaN equals NaN.
    check_device, check_dtype, check_layout, check_stride
        Whether these must be the same as well. Shapes always must.
    msg
        Text for the error in place of ours, or a function that makes it from ours.

    Raises
    ------
    AssertionError
        They are not close. The message counts the elements that differ and shows the largest
        differences.
    TypeError
        These types are not compared.
    ValueError
        Only one of ``rtol`` and ``atol`` is given.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.testing.assert_close(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 2.000001]))
    >>> ad.testing.assert_close({"a": [1.0, 2]}, {"a": [1.5, 2]})
    Traceback (most recent call last):
      ...
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 1.5 but got 1.0.
    Absolute difference: 0.5 (up to 1e-07 allowed)
    Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
    <BLANKLINE>
    The failure occurred for item ['a'][0]
    """
    __tracebackhide__ = True  # pytest then shows the caller's line
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    rules = _Rules(
        allow_subclasses,
        rtol,
        atol,
        equal_nan,
        check_device,
        check_dtype,
        check_layout,
        check_stride,
    )
    try:
        _compare(actual, expected, rules)
    except _Mismatch as found:
        error = found
    else:
        return
    raise error.kind(_text(error, msg))


def _text(error: _Mismatch, msg: str | Callable[[str], str] | None) -> str:
    text = str(error)
    if error.path:
        keys = "".join(f"[{key!r}]" for key in reversed(error.path))
        text += f"\n\nThe failure occurred for item {keys}"
    if msg is None:
        return text
    return msg(text) if callable(msg) else msg


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Compare values only; deprecated in PyTorch, use `assert_close`.

    Parameters
    ----------
    actual, expected
        Tensors or what can become one.
    rtol, atol, equal_nan, msg
        As for `assert_close`.
    """
    __tracebackhide__ = True
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    assert_close(
        as_tensor(actual),
        as_tensor(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


def _compare(actual: Any, expected: Any, rules: _Rules) -> None:
    if _both(actual, expected, Sequence) and not _either(actual, expected, str):
        _compare_sequences(actual, expected, rules)
    elif _both(actual, expected, Mapping):
        _compare_mappings(actual, expected, rules)
    elif actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif _both(actual, expected, (bool, np.bool_)):
        if bool(actual) is not bool(expected):
            raise _Mismatch(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
    elif _both(actual, expected, (int, float, complex, np.number)):
        _compare_numbers(actual, expected, rules)
    else:
        _compare_tensors(actual, expected, rules)


def _both(a: Any, b: Any, types: Any) -> bool:
    return isinstance(a, types) and isinstance(b, types)


def _either(a: Any, b: Any, types: Any) -> bool:
    return isinstance(a, types) or isinstance(b, types)


def _below(key: Any, actual: Any, expected: Any, rules: _Rules) -> None:
    try:
        _compare(actual, expected, rules)
    except _Mismatch as found:
        found.path.append(key)
        raise


def _compare_sequences(actual: Sequence[Any], expected: Sequence[Any], rules: _Rules) -> None:
    if len(actual) != len(expected):
        raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    for key, (a, b) in enumerate(zip(actual, expected, strict=True)):
        _below(key, a, b, rules)


def _compare_mappings(
    actual: Mapping[Any, Any], expected: Mapping[Any, Any], rules: _Rules
) -> None:
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing or extra:
        raise _Mismatch(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_listed(missing)}\n"
            f"Additional keys in the actual mapping: {_listed(extra)}"
        )
    for key, value in actual.items():
        _below(key, value, expected[key], rules)


def _listed(keys: list[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:  # keys of several kinds
        return sorted(keys, key=repr)


def _compare_numbers(actual: Any, expected: Any, rules: _Rules) -> None:
    a, b = (v.item() if isinstance(v, np.number) else v for v in (actual, expected))
    if rules.check_dtype and type(a) is not type(b):
        raise _Mismatch(f"The (d)types do not match: {type(a)} != {type(b)}.")
    rtol, atol = rules.tolerances(_number_dtype(a), _number_dtype(b))
    message = numbers_differ(a, b, rtol, atol, rules.equal_nan)
    if message is not None:
        raise _Mismatch(message)


def _number_dtype(value: Any) -> Any:
    kind = next(
        kind
        for kind, abstract in (
            (int, numbers.Integral),
            (float, numbers.Real),
            (complex, numbers.Complex),
        )
        if isinstance(value, abstract)
    )
    return _NUMBER_DTYPES[kind]


def _compare_tensors(actual: Any, expected: Any, rules: _Rules) -> None:
    a, b = _as_tensors(actual, expected, rules)
    _compare_attribute("shape", a.shape, b.shape)
    if rules.check_layout:
        _compare_attribute("layout", a.layout, b.layout)
    if rules.check_stride:
        _compare_attribute("stride()", a.stride(), b.stride())
    if rules.check_device:
        _compare_attribute("device", a.device, b.device)
    if rules.check_dtype:
        _compare_attribute("dtype", a.dtype, b.dtype)
    rtol, atol = rules.tolerances(a.dtype, b.dtype)
    message = tensors_differ(a.detach(), b.detach(), rtol, atol, rules.equal_nan)
    if message is not None:
        raise _Mismatch(message)


def _as_tensors(actual: Any, expected: Any, rules: _Rules) -> tuple[Tensor, Tensor]:
    related = (
        isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if rules.allow_subclasses
        else type(actual) is type(expected)
    )
    if not related:
        _refuse(actual, expected)
    try:
        return as_tensor(actual), as_tensor(expected)
    except (TypeError, ValueError, RuntimeError):
        _refuse(actual, expected)


def _refuse(actual: Any, expected: Any) -> NoReturn:
    raise _Mismatch(
        "No comparison pair was able to handle inputs of type "
        f"{type(actual)} and {type(expected)}.",
        TypeError,
    )


def _compare_attribute(name: str, actual: Any, expected: Any) -> None:
    if actual != expected:
        raise _Mismatch(f"The values for attribute '{name}' do not match: {actual} != {expected}.")
