"""Every argument of torch's functions, methods and modules can be given here by the same name.

torch's names are those of its own type stubs (of what is native) and of its Python signatures.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint import _core

torch = pytest.importorskip("torch")


class Names(NamedTuple):
    """The arguments of one overload."""

    positional: list[str]
    by_keyword: set[str]


# --- torch ----------------------------------------------------------------------------------------
@cache
def stubs(file: str, of_class: str | None = None) -> dict[str, list[Names]]:
    """Return the overloads of all functions in a stub file, or of the methods of a class in it."""
    body = ast.parse((Path(torch.__file__).parent / "_C" / file).read_text()).body
    if of_class:
        body = next(n.body for n in body if isinstance(n, ast.ClassDef) and n.name == of_class)
    found: dict[str, list[Names]] = {}
    for f in (n for n in body if isinstance(n, ast.FunctionDef)):
        positional = [a.arg for a in f.args.args][1 if of_class else 0 :]
        named = {*positional, *(a.arg for a in f.args.kwonlyargs)}
        if f.args.vararg:  # sizes one by one: there is another overload with a name for them
            positional = []
        found.setdefault(f.name, []).append(Names(positional, named))
    return found


def of_signature(f: Any, skip: int = 0) -> Names | None:
    try:
        all_of_them = list(inspect.signature(f).parameters.values())[skip:]
    except (TypeError, ValueError):
        return None
    positional = [p.name for p in all_of_them if p.kind is p.POSITIONAL_OR_KEYWORD]
    extra = {p.name for p in all_of_them if p.kind is p.KEYWORD_ONLY}
    return Names(positional, {n for n in {*positional, *extra} if not n.startswith("_")})


def of_torch(room: str, name: str) -> list[Names]:
    theirs = getattr(place(torch, room), name)
    if inspect.isfunction(theirs) or inspect.isclass(theirs):
        found = of_signature(theirs, skip=1 if room == "Tensor" else 0)
        return [found] if found else []
    if room == "Tensor":
        return stubs("__init__.pyi", "TensorBase").get(name, [])
    if room == "special":
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::special_{name}")
        named = [[a.name for a in s.arguments] for s in schemas]
        return [Names([], set(names)) for names in named]
    native = stubs("_nn.pyi").get(name) if room == "nn.functional" else None
    return native or stubs("_VariableFunctions.pyi").get(name, [])


# --- ours -----------------------------------------------------------------------------------------
NUMPYS = {"dim": "axis", "keepdim": "keepdims", "dim0": "axis0", "dim1": "axis1", "other": "x2"}


@cache
def ops() -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = {}
    for entry in _core.op_table():
        for name in (entry["name"], *entry["aliases"]):
            table.setdefault(name, []).append(entry)
    return table


def of_op(entry: dict[str, Any], method: bool, inplace: bool) -> tuple[list[set[str]], set[str]]:
    """All names of each positional argument, and all names there are."""
    places = []
    every = {"out"} if entry["out"] and not inplace else set()
    for a in entry["arguments"]:
        known = {a["name"], *a["other_names"], NUMPYS.get(a["name"], a["name"])}
        if a is entry["arguments"][0] and a["name"] == "input":
            known |= {"self", "x", "x1"}
        every |= known
        if not a["keyword_only"]:
            places.append(known)
    return places[1 if method else 0 :], every


def ours(room: str, name: str) -> list[tuple[list[set[str]], set[str]]] | None:
    """Return the names of our overloads; None if anything goes or nothing is known."""
    f = getattr(place(ad, room), name)
    if type(f).__name__ == "OpFunction":
        own = f.__name__
        entries = ops().get(own) or ops()[own.removesuffix("_")]
        return [of_op(e, room == "Tensor", own.endswith("_")) for e in entries]
    found = of_signature(f, skip=1 if room == "Tensor" else 0)
    if found is None or any(
        p.kind is p.VAR_KEYWORD for p in inspect.signature(f).parameters.values()
    ):
        return None
    everything = set(found.positional) | set(inspect.signature(f).parameters)
    return [([{n} for n in found.positional], everything)]


# --- both -----------------------------------------------------------------------------------------
ROOMS = [
    "Tensor",
    "nn.functional",
    "special",
    "nn",
    "optim",
    "nn.init",
    "autograd",
    "autograd.functional",
    "autograd.graph",
    "autograd.forward_ad",
    "func",
    "random",
    "nn.utils",
    "testing",
    "optim.lr_scheduler",
]


def place(library: Any, room: str) -> Any:
    if not room:
        return library
    if room in ("Tensor", "special"):
        return getattr(library, room)
    return importlib.import_module(f"{library.__name__}.{room}")


def cases() -> Iterator[tuple[str, str]]:
    for room in ("", *ROOMS):
        for name in dir(place(ad, room)):
            if not hasattr(place(ad, room), name):
                continue  # named as absent
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that PyTorch is about to drop
                theirs = getattr(place(torch, room), name, None)
            modules = room in ("nn", "optim", "optim.lr_scheduler")
            usual = modules or not inspect.isclass(theirs)
            if callable(theirs) and usual and not name.startswith("_"):
                yield room, name


# mm and its like take out_dtype on GPUs alone; named axes are not supported; `new` is PyTorch's
# older constructor, whose stub is not what it does, as is that of numel.
LEFT_OUT = {
    ("", "mm"): {"out_dtype"},
    ("", "bmm"): {"out_dtype"},
    ("", "addmm"): {"out_dtype"},
    ("", "baddbmm"): {"out_dtype"},
    ("", "full"): {"names"},
    ("", "chain_matmul"): {"out"},
    **{("nn.functional", f"max_pool{n}d_with_indices"): {"return_indices"} for n in (1, 2, 3)},
    ("", "numel"): {"self"},
    ("Tensor", "new"): {"cls", "storage", "other", "size"},
    ("Tensor", "cuda"): {"memory_format"},
}
# Native: what Python reads of their signatures are places, and CALLS names their arguments. Those
# that set something take no names in torch either, whatever its stubs say.
NATIVE = {
    *(("", n) for n in ("can_cast", "result_type", "set_num_threads", "set_num_interop_threads")),
    ("", "set_flush_denormal"),
    *(("Tensor", n) for n in ("is_contiguous", "requires_grad_", "squeeze_")),
}


def clean(name: str) -> str:
    return name.removesuffix("_")  # from_, which stands for a word of Python's


def missing(want: set[str], have: list[tuple[list[set[str]], set[str]]]) -> set[str]:
    return min(({n for n in want if n not in every} for _, every in have), key=len)


@pytest.mark.parametrize(("room", "name"), [c for c in cases() if c not in NATIVE])
def test_arguments_have_torchs_names(room: str, name: str) -> None:
    have = ours(room, name)
    if have is None:
        return
    for overload in of_torch(room, name):
        want = {clean(n) for n in overload.by_keyword} - LEFT_OUT.get((room, name), set())
        assert not missing(want, have), f"{name}({', '.join(overload.by_keyword)})"


# Deprecated forms (beta before the tensor; alpha, out and dtype without their names), and stubs
# that promise more than torch does.
OTHER_ORDER = {
    ("", "norm"),
    ("", "nuclear_norm"),
    *(("nn.functional", f"max_pool{n}d_with_indices") for n in (1, 2, 3)),
    ("", "where"),
    ("", "rsub"),
    ("", "subtract"),
    ("", "numel"),
    ("", "tensor"),
    *(("Tensor", n) for n in ("subtract", "subtract_", "contiguous", "new", "new_ones", "resize_")),
    ("Tensor", "new_tensor"),
    ("nn.functional", "scaled_dot_product_attention"),
    ("Tensor", "cuda"),
    *NATIVE,
}


@pytest.mark.parametrize(("room", "name"), [c for c in cases() if c not in OTHER_ORDER])
def test_arguments_stand_in_torchs_order(room: str, name: str) -> None:
    have = ours(room, name)
    if have is None:
        return
    for overload in of_torch(room, name):
        want = [clean(n) for n in overload.positional]
        if want[:1] == ["beta"] or want[-1:] == ["out_dtype"]:
            continue
        assert any(
            len(want) <= len(places) and all(n in p for n, p in zip(want, places, strict=False))
            for places, _ in have
        ), f"{name}({', '.join(want)})"


# What is native and has no signature that Python can read: called with its names.
x = ad.ones(2, 3)
CALLS: list[Callable[[], Any]] = [
    lambda: ad.is_inference(input=x),
    lambda: ad.can_cast(from_=ad.int64, to=ad.float32),
    lambda: ad.promote_types(type1=ad.int64, type2=ad.float32),
    lambda: ad.result_type(tensor=x, other=x),
    lambda: ad.result_type(x, other=1),
    lambda: ad.result_type(scalar=1, tensor=x),
    lambda: ad.result_type(scalar1=1, scalar2=2.0),
    lambda: ad.result_type(tensor1=x, tensor2=2.0),
    lambda: x.as_subclass(cls=ad.Tensor),
    lambda: x.type_as(other=x),
    lambda: x.size(dim=0),
    lambda: x.stride(dim=None),
    lambda: x.float(memory_format=ad.preserve_format),
    lambda: x.cpu(memory_format=ad.preserve_format),
    lambda: x.is_contiguous(memory_format=ad.contiguous_format),
    lambda: x.to(device="cpu", dtype=ad.float64, non_blocking=True, copy=True),
    lambda: x.type(dtype=ad.float64, non_blocking=True),
    lambda: x.clone().requires_grad_(requires_grad=True),
    lambda: x.clone().squeeze_(dim=0),
    lambda: x.clone().unsqueeze_(dim=0),
    lambda: x.clone().transpose_(dim0=0, dim1=1),
    lambda: x.clone().swapaxes_(axis0=0, axis1=1),
    lambda: x.clone().as_strided_(size=(2,), stride=(1,), storage_offset=0),
    lambda: x.clone().resize_(size=(6,)),
]


@pytest.mark.parametrize("call", CALLS)
def test_native_functions_take_torchs_names(call: Callable[[], Any]) -> None:
    call()


def test_split_takes_both_names() -> None:
    for pieces in (x.split(split_size=1), ad.split(tensor=x, split_size_or_sections=[1, 1])):
        assert [tuple(p.shape) for p in pieces] == [(1, 3), (1, 3)]


def test_several_axes_may_be_squeezed_one_by_one() -> None:
    assert ad.ones(1, 2, 1).squeeze(0, 2).shape == (2,)


def test_size_and_stride_refuse_what_they_do_not_know() -> None:
    for method in (x.size, x.stride):
        with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
            method(axes=0)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="takes one dim, but 2 were given"):
            method(0, 1)  # type: ignore[call-arg]
