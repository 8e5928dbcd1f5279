"""Nodes of the graph: classes, what they know and keep, calling them by hand, edges."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd.graph import GradientEdge, Node, get_gradient_edge, increment_version


def leaf(*values: float) -> Any:
    return ad.tensor(values if len(values) != 1 else values[0], requires_grad=True)


def test_nodes_have_classes_named_as_they_are() -> None:
    x = leaf(1.0, 2.0)
    node = (x * 2).grad_fn
    assert isinstance(node, Node) and issubclass(type(node), Node)
    assert type(node).__name__ == node.name() == "MulBackward0"
    assert type(node) is type((x * 3).grad_fn) is ad._C._functions.MulBackward0
    accumulator = node.next_functions[0][0]
    assert isinstance(accumulator, Node) and type(accumulator).__name__ == "AccumulateGrad"
    assert type(accumulator) is ad._C._functions.AccumulateGrad
    assert not isinstance(None, Node) and not isinstance(x, Node)
    assert repr(node).startswith("<MulBackward0 object at ")


def test_an_accumulator_knows_its_leaf_and_keeps_it() -> None:
    x = leaf(1.0, 2.0)
    node = (x * 2).grad_fn.next_functions[0][0]
    assert node.variable is x and node.next_functions == ()
    with pytest.raises(AttributeError, match="variable"):
        (x * 2).grad_fn.variable
    reference = weakref.ref(x)
    y = x * 2
    del x, node
    gc.collect()
    assert reference() is not None
    y.sum().backward()
    assert reference().grad.tolist() == [2.0, 2.0]
    del y
    gc.collect()
    assert reference() is None


def test_notes_on_a_node_stay_there() -> None:
    y = leaf(1.0) * 2
    y.grad_fn.metadata["note"] = "mine"
    assert y.grad_fn.metadata == {"note": "mine"}
    assert (y * 2).grad_fn.next_functions[0][0].metadata["note"] == "mine"


def test_numbers_rise_with_creation() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 2
    assert z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr()


def test_metadata_of_what_arrives() -> None:
    x = ad.ones(2, 3, requires_grad=True, dtype=ad.float64)
    (metadata,) = x.exp().grad_fn._input_metadata
    assert metadata.shape == (2, 3) and metadata.dtype is ad.float64
    assert metadata.device == ad.device("cpu") and not metadata.is_nested_tensor
    several = x.max(0).values.grad_fn._input_metadata
    assert [m.dtype for m in several] == [ad.float64, ad.int64]
    accumulator = x.exp().grad_fn.next_functions[0][0]
    assert accumulator._input_metadata[0].shape == (2, 3)


def test_saved_values_have_pytorchs_names() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    assert y.grad_fn._saved_self is x and y.grad_fn._saved_other is w
    e = x.exp()
    assert e.grad_fn._saved_result.tolist() == e.tolist()
    s = ad.stack([x, w], dim=1)
    assert s.grad_fn._saved_dim == 1
    m = s.sum(0, keepdim=True)
    assert tuple(m.grad_fn._saved_dim) == (0,) and m.grad_fn._saved_keepdim is True
    assert m.grad_fn._saved_self_sym_sizes == (2, 2)
    assert ad.div(x, 2.0, rounding_mode="trunc").grad_fn._saved_rounding_mode == "trunc"
    i = s[:, ad.tensor([0, 1])].grad_fn._saved_indices
    assert i[0] is None and i[1].tolist() == [0, 1]
    assert (x * 2.5).grad_fn._saved_other == 2.5
    assert "_saved_self" in dir(y.grad_fn) and "_saved_result" in dir(e.grad_fn)


def test_an_operand_that_no_derivative_reads_is_none() -> None:
    x = leaf(1.0, 2.0)
    y = x * ad.tensor([3.0, 4.0])  # only the constant is needed
    assert y.grad_fn._saved_self is None
    assert y.grad_fn._saved_other.tolist() == [3.0, 4.0]
    with pytest.raises(AttributeError, match="_saved_nothing"):
        y.grad_fn._saved_nothing


def test_saved_tensors_are_gone_after_backward_and_numbers_are_not() -> None:
    x = leaf(1.0, 2.0)
    s = ad.stack([x, x], dim=1)
    y = s.exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        y.grad_fn._saved_result
    assert s.grad_fn._saved_dim == 1


def test_a_changed_saved_value_is_noticed_when_it_is_looked_at() -> None:
    x, w = leaf(1.0, 2.0), ad.ones(2)
    y = x * w
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.grad_fn._saved_other


def test_a_node_can_be_called() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    gx, gw = y.grad_fn(ad.ones(2))
    assert gx.tolist() == [3.0, 4.0] and gw.tolist() == [1.0, 2.0]
    assert gx.requires_grad  # recorded, as any op here
    assert x.exp().grad_fn(ad.ones(2)).tolist() == x.exp().tolist()
    y.grad_fn.next_functions[0][0](ad.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        y.grad_fn(ad.ones(2), ad.ones(2))
    with pytest.raises(TypeError, match="expected 1 arguments, got 0 instead"):
        y.grad_fn()
    with pytest.raises(TypeError, match="Tensors or None"):
        y.grad_fn(3)


def test_the_node_at_work_can_be_asked_for() -> None:
    x = leaf(1.0)
    seen: list[Any] = []

    class Asks(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ad._C._current_autograd_node())
            return g * 2

    y = Asks.apply(x)
    y.backward()
    assert seen == [y.grad_fn] and ad._C._current_autograd_node() is None


def test_edges_stand_in_for_tensors() -> None:
    x = leaf(1.0, 2.0)
    y = x.sin()
    edge = get_gradient_edge(y)
    assert edge == GradientEdge(y.grad_fn, 0) and edge.ownership_token is None
    out = (y * 3).sum()
    (g,) = ad.autograd.grad(out, edge, retain_graph=True)
    assert g.tolist() == [3.0, 3.0]
    (gx,) = ad.autograd.grad(edge, x, grad_outputs=g, retain_graph=True)
    assert gx.tolist() == pytest.approx((3 * x.cos()).tolist())
    ad.autograd.backward(edge, g, inputs=get_gradient_edge(x), retain_graph=True)
    assert x.grad.tolist() == pytest.approx(gx.tolist())
    total = get_gradient_edge(y.sum())
    (ones,) = ad.autograd.grad(total, edge)
    assert ones.tolist() == [1.0, 1.0]


def test_edges_are_checked() -> None:
    x = leaf(1.0, 2.0)
    edge = get_gradient_edge(x.sin())
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(ad.ones(2))
    with pytest.raises(TypeError, match="expected a Tensor"):
        get_gradient_edge(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        ad.autograd.grad(edge, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        ad.autograd.grad(edge, x, ad.ones(3))
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        ad.autograd.grad(edge, x, ad.ones(2, dtype=ad.complex64))
    with pytest.raises(IndexError, match="there is no 1"):
        ad.autograd.grad(GradientEdge(edge.node, 1), x, ad.ones(2))
    with pytest.raises(RuntimeError, match="given input is a GradientEdge"):
        ad.autograd.grad(x.sum(), edge, materialize_grads=True)


def test_an_edge_of_a_leaf_keeps_it() -> None:
    x = leaf(1.0, 2.0)
    out = x.sin().sum()
    edge = get_gradient_edge(x)
    reference = weakref.ref(x)
    del x
    ad.autograd.backward(out, inputs=edge)
    assert reference().grad is not None


def test_a_change_behind_autograds_back_can_be_told() -> None:
    x, w = leaf(1.0, 2.0), ad.ones(2)
    y = x * w
    before = w._version
    w.numpy()[0] = 7.0
    increment_version(w)
    assert w._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    increment_version([w, w])
    assert w._version == before + 3
    with pytest.raises(TypeError, match="expects a Tensor"):
        increment_version([3])  # type: ignore[list-item]


def test_variable_is_the_old_name_of_a_tensor() -> None:
    Variable = ad.autograd.Variable
    data = ad.ones(2)
    v = Variable(data, requires_grad=True)
    assert isinstance(v, Variable) and isinstance(data, Variable) and type(v) is ad.Tensor
    assert v.requires_grad and v.data_ptr() == data.data_ptr()
    assert issubclass(ad.Tensor, Variable) and not isinstance(3, Variable)
    with pytest.raises(TypeError, match="has to be a tensor"):
        Variable([1.0])


def test_the_switch_for_threads_is_kept() -> None:
    autograd = ad.autograd
    assert autograd.is_multithreading_enabled()
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
        leaf(1.0).exp().backward()
    assert autograd.is_multithreading_enabled()


def test_a_leaf_lives_as_long_as_a_graph_needs_it_every_time() -> None:
    """Memory of tensors is used again: each new leaf must be kept, not only the first."""
    for _ in range(50):
        x = leaf(1.0, 2.0)
        y = x * 2
        reference = weakref.ref(x)
        del x
        again = reference()
        assert again is not None
        del y
        y = again * 3  # in a second graph, after the first is gone
        del again
        assert reference() is not None
        y.sum().backward()
        assert reference().grad.tolist() == [3.0, 3.0]
        del y
        assert reference() is None


def test_a_leaf_in_a_cycle_is_kept_by_a_graph_outside_of_it() -> None:
    class Holder:
        pass

    for _ in range(20):
        x = leaf(1.0, 2.0)
        y = x * 2
        holder: Any = Holder()
        holder.x, holder.self = x, holder
        del x, holder
        gc.collect()
        y.sum().backward()
        assert y.grad_fn.next_functions[0][0].variable.grad.tolist() == [2.0, 2.0]
