"""Schemas of ops are read as src/ops/schema.h describes them, and become stubs and signatures."""

from __future__ import annotations

import pytest

from tools.gen_reference import block, signature
from tools.gen_stubs import op_members
from tools.op_schema import parse

ADDMM = "addmm(input, mat1, mat2, *, beta: Scalar = 1, alpha: Scalar = 1)"


def entry(schema: str, **other: object) -> dict[str, object]:
    forms = {"function": True, "method": True, "inplace": False, "doc": "Doc.", "family": "f"}
    return {"name": parse(schema).name, "schema": schema} | forms | other


def test_keyword_only_arguments_and_defaults_are_kept() -> None:
    assert signature(parse(ADDMM).arguments) == "input, mat1, mat2, *, beta=1, alpha=1"


def test_commas_in_defaults_do_not_split_arguments() -> None:
    arguments = parse("flip(input, dims: int[] = [0, 1], other: Tensor? = None)").arguments
    assert [(a.name, a.default) for a in arguments[1:]] == [("dims", "[0, 1]"), ("other", "None")]
    assert arguments[2].annotation == "Tensor | None"


@pytest.mark.parametrize("text", ["sin", "sin(input: Banana)", "sin(input"])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"schema|Banana"):
        parse(text)


def test_overloads_and_inplace_forms_reach_the_stub() -> None:
    table = [
        entry("max(input)"),
        entry("max.dim(input, dim: int, keepdim: bool = False)", returns="tuple[Tensor, Tensor]"),
        entry("sin(input)", inplace=True),
        entry("reshape(input, shape: int[*])"),
    ]
    members = dict(op_members(table, True, {"max", "sin", "sin_", "reshape"}))
    assert members["max"].splitlines() == [
        "@overload",
        "def max(self) -> Tensor: ...",
        "@overload",
        "def max(self, dim: _int, keepdim: _bool = ...) -> tuple[Tensor, Tensor]: ...",
    ]
    assert members["sin_"] == "def sin_(self) -> Self: ..."
    assert members["reshape"] == "def reshape(self, *shape: _int | Sequence[_int]) -> Tensor: ..."


def test_reference_block_names_every_form() -> None:
    text = block(entry("sin(input)", inplace=True, aliases=["sine"]))
    assert "adjoint.sin(input)" in text
    assert "Also: `adjoint.sine`, `Tensor.sin`, `Tensor.sin_`." in text
