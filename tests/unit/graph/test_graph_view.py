"""``adjoint.graph(y)``: walking, filtering, counting, printing and folding."""

from __future__ import annotations

import gc
import random
import re
import time
import weakref
from pathlib import Path

import pytest

import adjoint as ad
from adjoint.graph import Graph
from adjoint.graph._fold import Folder
from adjoint.graph._layout import lay_out
from adjoint.graph._tree import _nodes_in


def rnn(steps: int) -> tuple[ad.Tensor, ad.Tensor, ad.Tensor, ad.Tensor]:
    w = ad.full((4, 4), 0.1, requires_grad=True)
    b = ad.zeros(4, requires_grad=True)
    h = start = ad.ones(4, requires_grad=True)
    for _ in range(steps):
        h = (w @ h + b).tanh()
    return h.sum(), w, b, start


def test_nodes_come_newest_first_with_op_shape_dtype_and_line() -> None:
    x = ad.ones(2, 3, dtype=ad.float64, requires_grad=True)
    y = (x.exp() * x).sum()
    g = ad.graph(y)
    assert [n.op for n in g] == ["sum", "mul", "exp", "leaf"]
    assert [n.name for n in g.nodes] == [
        "SumBackward0",
        "MulBackward0",
        "ExpBackward0",
        "AccumulateGrad",
    ]
    mul = g.nodes[1]
    assert mul.shape == (2, 3)
    assert mul.dtype is ad.float64
    assert mul.source is not None
    assert Path(mul.source[0]).name == "test_graph_view.py"
    assert mul.node is y.grad_fn.next_functions[0][0]
    assert [n.index for n in g] == [4, 3, 2, 1]


def test_edges_parents_and_children_agree() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x.exp() * x * 2.0
    g = ad.graph(y)
    top, inner, exp, leaf = g.nodes
    assert [child for child, _ in top.children] == [inner, None]
    assert inner.inputs == (exp, leaf)
    assert leaf.parents == [inner, exp]
    assert g.edges == [(top, inner, 0), (inner, exp, 0), (inner, leaf, 0), (exp, leaf, 0)]
    assert g.roots == [top]
    assert g.leaves == [leaf]
    assert leaf.variable is x
    assert leaf.is_leaf
    assert not top.is_leaf
    assert top.variable is None


def test_a_tensor_finds_its_node() -> None:
    x = ad.ones(2, requires_grad=True)
    other = ad.ones(2, requires_grad=True)
    e = x.exp()
    g = ad.graph(e.sum())
    assert g[e].op == "exp"
    assert g[x].is_leaf
    assert e in g
    assert other not in g
    with pytest.raises(KeyError, match="nothing shown here was computed from it"):
        g[other]
    with pytest.raises(TypeError, match="expected a Tensor or a node"):
        g["exp"]  # type: ignore[index]


def test_walk_is_depth_first_and_visits_each_node_once() -> None:
    x = ad.ones(2, requires_grad=True)
    y = (x.exp() * x.sin()).sum()
    g = ad.graph(y)
    assert [(d, n.op) for d, n in g.walk()] == [
        (0, "sum"),
        (1, "mul"),
        (2, "exp"),
        (3, "leaf"),
        (2, "sin"),
    ]
    sin = g.filter(op="sin").nodes[0]
    assert [n.op for _, n in g.walk(sin)] == ["sin", "leaf"]


def test_bytes_kept_count_each_block_of_memory_once_and_no_leaf() -> None:
    x = ad.ones(8, requires_grad=True)
    e = x.exp()
    y = (e * e).sum()
    g = ad.graph(y)
    assert g[e].saved_bytes == 32
    assert g.filter(op="mul").nodes[0].saved_bytes == 32
    assert g.saved_bytes == 32  # exp's result, which mul keeps as well
    assert ad.graph(x * x).saved_bytes == 0
    y.backward()
    g = ad.graph(y)
    assert g.saved_bytes == 0
    assert g[e].freed
    assert g[e].freed_by is not None


def test_filter_by_op_name_line_and_predicate() -> None:
    x = ad.ones(2, requires_grad=True)
    a = x * 2
    b = a.exp()
    y = (b * a).sum()
    g = ad.graph(y)
    assert [n.op for n in g.filter(op="mul")] == ["mul", "mul"]
    assert [n.op for n in g.filter(op="Exp*")] == ["exp"]
    here = g[b].source
    assert here is not None
    assert [n.op for n in g.filter(line=here[1])] == ["exp"]
    assert [n.op for n in g.filter(line=f"test_graph_view.py:{here[1]}")] == ["exp"]
    assert len(g.filter(line="test_graph_view.py", where=lambda n: not n.is_leaf)) == 4
    assert [n.op for n in g.filter(where=lambda n: n.shape == ())] == ["sum"]
    assert len(g.filter(op="mul", line=here[1])) == 0


def test_between_keeps_the_paths_only() -> None:
    x = ad.ones(2, requires_grad=True)
    z = ad.ones(2, requires_grad=True)
    a = x.exp()
    y = (a * z.sin()).sum()
    g = ad.graph(y)
    assert [n.op for n in g.between(y, x)] == ["sum", "mul", "exp", "leaf"]
    assert [n.op for n in g.between(y, a)] == ["sum", "mul", "exp"]
    assert len(g.between(a, z)) == 0


def test_counts_are_by_op_most_frequent_first() -> None:
    loss, *_ = rnn(5)
    assert ad.graph(loss).counts() == {
        "tanh": 5,
        "add": 5,
        "mv": 5,
        "leaf": 3,
        "sum": 1,
    }


def test_tree_shows_op_shape_dtype_bytes_and_line() -> None:
    x = ad.ones(3, requires_grad=True)
    e = x.exp()
    y = (e * x.sin()).sum()
    lines = str(ad.graph(y)).splitlines()
    assert lines[0] == "graph of y: 4 nodes, 1 leaf, 24 B kept for backward"
    assert re.match(r"sum +\[\] +float32 +test_graph_view.py:\d+  y = \(e \* x.sin", lines[1])
    assert re.match(r'mul +\[3\] +float32 +24 B +test_graph_view.py:\d+  "$', lines[2])
    assert re.match(r"├─ exp +\[3\] +float32 +12 B .*  e = x.exp\(\)$", lines[3])
    assert re.match(r"│  └─ leaf x +\[3\] +float32$", lines[4])
    assert re.match(r"sin +\[3\]", lines[5])
    assert re.match(r"└─ leaf x +\[3\] +float32$", lines[6])


def test_a_loop_folds_into_one_block() -> None:
    loss, w, b, start = rnn(1000)
    text = str(ad.graph(loss))
    assert "╔ 1,000 × 3 nodes" in text
    lines = text.splitlines()
    assert len(lines) == 10
    assert lines[-1].split()[:3] == ["leaf", "start", "[4]"]
    assert re.search(r"║ └─ leaf w +\[4, 4\]", text)
    assert w is not b
    assert start.is_leaf


def test_nested_loops_fold_into_nested_blocks() -> None:
    x = ad.ones(2, requires_grad=True)
    h = x
    for _ in range(20):
        for _ in range(30):
            h = h.sin()
            h = h + 1
        h = h.cos()
    lines = str(ad.graph(h)).splitlines()
    assert lines[1].startswith("╔ 20 × 61 nodes")
    assert lines[2].startswith("║ cos")
    assert lines[3].startswith("║ ╔ 30 × 2 nodes")
    assert len(lines) == 9


def test_a_loop_that_adds_up_losses_folds_whole() -> None:
    w = ad.ones(2, requires_grad=True)
    h, total = ad.ones(2), ad.tensor(0.0)
    for _ in range(40):
        h = (h * w).tanh()
        total = total + (h * h).mean()
    text = str(ad.graph(total))
    assert "╔ 40 × 5 nodes" in text
    assert len(text.splitlines()) < 12


def test_folding_can_be_turned_off_and_output_is_limited() -> None:
    loss, *_ = rnn(100)
    g = ad.graph(loss)
    whole = g.tree(fold=False, limit=None)
    assert whole.count("tanh ") == 100
    assert "╔" not in whole
    short = g.tree(fold=False, limit=10).splitlines()
    assert len(short) == 12
    assert short[-1].endswith("more lines; graph.tree(limit=None) gives all")
    assert all(len(line) <= 60 for line in g.tree(width=60).splitlines()[1:])


def test_what_repeats_only_in_its_op_is_not_folded() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x.sin()
    y = y.sin()
    y = y.sin()
    assert "╔" not in str(ad.graph(y))


def test_a_shared_node_stands_once_below_its_last_user() -> None:
    x = ad.ones(3, requires_grad=True)
    e = x.exp()
    y = e.sin() * e + e
    lines = str(ad.graph(y)).splitlines()
    assert sum(bool(re.match(r"[│├└─ ]*exp ", line)) for line in lines) == 1
    assert sum("↓ exp" in line for line in lines) == 2


def test_several_outputs_share_one_graph() -> None:
    x = ad.ones(3, requires_grad=True)
    a, b = x.exp(), x.sin()
    g = ad.graph([a, b])
    assert str(g).startswith("graph of a, b: 2 nodes, 1 leaf")
    assert {n.op for n in g.outputs} == {"exp", "sin"}
    assert g.roots == [g[b], g[a]]
    loss = (a * 2).sum()
    assert [n.op for n in ad.graph([loss, a]).roots] == ["sum"]


def test_names_can_be_given() -> None:
    x = ad.ones(3, requires_grad=True)
    assert "leaf weight " in str(ad.graph(x * 2, names={"weight": x}))
    assert "leaf x " in str(ad.graph(x * 2))
    assert "leaf x " in str(ad.graph.graph(x * 2))


def test_ops_of_several_results_and_changes_through_views_are_shown() -> None:
    x = ad.ones(4, requires_grad=True)
    a, b, c, d = x.unbind(0)
    y = (a + b + c + d).clone()
    assert "4 × []" in str(ad.graph(y))
    z = x.clone()
    z[0].mul_(2)
    assert "mul_ through a view" in str(ad.graph(z))


def test_a_part_that_is_empty_says_that_nothing_matches() -> None:
    x, other = ad.ones(3, requires_grad=True), ad.ones(3, requires_grad=True)
    h = x.exp()
    for part in (ad.graph(h).filter(op="nope"), ad.graph(h).between(h, other)):
        assert len(part) == 0
        assert str(part).endswith("(nothing matches)")


def test_a_tensor_without_history_says_so() -> None:
    x = ad.ones(3)
    with pytest.raises(ValueError, match=r"nothing was recorded for output 0 \(shape \[3\]"):
        ad.graph(x)
    with pytest.raises(ValueError, match="no outputs"):
        ad.graph([])
    with pytest.raises(TypeError, match="expected a Tensor or a node, got int"):
        ad.graph([1])
    with pytest.raises(TypeError, match="expected a Tensor or a node, got int"):
        ad.graph(1)


def test_dot_has_every_node_and_edge_and_escapes_labels() -> None:
    x = ad.ones(3, requires_grad=True)
    y = (x.exp() * x).sum()
    text = ad.graph(y, names={'the "x"': x}).to_dot("my graph")
    assert text.startswith('digraph "my graph" {\n')
    assert text.rstrip().endswith("}")
    assert text.count(" -> ") == 4
    assert r"leaf the \"x\"\n[3] float32" in text
    assert "n1 -> n2;" in text


def test_a_hundred_thousand_nodes_are_shown_without_recursion() -> None:
    x = ad.ones(1, requires_grad=True)
    h = x
    for _ in range(50_000):
        h = h * x
        h = h.sin()
    begin = time.perf_counter()
    g = ad.graph(h)
    text = str(g)
    assert "╔ 50,000 × 2 nodes" in text
    assert len(g) == 100_001
    assert time.perf_counter() - begin < 30  # quadratic would be minutes


def test_a_graph_that_does_not_repeat_stays_linear() -> None:
    x = ad.ones(1, requires_grad=True)
    h = x
    state = 1
    for _ in range(20_000):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        h = h.sin() if state >> 16 & 1 else h.cos()
    begin = time.perf_counter()
    text = ad.graph(h).tree(limit=5)
    assert "more lines" in text
    assert time.perf_counter() - begin < 20


def test_the_view_keeps_the_graph_as_it_was() -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    g = ad.graph(y)
    text = str(g)
    y.sum().backward()
    assert str(g) == text
    assert repr(g) == "<graph of y: 1 node, 1 leaf, 12 B kept for backward>"


def folded_count(g: Graph) -> int:
    spines = lay_out(g)
    items = Folder().fold_all(spines)
    return sum(_nodes_in(items[id(s)], items) for s in spines[: len(g.roots)])


@pytest.mark.parametrize("seed", range(30))
def test_blocks_stand_for_every_node_exactly_once(seed: int) -> None:
    """Random programs of loops, branches and shared results: nothing is lost or counted twice."""
    draw = random.Random(seed)
    leaves = [ad.ones(2, requires_grad=True) for _ in range(2)]
    pool = list(leaves)
    for _ in range(draw.randrange(1, 5)):
        body = [
            (draw.choice("+*sw"), draw.randrange(4), draw.randrange(4))
            for _ in range(draw.randrange(1, 4))
        ]
        for _ in range(draw.choice([1, 2, 7, 30])):
            for kind, i, j in body:
                a, b = pool[-1 - i % len(pool)], pool[-1 - j % len(pool)]
                if kind == "+":
                    pool.append(a + b)
                elif kind == "*":
                    pool.append(a * b)
                elif kind == "s":
                    pool.append(a.sin())
                else:
                    pool.append(ad.where(a > 0, b, a))
    outputs = [t for t in draw.sample(pool, min(3, len(pool))) if t.grad_fn is not None]
    g = ad.graph(outputs or [pool[-1]])
    assert folded_count(g) == len(g) - len(g.leaves) + sum(n.is_leaf for n in g.roots)
    unfolded = g.tree(fold=False, limit=None)
    assert unfolded.count("\n") >= len(g) - len(g.leaves)
    assert len(g.tree(limit=None)) <= len(unfolded) + 200


def test_a_leaf_alone_is_a_graph() -> None:
    x = ad.ones(2, requires_grad=True)
    text = str(ad.graph(x))
    assert text.splitlines()[0] == "graph of x: 0 nodes, 1 leaf, 0 B kept for backward"
    assert "leaf x" in text


def test_a_graph_is_freed_without_the_garbage_collector() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    view = ad.graph(y)
    gone = [weakref.ref(view.nodes[i]) for i in (0, 50_000, -1)]
    gc.disable()
    try:
        del view
        assert [r() for r in gone] == [None] * 3
    finally:
        gc.enable()


def test_a_part_keeps_the_parents_of_its_nodes() -> None:
    x = ad.ones(2, requires_grad=True)
    part = ad.graph((x.exp() * x).sum()).filter(op="exp")
    (exp,) = part
    assert [n.op for n in exp.parents] == ["mul"]
    assert [n.op for n in exp.parents[0].parents] == ["sum"]
    del part
    assert exp.parents == []


def test_the_variables_of_a_caller_that_lives_on_are_not_held() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    node = weakref.ref(y.grad_fn)
    assert str(ad.graph(y)).startswith("graph of y")
    ad.explain_grad(y.sum(), x)
    del y
    assert node() is None


def test_what_locals_gave_is_left_alone() -> None:
    x = ad.ones(2, requires_grad=True)
    mine = locals()
    assert "leaf x" in str(ad.graph(x * 2))
    assert mine["x"] is x


def test_a_look_at_a_small_graph_does_not_count_what_a_program_has_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To count is to walk all of it: milliseconds, in a server that froze what it imported."""
    counted: list[int] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 0)
    x = ad.ones(3, requires_grad=True)
    assert "exp" in str(ad.graph(x.exp()))
    assert not counted
    y = x
    for _ in range(60_000):
        y = y + 1
    ad.graph(y)
    assert counted


def test_inside_of_a_map_the_graph_is_that_of_the_batch() -> None:
    graphs = []

    def of_row(x: ad.Tensor) -> ad.Tensor:
        y = x.sin().sum()
        graphs.append(ad.graph(y))
        return y

    ad.vmap(of_row)(ad.ones(3, 2, requires_grad=True))
    assert graphs[0].leaves[0].shape == (3, 2)
    assert next(iter(graphs[0])).op == "sum"
