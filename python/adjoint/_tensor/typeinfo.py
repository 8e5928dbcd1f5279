"""The numerical limits of dtypes: `finfo` for floating point, `iinfo` for integers.

Everything follows from a dtype's short name (``"float32"``) and the two tables below. The printed
forms are PyTorch's, which round to six digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

if TYPE_CHECKING:
    from builtins import type as _Type

    from adjoint import dtype as DType

__all__ = ["finfo", "iinfo"]


class _FloatFormat(NamedTuple):
    bits: int
    fraction_bits: int
    max_exponent: int
    digits: int  # decimal digits that survive a round trip


_FLOATS = {
    "float16": _FloatFormat(16, 10, 15, 3),
    "bfloat16": _FloatFormat(16, 7, 127, 2),
    "float32": _FloatFormat(32, 23, 127, 6),
    "float64": _FloatFormat(64, 52, 1023, 15),
}
_PART_OF_COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_INTEGER_BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}

_PYTHON_TYPES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}

_DEFAULT: Any = object()  # stands for the default dtype; None is refused, as in PyTorch


def _name_of(caller: str, dtype: object) -> str:
    """Return the short name of a dtype, ``"float32"``."""
    import adjoint

    if dtype is _DEFAULT:
        dtype = adjoint.get_default_dtype()
    if isinstance(dtype, adjoint.Tensor):  # beyond PyTorch, as the array API has it
        dtype = dtype.dtype
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return _PYTHON_TYPES[dtype]
    if not isinstance(dtype, adjoint.dtype):
        raise TypeError(
            f"{caller}(): argument 'type' (position 1) must be torch.dtype, "
            f"not {type(dtype).__name__}"
        )
    return str(dtype).rpartition(".")[2]


class _Limits:
    """What `finfo` and `iinfo` share: read-only figures, equal when the dtype is."""

    __slots__ = ()
    _shown: ClassVar[tuple[str, ...]]
    dtype: str

    def _fill(self, **figures: Any) -> None:
        for name, figure in figures.items():
            object.__setattr__(self, name, figure)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"attribute {name!r} of '{type(self).__name__}' is not writable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Limits) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        shown = "".join(f"{name}={getattr(self, name):g}, " for name in self._shown)
        return f"{type(self).__name__}({shown}dtype={self.dtype})"


class finfo(_Limits):
    """The limits of a floating point dtype, or of the parts of a complex one.

    Parameters
    ----------
    type : dtype, optional
        The dtype, or `float` or `complex` for those of Python's numbers; the default dtype if
        left out.

    Attributes
    ----------
    bits : int
        Bits of one number.
    eps : float
        Distance from 1.0 to the next larger number.
    max, min : float
        Largest and smallest (most negative) finite number.
    smallest_normal, tiny : float
        Smallest positive number of full precision.
    resolution : float
        10 to the power of minus the number of decimal digits that are kept.
    dtype : str
        Name of the floating point dtype described.

    Raises
    ------
    TypeError
        If `type` is not a floating point or complex dtype.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.finfo(ad.float32).eps
    1.1920928955078125e-07
    >>> ad.finfo(ad.complex128).dtype
    'float64'
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
    bits: int
    eps: float
    max: float
    min: float
    resolution: float
    smallest_normal: float
    tiny: float

    def __init__(self, type: DType | _Type = _DEFAULT) -> None:
        name = _name_of("finfo", type)
        name = _PART_OF_COMPLEX.get(name, name)
        if name not in _FLOATS:
            raise TypeError(
                f"torch.finfo() requires a floating point input type, but got torch.{name}. "
                "Use torch.iinfo for integer types"
            )
        bits, fraction_bits, max_exponent, digits = _FLOATS[name]
        eps = 2.0**-fraction_bits
        largest = (2.0 - eps) * 2.0**max_exponent
        normal = 2.0 ** (1 - max_exponent)
        self._fill(bits=bits, dtype=name, eps=eps, max=largest, min=-largest)
        self._fill(resolution=float(f"1e-{digits}"), smallest_normal=normal, tiny=normal)


class iinfo(_Limits):
    """The limits of an integer dtype.

    Parameters
    ----------
    type : dtype
        The dtype, or `int` for that of Python's numbers.

    Attributes
    ----------
    bits : int
        Bits of one number.
    max, min : int
        Largest and smallest number.
    dtype : str
        Name of the dtype.

    Raises
    ------
    TypeError
        If `type` is not an integer dtype; bool is none.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.iinfo(ad.int16).max
    32767
    """

    __slots__ = ("bits", "dtype", "max", "min")
    _shown = ("min", "max")
    bits: int
    max: int
    min: int

    def __init__(self, type: DType | _Type) -> None:
        name = _name_of("iinfo", type)
        if name == "bool":
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if name not in _INTEGER_BITS:
            raise TypeError(
                f"torch.iinfo() requires an integer input type, but got torch.{name}. "
                "Use torch.finfo for floating point types"
            )
        bits = _INTEGER_BITS[name]
        signed = not name.startswith("u")
        smallest = -(2 ** (bits - 1)) if signed else 0
        largest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        self._fill(bits=bits, dtype=name, max=largest, min=smallest)
