"""What the Python half calls in the C++ half: given something else, it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _core
from tests.errors.table import Row, check, refusals

core: Any = _core
f = ad.ones(2)


def colour(**other: Any) -> Any:
    """Colour a matrix of one entry, with one of the arguments replaced."""
    zero = np.zeros(1, "i8")
    given = {"start": np.array([0, 1]), "index": zero, "order": zero, "colours": zero.copy()}
    return core._colour_columns(*{**given, **other}.values())


class Astray(ad.autograd.Function):
    """A function whose nodes do not know it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


def program() -> Any:
    """A program of one argument."""
    compiled = ad.compile(lambda x: x * 2)
    compiled(f)
    return compiled.programs[0].program


def astray() -> None:
    base = ad.autograd.function.BackwardCFunction
    cls: Any = Astray
    cls._backward_cls = core._backward_class("AstrayBackward", base, {})
    Astray.apply(f.clone().requires_grad_()).sum().backward()


@refusals(
    (lambda: core._keep_tensors(3), TypeError, "_keep_tensors(): expected a tuple of tensors"),
    (lambda: core._keep_tensors((3,)), TypeError, "_keep_tensors(): expected a tuple of tensors"),
    (lambda: core._kept_tensors(3), TypeError, "_kept_tensors(): expected a node"),
    (lambda: core._set_checkpoint_cache(3), TypeError, "expected (cache, replay, wants) or None"),
    (lambda: core._set_composite_forms(3), TypeError, "_set_composite_forms(): expected a dict"),
    (lambda: core._set_composite_forms({"Tensor": 3}), TypeError, "Tensor is not an op"),
    (lambda: core._einsum("ij", []), RuntimeError, "must provide at least one operand"),
    (lambda: core._node_facts(3), TypeError, "expected a graph node, got int"),
    (lambda: core._graph_facts([3]), TypeError, "expected a graph node, got int"),
    (lambda: core._with_cuts([3]), TypeError, "expected a graph node, got int"),
    (lambda: core._note(3, "a"), TypeError, "expected a graph node, got int"),
    (lambda: core._walk(3, 4, core._new_seen()), TypeError, "_walk(): expected two nodes"),
    (
        lambda: core._observe_backward(3, f, f, []),
        TypeError,
        "_observe_backward(): expected tensors",
    ),
    (
        lambda: core._observe_backward(f, f, f, [3]),
        TypeError,
        "_observe_backward(): expected nodes",
    ),
    (lambda: core._hidden_reads(3, 4), TypeError, "_hidden_reads(): expected two nodes"),
    (lambda: core._window_facts(3), TypeError, "expected a graph node, got int"),
    (lambda: core._renew_accumulator(3), TypeError, "expected a Tensor, got int"),
    (lambda: core._node_hooks(3), TypeError, "expected a Node of the graph, got int"),
    (lambda: core._tensor_hooks(3), TypeError, "expected a Tensor, got int"),
    (lambda: core._function_apply(), TypeError, "apply() needs the class"),
    (lambda: core._function_apply(int), TypeError, "belongs to subclasses of autograd.Function"),
    (lambda: core._source_line_seconds(0), ValueError, "the count must be positive"),
    (
        lambda: core._backward_class("a", int, {}),
        TypeError,
        "the base of a backward class must be BackwardCFunction",
    ),
    (astray, RuntimeError, "AstrayBackward belongs to no Function"),
    (lambda: core._share_cut(3, 4), TypeError, "_share_cut(): expected two tensors"),
    (lambda: core._vector_method("a", 3), ValueError, "_vector_method(): no short way for a"),
    (lambda: core._set_vector_class(int, 3, True), TypeError, "expected a tuple of names"),
    (lambda: colour(start=np.zeros(1, "i4")), TypeError, "row starts must hold int64 numbers"),
    (lambda: colour(start=np.zeros(0, "i8")), ValueError, "colouring: no starts"),
    (lambda: colour(index=np.ones(1, "i8")), ValueError, "outside a matrix with 1 columns"),
    (lambda: colour(order=np.ones(1, "i8")), ValueError, "expected an order of 1 columns"),
    (lambda: core._extend_tensor(3), TypeError, "expected a dict"),
    (lambda: core._exit_vmap(5), RuntimeError, "there is no vmap level 5"),
    (lambda: core._cuts(3), TypeError, "expected a Tensor or a Node, got int"),
    (lambda: core._cut_facts(3), TypeError, "expected a Tensor or a graph node, got int"),
    (lambda: core._tensor_source(3), TypeError, "expected a Tensor, got int"),
    (lambda: core._detached(3), TypeError, "expected a Tensor, got int"),
    (lambda: core._variable(ad.arange(2), True), RuntimeError, "(this one is int64)"),
    (lambda: core._make_dual(3, f, 0), TypeError, "to be a Tensor, got int"),
    (lambda: core._whole(3), TypeError, "expected a Tensor, not int"),
    (lambda: core._on_storage(f, 3, (2,), (1,), 0), TypeError, "expected a dtype, a size and stri"),
    (
        lambda: core._on_storage(f, ad.float32, (2,), (), 0),
        RuntimeError,
        "mismatch in length of str",
    ),
    (lambda: core._on_storage(f, ad.float32, (2,), (-1,), 0), RuntimeError, "negative strides are"),
    (lambda: core._on_storage(f, ad.float32, (9,), (1,), 0), RuntimeError, "storage of 2 elements"),
    (lambda: core._to_dlpack(3, True, True), TypeError, "expected a Tensor, not int"),
    (lambda: f.clone()._resize_to(3), TypeError, "the size must be a tuple of ints"),
    (
        lambda: core._from_buffer(np.ones(2)[::-1]),
        ValueError,
        "stride in the given numpy array is n",
    ),
    (lambda: core._from_buffer(np.ones(2, ">f8")), ValueError, "byte order different"),
    (lambda: core._from_buffer(np.array(["a"])), TypeError, "can't convert elements of format"),
    (lambda: f._make_subclass(int, f), TypeError, "cls must be a subclass of Tensor"),
    (lambda: f._make_subclass(ad.Tensor, 3), TypeError, "data must be a Tensor, not int"),
    (lambda: program().tell_apart([f]), TypeError, "tell_apart() takes the arguments, and"),
    (lambda: program().tell_apart([], []), ValueError, "1 tensors are expected, not 0"),
    (lambda: program().tell_apart([3], []), TypeError, "tell_apart()[0] is not a tensor but int"),
)
def test_wrong_types(row: Row) -> None:
    check(row)
