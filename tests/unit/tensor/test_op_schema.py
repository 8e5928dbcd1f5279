"""The op table becomes stubs and signatures that say what it says."""

from __future__ import annotations

from typing import Any

from adjoint import _core
from tools.gen_reference import block, public, signature
from tools.gen_stubs import named_tuples, op_members
from tools.op_schema import arguments_of
from tools.reference_rooms import find


def argument(name: str, kind: str = "Tensor", default: str | None = None, kw: bool = False) -> Any:
    return {"name": name, "type": kind, "default": default, "keyword_only": kw}


def entry(name: str, *arguments: Any, **other: Any) -> dict[str, Any]:
    forms = {"function": True, "method": True, "inplace": False, "out": False, "doc": "Doc."}
    lists: dict[str, Any] = {"aliases": [], "results": [], "arguments": list(arguments)}
    return {"name": name, "family": "f"} | forms | lists | other


INPUT = argument("input")
ADDMM = entry("addmm", INPUT, argument("mat1"), argument("beta", "Scalar", "1", kw=True), out=True)


def test_keyword_only_arguments_and_defaults_are_kept() -> None:
    assert signature(arguments_of(ADDMM)) == "input, mat1, *, beta=1"


def test_stub_of_a_function_has_types_and_out() -> None:
    ((_, text),) = op_members([ADDMM], False, {"addmm"})
    expected = "input: Tensor, mat1: Tensor, *, beta: Number = ..., out: Any = ..."
    assert text == f"def addmm({expected}) -> Tensor: ..."


def test_overloads_and_inplace_forms_reach_the_stub() -> None:
    keepdim = argument("keepdim", "bool", "False")
    table = [
        entry("max", INPUT),
        entry("max", INPUT, argument("dim", "int"), keepdim, results=["values", "indices"]),
        entry("sin", INPUT, inplace=True),
        entry("reshape", INPUT, argument("shape", "int[*]")),
        entry("unseen", INPUT),
    ]
    members = dict(op_members(table, True, {"max", "sin", "sin_", "reshape"}))
    assert members["max"].splitlines() == [
        "@overload",
        "def max(self) -> Tensor: ...",
        "@overload",
        "def max(self, dim: _int, keepdim: _bool = ...) -> _values_indices: ...",
    ]
    assert named_tuples(table) == [
        "class _values_indices(NamedTuple):\n    values: Tensor\n    indices: Tensor"
    ]
    assert members["sin_"] == "def sin_(self) -> Self: ..."
    assert members["reshape"] == "def reshape(self, *shape: _int | Sequence[_int]) -> Tensor: ..."
    assert "unseen" not in members


def test_none_is_allowed_where_the_schema_says_so() -> None:
    (other,) = arguments_of(entry("f", argument("dtype", "dtype?", "None")))
    assert other.annotation == "_dtype | None"


def test_reference_block_names_every_form() -> None:
    text = block(entry("sin", INPUT, inplace=True, aliases=["sine"]))
    assert "adjoint.sin(input)" in text
    assert "Also: `adjoint.sine`, `Tensor.sin`, `Tensor.sin_`." in text


def test_reference_has_names_that_programs_can_write() -> None:
    names = [e["name"] for e in _core.op_table() if e["function"] and e["name"][0] != "_"]
    assert "adjoint.linalg.solve" in map(public, names)
    for name in names:
        assert callable(find(public(name)))
