"""Graph nodes as Python sees them, and the modes that decide whether there are any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

X = [[1.0, 2.0], [3.0, 4.0]]
# What torch calls the node of each; scripts and teaching material print these.
NAMES: list[tuple[str, Callable[[Any], Any]]] = [
    ("AddBackward0", lambda x: x + 1),
    ("SubBackward0", lambda x: x - 1),
    ("RsubBackward1", lambda x: 1 - x),
    ("MulBackward0", lambda x: x * 2),
    ("DivBackward0", lambda x: x / 2),
    ("PowBackward0", lambda x: x**2),
    ("PowBackward1", lambda x: x**x),
    ("NegBackward0", lambda x: -x),
    ("AbsBackward0", lambda x: x.abs()),
    ("ExpBackward0", lambda x: x.exp()),
    ("LogBackward0", lambda x: x.log()),
    ("SinBackward0", lambda x: x.sin()),
    ("TanhBackward0", lambda x: x.tanh()),
    ("SigmoidBackward0", lambda x: x.sigmoid()),
    ("SqrtBackward0", lambda x: x.sqrt()),
    ("ReluBackward0", lambda x: x.relu()),
    ("SumBackward0", lambda x: x.sum()),
    ("SumBackward1", lambda x: x.sum(0)),
    ("MeanBackward0", lambda x: x.mean()),
    ("MeanBackward1", lambda x: x.mean(0)),
    ("ProdBackward0", lambda x: x.prod()),
    ("MaxBackward1", lambda x: x.max()),
    ("MaxBackward0", lambda x: x.max(0).values),
    ("MmBackward0", lambda x: x @ x),
    ("MvBackward0", lambda x: x @ x[0]),
    ("DotBackward0", lambda x: x[0] @ x[1]),
    ("AddmmBackward0", lambda x: ad.addmm(x, x, x)),
    ("TBackward0", lambda x: x.t()),
    ("TransposeBackward0", lambda x: x.transpose(0, 1)),
    ("PermuteBackward0", lambda x: x.permute(1, 0)),
    ("ViewBackward0", lambda x: x.view(4)),
    ("ViewBackward0", lambda x: x.reshape(4)),
    ("UnsqueezeBackward0", lambda x: x.unsqueeze(0)),
    ("SqueezeBackward0", lambda x: x.squeeze()),
    ("ExpandBackward0", lambda x: x.expand(3, 2, 2)),
    ("SelectBackward0", lambda x: x[0]),
    ("SliceBackward0", lambda x: x[1:]),
    ("IndexBackward0", lambda x: x[ad.tensor([0, 1])]),
    ("CatBackward0", lambda x: ad.cat([x, x])),
    ("StackBackward0", lambda x: ad.stack([x, x])),
    ("CloneBackward0", lambda x: x.clone()),
    ("WhereBackward0", lambda x: ad.where(x > 2, x, 0.0)),
    ("ClampBackward1", lambda x: x.clamp(2, 3)),
    ("SoftmaxBackward0", lambda x: x.softmax(0)),
    ("LogSoftmaxBackward0", lambda x: x.log_softmax(0)),
    ("ToCopyBackward0", lambda x: x.double()),
    ("VarBackward0", lambda x: x.var()),
    ("StdBackward0", lambda x: x.std()),
    ("GatherBackward0", lambda x: x.gather(0, ad.tensor([[0, 1]]))),
    ("MaskedFillBackward0", lambda x: x.masked_fill(x > 2, 0.0)),
    ("CumsumBackward0", lambda x: x.cumsum(0)),
]


@pytest.mark.parametrize(("name", "make"), NAMES, ids=[n for n, _ in NAMES])
def test_nodes_are_named_as_in_torch(name: str, make: Callable[[Any], Any]) -> None:
    y = make(ad.tensor(X, requires_grad=True))
    assert y.grad_fn.name() == name
    assert type(y.grad_fn).__name__ == name
    assert f"grad_fn=<{name}>" in repr(y)


def test_next_functions_lead_to_the_leaves() -> None:
    x, w = (ad.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    y = (x * w) + 1
    (mul, slot), (nothing, _) = y.grad_fn.next_functions
    assert mul.name() == "MulBackward0" and slot == 0 and nothing is None
    (to_x, _), (to_w, _) = mul.next_functions
    assert "AccumulateGrad" in to_x.name()
    assert to_x.variable is x and to_w.variable is w
    assert to_x.next_functions == ()


def test_a_node_is_one_object() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    y = x * 2
    assert y.grad_fn is y.grad_fn
    assert (y + 1).grad_fn.next_functions[0][0] is y.grad_fn
    a, b = ((y + 1).grad_fn.next_functions[0][0] for _ in range(2))
    assert a == b and hash(a) == hash(b)


def test_a_constant_takes_no_edge() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    (edge, other) = (x * ad.tensor(3.0)).grad_fn.next_functions
    assert edge[0] is not None and other[0] is None


def test_no_grad_records_nothing_and_nests() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    assert ad.is_grad_enabled()
    with ad.no_grad():
        assert not ad.is_grad_enabled() and (x * 2).grad_fn is None
        with ad.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_modes_are_restored_after_an_error() -> None:
    with pytest.raises(KeyError), ad.no_grad():
        raise KeyError
    assert ad.is_grad_enabled()


def test_modes_decorate_functions() -> None:
    @ad.no_grad()
    def twice(x: Any) -> Any:
        """Double."""
        return x * 2

    x = ad.tensor(2.0, requires_grad=True)
    assert not twice(x).requires_grad and ad.is_grad_enabled()
    assert twice.__name__ == "twice" and twice.__doc__ == "Double."
    with ad.no_grad():
        assert ad.enable_grad()(lambda: x * 2)().requires_grad


def test_no_grad_decorates_generators_step_by_step() -> None:
    @ad.no_grad()
    def count() -> Any:
        yield ad.is_grad_enabled()
        yield ad.is_grad_enabled()

    for inside in count():
        assert not inside and ad.is_grad_enabled()


def test_set_grad_enabled_is_a_call_and_a_context() -> None:
    with ad.set_grad_enabled(False):
        assert not ad.is_grad_enabled()
    try:
        ad.set_grad_enabled(False)
        assert not ad.is_grad_enabled()
    finally:
        ad.set_grad_enabled(True)
    assert ad.is_grad_enabled()


def test_detach_shares_memory_and_leaves_the_graph() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    d = x.detach()
    assert d.data_ptr() == x.data_ptr() and not d.requires_grad and d.grad_fn is None
    d[0] = 5.0
    assert x[0].item() == 5.0 and x._version == 1
    y = x * 2
    assert y.detach_() is y and not y.requires_grad


def test_a_view_older_than_the_leafs_requires_grad_refuses_to_change_it() -> None:
    leaf = ad.ones(2, 3)
    view = leaf[:]
    leaf.requires_grad_()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        view.add_(5)
    assert leaf.tolist() == [[1.0] * 3] * 2
    leaf.detach().add_(5)  # says that it means it
    with ad.no_grad():
        view.add_(1)
    assert leaf.tolist() == [[7.0] * 3] * 2


def test_retained_gradients_add_up_over_passes() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    h.retain_grad()
    out = (h * h).sum()
    out.backward(retain_graph=True)
    assert h.grad.tolist() == [6.0, 12.0]
    out.backward()
    assert h.grad.tolist() == [12.0, 24.0]
    assert x.grad.tolist() == [36.0, 72.0]


def test_leaves_that_only_a_graph_holds_live_in_memory_used_before():
    for _ in range(5):
        nodes = [(ad.ones(2, requires_grad=True) * 2).grad_fn for _ in range(20)]
        leaves = [n.next_functions[0][0].variable for n in nodes]
        assert all(leaf.shape == (2,) for leaf in leaves)
        del nodes, leaves
