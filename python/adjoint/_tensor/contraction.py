"""einsum and tensordot: PyTorch's ways of giving their arguments, for the core's contractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor, write_out

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def einsum(*args: Any) -> Tensor:
    """Sums of products of the operands' elements along axes named by letters.

    Parameters
    ----------
    equation : str
        One term of letters for each operand, separated by commas; after ``->`` the letters of the
        result. Letters that the result lacks are summed over; a letter twice in one term takes the
        diagonal; ``...`` stands for any further axes. Without ``->`` the result has the letters
        that occur once, in alphabetical order.
    operands : Tensor
        The tensors, as arguments or as one list. Alternatively
        ``einsum(op1, [0, 1], op2, [1, 2], [0, 2])`` with lists of numbers for letters.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.einsum("ij,j->i", ad.tensor([[1.0, 2.0], [3.0, 4.0]]), ad.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if not isinstance(args[0], str):
        if not isinstance(args[0], Tensor):
            raise TypeError(
                "einsum(): the first argument must be the equation (str) or an operand (Tensor), "
                f"not {type(args[0]).__name__}"
            )
        args = _from_sublists(args)
    operands = args[1:]
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    return _core._einsum(args[0], operands)


def _from_sublists(args: tuple[Any, ...]) -> tuple[Any, ...]:
    operands = args[: len(args) // 2 * 2 : 2]
    if not all(isinstance(operand, Tensor) for operand in operands):
        raise TypeError(
            "einsum(): the first argument must be an equation string, or every other argument a "
            f"Tensor, but the first is {type(args[0]).__name__}"
        )

    def term(numbers: Sequence[Any]) -> str:
        if not isinstance(numbers, list | tuple):
            raise TypeError(
                "einsum(): expected a list of subscripts after each operand, "
                f"but got {type(numbers).__name__}"
            )
        letters = []
        for number in numbers:
            if number is Ellipsis:
                letters.append("...")
            elif isinstance(number, int) and 0 <= number < len(_LETTERS):
                letters.append(_LETTERS[number])
            else:
                raise ValueError(f"einsum(): subscript {number} is not within [0, 52)")
        return "".join(letters)

    terms = [term(numbers) for numbers in args[1::2]]
    if len(args) % 2 == 0:
        return (",".join(terms), *args[::2])
    return (",".join(terms) + "->" + term(args[-1]), *args[:-1:2])


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The products of `a` and `b` summed over several axes.

    Parameters
    ----------
    a, b : Tensor
        The factors.
    dims : int, pair of lists of int, or Tensor
        The number of last axes of `a` and first axes of `b`, or the axes of each.
    out : Tensor, optional
        Where the result is written.

    Returns
    -------
    Tensor
        The remaining axes of `a`, then those of `b`.
    """
    require_tensor("tensordot", "a", 1, a)
    require_tensor("tensordot", "b", 2, b)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if not isinstance(dims, int) and not (isinstance(dims, tuple | list) and len(dims) == 2):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims!r}"
        )
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a + 1, but got dims={dims}")
        dims = (list(range(a.dim() - dims, a.dim())), list(range(dims)))
    in_a, in_b = dims
    as_list = [[d] if isinstance(d, int) else list(d) for d in (in_a, in_b)]
    result = _core._tensordot(a, b, *as_list)
    return result if out is None else write_out(out, result)
