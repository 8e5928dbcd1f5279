"""The signatures of ops, as `adjoint._core.op_table()` states them, in Python's terms.

    addmm(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1)

The types are those of src/ops/schema.h. Read next: gen_stubs.py, gen_reference.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PYTHON_TYPES = {
    "Tensor": "Tensor",
    "Operand": "Tensor | Number",
    "Tensor[]": "Sequence[Tensor]",
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


@dataclass(frozen=True)
class Argument:
    """One argument of an op."""

    name: str
    type: str
    default: str | None
    keyword_only: bool

    @property
    def variadic(self) -> bool:
        """Whether it may be given as separate positional arguments: x.reshape(2, 3)."""
        return self.type.startswith("int[*]")

    @property
    def annotation(self) -> str:
        """The Python type."""
        python = PYTHON_TYPES[self.type.removesuffix("?")]
        return f"{python} | None" if self.type.endswith("?") else python


@dataclass(frozen=True)
class Schema:
    """A parsed signature. `overload` is "dim" in max.dim(...)."""

    name: str
    overload: str
    arguments: tuple[Argument, ...]


def parse(text: str) -> Schema:
    """Parse the text of a schema; ValueError names what cannot be read."""
    match = re.fullmatch(r"(\w+)(?:\.(\w+))?\((.*)\)", text.strip(), re.DOTALL)
    if match is None:
        raise ValueError(f"not a schema: {text!r}")
    arguments, keyword_only = [], False
    for part in split(match[3]):
        if part == "*":
            keyword_only = True
        else:
            arguments.append(parse_argument(part, keyword_only))
    return Schema(match[1], match[2] or "", tuple(arguments))


def parse_argument(part: str, keyword_only: bool) -> Argument:
    left, _, default = (side.strip() for side in part.partition("="))
    name, _, kind = (side.strip() for side in left.partition(":"))
    kind = kind or "Tensor"
    if kind.removesuffix("?") not in PYTHON_TYPES:
        raise ValueError(f"unknown type {kind!r} of argument {name!r}")
    return Argument(name, kind, default or None, keyword_only)


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts = re.findall(r"(?:[^,\[\]()]|\[[^\]]*\]|\([^)]*\))+", text)
    return [part.strip() for part in parts if part.strip()]
