"""The arguments of ops, as `adjoint._core.op_table()` states them, in Python's terms.

The types are those of src/dispatch/schema.h. Read next: gen_stubs.py, gen_reference.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

PYTHON_TYPES = {
    "Tensor": "Tensor",
    "Operand": "Tensor | Number",
    "Tensor[]": "Sequence[Tensor]",
    "Tensor?[]": "Sequence[Tensor | None]",
    "Tensor[*]": "Tensor | Sequence[Tensor]",
    "Scalar": "Number",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "str": "str",
    "int[]": "_int | Sequence[_int]",
    "int[*]": "_int | Sequence[_int]",
    "dtype": "_dtype",
    "any": "Any",
}

# What ops return that is neither one tensor nor a tuple of named ones; by name, or by the full name
# of one overload.
RESULT_TYPES = {
    "allclose": "_bool",
    "equal": "_bool",
    "nonzero": "Any",  # a tensor, or a tuple of them with as_tuple=True
    "unique": "Any",  # one to three tensors, as asked
    "unique_consecutive": "Any",
    "std_mean": "tuple[Tensor, Tensor]",
    "var_mean": "tuple[Tensor, Tensor]",
} | dict.fromkeys(
    [
        "atleast_1d.all",
        "atleast_2d.all",
        "atleast_3d.all",
        "broadcast_tensors",
        "chunk",
        "dsplit",
        "hsplit",
        "split",
        "split_with_sizes",
        "tensor_split",
        "unbind",
        "unravel_index",
        "vsplit",
        "where.condition",
    ],
    "tuple[Tensor, ...]",
)


@dataclass(frozen=True)
class Argument:
    """One argument of an op."""

    name: str
    type: str
    default: str | None
    keyword_only: bool
    other_names: Sequence[str] = ()  # that callers may use as well

    @property
    def variadic(self) -> bool:
        """Whether it may be given as separate positional arguments: x.reshape(2, 3)."""
        return self.type.startswith(("int[*]", "Tensor[*]"))

    @property
    def annotation(self) -> str:
        """The Python type."""
        python = PYTHON_TYPES[self.type.removesuffix("?")]  # KeyError: a type that is new here
        return f"{python} | None" if self.type.endswith("?") else python


def arguments_of(entry: dict[str, Any]) -> list[Argument]:
    """The arguments of one entry of the table."""
    return [Argument(**argument) for argument in entry["arguments"]]


def written(arguments: list[Argument]) -> Iterator[tuple[str, Argument | None]]:
    """What stands between the commas of a signature: ("*sizes", argument), ("*", None), ..."""
    starred = False
    for argument in arguments:
        if argument.variadic and not argument.keyword_only:
            starred = True
            yield f"*{argument.name}", argument
            continue
        if argument.keyword_only and not starred:
            starred = True
            yield "*", None
        yield argument.name, argument
