"""What the Python half calls in the C++ half: given something else, it refuses."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import _core
from tests.errors.table import Row, check, refusals

core: Any = _core
f = ad.ones(2)


@refusals(
    (lambda: core._keep_tensors(3), TypeError, "_keep_tensors(): expected a tuple of tensors"),
    (lambda: core._keep_tensors((3,)), TypeError, "_keep_tensors(): expected a tuple of tensors"),
    (lambda: core._kept_tensors(3), TypeError, "_kept_tensors(): expected a node"),
    (lambda: core._set_op_cache(3), TypeError, "expected (cache, replay, wants) or None"),
    (lambda: core._set_composite_forms(3), TypeError, "_set_composite_forms(): expected a dict"),
    (lambda: core._set_composite_forms({"Tensor": 3}), TypeError, "Tensor is no op"),
    (lambda: core._einsum("ij", []), RuntimeError, "must provide at least one operand"),
    (lambda: core._node_facts(3), TypeError, "expected a graph node, got int"),
    (lambda: core._node_hooks(3), TypeError, "expected a Node of the graph, got int"),
    (lambda: core._tensor_hooks(3), TypeError, "expected a Tensor, got int"),
    (lambda: core._function_apply(), TypeError, "apply() needs the class"),
    (lambda: core._function_apply(int), TypeError, "belongs to subclasses of autograd.Function"),
    (lambda: core._source_line_seconds(0), ValueError, "the count must be positive"),
    (lambda: core._extend_tensor(3), TypeError, "expected a dict"),
    (lambda: core._exit_vmap(5), RuntimeError, "there is no vmap level 5"),
    (lambda: core._plain_vectors(3, ()), TypeError, "_plain_vectors(): expected tuples or lists"),
    (lambda: f._make_subclass(int, f), TypeError, "cls must be a subclass of Tensor"),
    (lambda: f._make_subclass(ad.Tensor, 3), TypeError, "data must be a Tensor, not int"),
)
def test_wrong_types(row: Row) -> None:
    check(row)
