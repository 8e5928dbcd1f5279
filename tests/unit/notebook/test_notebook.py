"""What notebooks show is HTML that stands alone, says what the text says, and never raises."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest

import adjoint as ad

VOID = {"br", "path", "img"}


class Balance(HTMLParser):
    """Raises if an element is closed that was not opened, or asks another host for something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link")
        assert not any("//" in (value or "") for name, value in attrs if name != "srcdoc")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words(shown: Any) -> str:
    return "".join(Balance(shown._repr_html_()).words)


@ad.composite
@dataclass
class Body:
    place: ad.Tensor
    parts: list[Any]
    name: str = "<b>"


def test_a_tensor_says_what_it_is_and_where_it_was_made() -> None:
    x = ad.arange(12.0).reshape(3, 4).requires_grad_()
    assert "tensor float32 [3, 4]" in words(x) and "max 11" in words(x)
    assert "leaf, requires_grad; grad is None" in words(x)
    y = (x * x).sum(0)
    assert "grad_fn: SumBackward" in words(y) and "test_notebook.py" in words(y)
    y.sum().backward()
    assert f"norm of grad {float((2 * x).norm()):.4g}" in words(x)
    assert "<svg" in x._repr_html_() and "<svg" not in ad.tensor(1.0)._repr_html_()


@pytest.mark.parametrize(
    "t",
    [
        ad.tensor(3),
        ad.tensor(1 + 2j),
        ad.zeros(0, 3),
        ad.zeros(2, 0),
        ad.full((5, 5), float("nan")),
        ad.tensor([float("inf"), -float("inf"), 0.0] * 5),
        ad.full((100, 100), 1e308, dtype=ad.float64),
        ad.randn(3, 70, 50).transpose(0, 2),
        ad.randn(9, 9).bfloat16(),
        ad.randn(9, 9) > 0,
        ad.eye(12).to_sparse(),
        ad.randn(20, dtype=ad.complex64).conj(),
        ad.empty(20, 3, device="meta"),
        ad.nn.Parameter(ad.ones(30)),
    ],
    ids=lambda t: f"{t.dtype} {list(t.shape)}",
)
def test_every_kind_of_tensor_can_be_shown(t: ad.Tensor) -> None:
    assert str(list(t.shape)) in words(t)


def test_numbers_in_brief_of_every_layout_and_dtype() -> None:
    assert "12 stored, sparse_coo" in words(ad.eye(12).to_sparse())
    assert "12 stored, sparse_csr" in words(ad.eye(12).to_sparse_csr())
    shown = (ad.arange(16.0).view(4, 4).bfloat16())._repr_html_()
    assert "max 15" in shown and "<svg" in shown


def test_batched_tensors_can_be_shown() -> None:
    seen = []
    ad.func.vmap(lambda row: seen.append(words(row * 2)) or row)(ad.ones(3, 20))
    assert "[20]" in seen[0]


def test_numbers_that_are_not_finite_are_counted() -> None:
    t = ad.tensor([1.0, float("nan"), float("inf"), float("inf")] * 4)
    assert "4 NaN" in words(t) and "8 infinite" in words(t)


def test_a_composite_is_a_tree_that_opens() -> None:
    body = Body(ad.ones(20), [ad.zeros(3), {"deep": ad.eye(4)}, 7])
    html = body._repr_html_()
    assert html.count("<details") == 6 and "<b>" not in html.replace("<b>tensor", "")
    assert "Body: 3 tensors, 39 elements" in words(body)
    shown = ad.notebook.show({"w": ad.ones(3), "many": list(range(500))})
    assert "... 400 more" in words(shown) and repr(shown).startswith("dict: 1 tensor")


def test_reports_and_graphs_show_what_they_print() -> None:
    x = ad.ones(3, requires_grad=True, dtype=ad.float64)
    loss = (x.detach() * 2).sum()
    assert words(ad.explain_grad(loss, x)) == str(ad.explain_grad(loss, x))
    y = (x.exp() * x).sum()
    shown = words(ad.graph(y)).replace("\n", "")
    assert shown == str(ad.graph(y)).replace("\n", "") + "as a page"
    report = ad.graph_report()
    assert words(report) == str(report)
    check = ad.check(lambda x: x**2, x.detach())
    assert "right" in words(check)


def test_a_pass_and_its_steps_are_shown_as_they_print() -> None:
    x = ad.ones(2, requires_grad=True)
    s = ad.step((x * 3).sum())
    assert words(s) == str(s)
    step = s.next()
    assert words(step) == str(step)


def test_a_compiled_function_shows_its_programs_and_why_it_runs_eagerly() -> None:
    fast = ad.compile(lambda x: (x * 2).sin().sum())
    for _ in range(2):
        fast(ad.ones(3))
    assert "compiled: 1 program" in words(fast) and "sin" in words(fast)
    assert words(fast.programs) in words(fast)
    assert words(fast.programs).startswith("1: forward: 1 instruction")
    assert "sin" in words(fast.programs[0])
    assert repr(fast.programs) == "[<program, forward: 1 instruction>]"
    eager = ad.compile(lambda x: float(x.sum()))
    with pytest.warns(ad.compiler.CompileWarning):
        eager(ad.ones(3))
    assert "runs eagerly" in words(eager) and eager.reasons[0] in words(eager)
