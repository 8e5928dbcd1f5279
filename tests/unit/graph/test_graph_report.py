"""``adjoint.graph_report()``: live nodes and bytes by line, and their growth."""

from __future__ import annotations

import gc
import re
import time

import adjoint as ad


def test_growth_names_the_line_that_keeps_results() -> None:
    gc.collect()
    x = ad.ones(1000, requires_grad=True)
    ad.graph_report()
    kept = [x.exp() for _ in range(10)]
    report = ad.graph_report()
    assert report.nodes_growth == 10
    assert report.bytes_growth == 40_000
    row = next(r for r in report.rows if r.op == "exp" and r.nodes_growth == 10)
    assert row.bytes_growth == 40_000
    assert row.source is not None
    assert row.source[0].endswith("test_graph_report.py")
    text = str(report)
    assert "since the last report +10 nodes, +40.0 kB" in text
    assert re.search(r"\+10 +40\.0 kB +\+40\.0 kB +exp +test_graph_report.py:\d+   kept = ", text)
    del kept
    report = ad.graph_report()
    assert report.nodes_growth == -10
    assert "-10 nodes, -40.0 kB" in str(report)


def test_memory_of_leaves_and_memory_kept_twice_count_once() -> None:
    gc.collect()
    x = ad.ones(1000, requires_grad=True)
    ad.graph_report()
    e = x.exp()
    y = e * e * x
    report = ad.graph_report()
    assert report.nodes_growth == 3
    assert report.bytes_growth == 8000  # exp's result and e * e
    y.sum().backward()
    assert ad.graph_report().bytes_growth == -8000


def test_tables_can_be_cut_short() -> None:
    x = ad.ones(2, requires_grad=True)
    kept = [x.exp(), x.sin(), x.cos()]
    report = ad.graph_report()
    assert report.table(limit=1).splitlines()[-1].startswith("... and ")
    assert len(report.table(limit=None).splitlines()) == len(report.rows) + 2
    assert len(kept) == 3


def test_a_hundred_thousand_nodes_take_about_a_second() -> None:
    x = ad.ones(1, requires_grad=True)
    h = x
    for _ in range(100_000):
        h = h.sin()
    begin = time.process_time()
    report = ad.graph_report()
    assert time.process_time() - begin < 5  # 0.3 s, and others may have the cores
    assert report.nodes >= 100_000
