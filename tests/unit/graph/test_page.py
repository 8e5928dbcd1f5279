"""The page of a graph as data; tests/browser looks at it in a browser."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from tests.children import ENVIRONMENT


def data_of(path: str | Path) -> dict[str, Any]:
    text = Path(path).read_text(encoding="utf-8")
    found = re.search(r"^const DATA = (.*);$", text, re.M)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def ops(data: dict[str, Any]) -> list[str]:
    return [data["kinds"][k][0] for k in data["node"]["kind"]]


def titles(tree: list[Any]) -> list[Any]:
    """Boxes as (title, what is in them), nodes left out."""
    return [(box["title"], titles(box["items"])) for box in tree if isinstance(box, dict)]


def loop(steps: int) -> Any:
    w = ad.eye(3).requires_grad_()
    state = ad.ones(3)
    for _ in range(steps):
        state = (w @ state).tanh()
    return state.sum()


def test_a_page_is_one_file_that_may_not_ask_for_others(tmp_path: Path) -> None:
    path = ad.graph(loop(3)).save(tmp_path / "graph.html")
    assert path == str(tmp_path / "graph.html")
    text = Path(path).read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=[\"']?(https?:|//)", text)
    assert "@data@" not in text


def test_show_opens_it_and_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or False)
    path = ad.graph(loop(2)).show()
    assert opened == [Path(path).as_uri()]
    assert data_of(path)["steps"] is None
    path = ad.step(loop(2)).show()
    assert len(opened) == 2
    assert data_of(path)["steps"]


def test_a_loop_is_a_box_whose_newest_step_stands_for_all(tmp_path: Path) -> None:
    data = data_of(ad.graph(loop(10)).save(tmp_path / "graph.html"))
    (box,) = [item for item in data["tree"] if isinstance(item, dict)]
    assert (box["kind"], box["count"], len(box["others"])) == ("loop", 10, 9)
    assert [ops(data)[i] for i in box["items"]] == ["tanh", "mv"]
    stands = data["node"]["stands"]
    assert {stands[i] for step in box["others"] for i in step} == set(box["items"])
    assert sum(data["node"]["total"]) == ad.graph(loop(10)).saved_bytes


def test_branches_that_are_alike_are_one_box(tmp_path: Path) -> None:
    x = ad.ones(3, requires_grad=True)
    y = ad.stack([(x * i).sin() for i in range(20)] + [x.exp()]).sum()
    data = data_of(ad.graph(y).save(tmp_path / "graph.html"))
    (box,) = [item for item in data["tree"] if isinstance(item, dict)]
    assert (box["kind"], box["count"]) == ("branches", 20)
    assert [ops(data)[i] for i in box["items"]] == ["sin", "mul"]
    assert [len(step) for step in box["others"]] == [2] * 19


def test_a_loop_is_found_whatever_its_steps_compute_from_what(tmp_path: Path) -> None:
    k = ad.tensor(2.0, requires_grad=True)
    a, b = ad.ones(3), ad.ones(2, 3) * k
    b = b.exp()
    for _ in range(6):
        a, b = (b * k).sum(0), b + a  # each goes on with the other
        for _ in range(4):
            b = b.sin() * 2
    data = data_of(ad.graph(a.sum() + b.sum()).save(tmp_path / "graph.html"))
    (outer,) = [item for item in data["tree"] if isinstance(item, dict)]
    assert (outer["kind"], outer["count"]) == ("loop", 6)
    (inner,) = [item for item in outer["items"] if isinstance(item, dict)]
    assert (inner["kind"], inner["count"]) == ("loop", 4)
    weights = [ad.ones(3, requires_grad=True) for _ in range(5)]
    for count in (3, 5):  # steps with leaves of their own
        y = ad.ones(3)
        for w in weights[:count]:
            y = (y * w).sin()
        data = data_of(ad.graph(y.sum()).save(tmp_path / "graph.html"))
        found = [box["count"] for box in data["tree"] if isinstance(box, dict) and "count" in box]
        assert found == [5] * (count == 5)


def test_above_a_size_the_newest_step_has_the_sums_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adjoint.graph import _page

    y = loop(50)
    whole = data_of(ad.graph(y).save(tmp_path / "whole.html"))
    monkeypatch.setattr(_page, "_ALL", 20)
    data = data_of(ad.graph(y).save(tmp_path / "folded.html", backward=True))
    assert len(data["node"]["kind"]) < 8
    assert sum(data["node"]["many"]) == len(whole["node"]["kind"])
    assert sum(data["node"]["total"]) == sum(whole["node"]["total"])
    assert data["steps"] is None
    assert all(value is not None for value in data["node"]["norm"])
    pairs = list(zip(data["edges"][::2], data["edges"][1::2], strict=True))
    names = {(ops(data)[a], ops(data)[b]) for a, b in pairs}
    assert names == {("sum", "tanh"), ("tanh", "mv"), ("mv", "tanh"), ("mv", "leaf")}


def test_the_pass_behind_a_page_touches_no_grad_and_keeps_the_graph(tmp_path: Path) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp().sum()
    data = data_of(ad.graph(y).save(tmp_path / "graph.html", backward=True))
    assert x.grad is None
    assert [ops(data)[s["node"]] for s in data["steps"]] == ["sum", "exp", "leaf"]
    y.backward()
    assert x.grad.tolist() == x.exp().tolist()
    with pytest.raises(RuntimeError, match="the graph was freed, so no backward pass can run"):
        ad.graph(y).save(tmp_path / "graph.html", backward=True)
    ad.graph(y).save(tmp_path / "graph.html")
    part = ad.graph(x.exp().sum()).filter(op="exp")
    part.save(tmp_path / "graph.html")
    with pytest.raises(ValueError, match="a part of a graph"):
        part.save(tmp_path / "graph.html", backward=True)


def test_numbers_that_json_lacks_are_words(tmp_path: Path) -> None:
    x = ad.tensor([0.0, -1.0], requires_grad=True)
    z = ad.tensor([1.0 + 2.0j], requires_grad=True)
    y = x.sqrt().sum() + (z * 0.5).abs().sum()
    data = data_of(ad.graph(y).save(tmp_path / "graph.html", backward=True))
    (step,) = [s for s in data["steps"] if ops(data)[s["node"]] == "sqrt"]
    assert step["sent"][0][1][-1] == ["inf", "nan"]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.lin(x * 3).tanh() * 2


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x: Any) -> Any:
        return (self.second(self.first(x)) + 1).exp()


def test_modules_are_nested_boxes_of_their_calls(tmp_path: Path) -> None:
    net = Outer()
    with ad.graph.modules():
        y = net(ad.ones(3, 2)).sum()
    after = (y * 2).exp()
    graph = ad.graph(after)
    assert [n.module for n in graph if n.op in ("tanh", "sum")] == [
        "",
        "Outer.second",
        "Outer.first",
    ]
    data = data_of(graph.save(tmp_path / "graph.html"))
    assert titles(data["tree"]) == [
        ("Outer", [("second  Inner", []), ("first  Inner", [])]),
    ]
    assert sorted(data["node"]["tag"].values()) == ["lin", "lin"]
    with ad.graph.modules():
        pass
    assert graph.nodes[-2].module == ""


def test_modules_that_were_not_recorded_are_told_by_their_parameters(tmp_path: Path) -> None:
    """To the same boxes, with what of `forward` is before and after the parameters."""
    net, lists = Outer(), nn.ModuleList([Inner() for _ in range(3)])
    shared = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))

    def graph() -> ad.graph.Graph:
        y = net(ad.ones(3, 2)) * 3
        for layer in lists:
            y = layer(y)
        return ad.graph((shared(y) - shared(y.exp())).sum())

    data = data_of(graph().save(tmp_path / "graph.html"))
    assert titles(data["tree"]) == [
        ("shared  Sequential", []),
        ("2  Inner", []),
        ("1  Inner", []),
        ("0  Inner", []),
        ("net  Outer", [("second  Inner", []), ("first  Inner", [])]),
    ]
    boxes = {box["title"]: box for box in data["tree"] if isinstance(box, dict)}
    assert [ops(data)[i] for i in boxes["2  Inner"]["items"]] == [
        "mul",
        "tanh",
        "_linear_bias",
        "mul",
    ]
    nodes = [i for i in boxes["net  Outer"]["items"] if isinstance(i, int)]
    assert [ops(data)[i] for i in nodes] == ["exp", "add"]
    with ad.graph.modules():
        recorded = ad.graph(net(ad.ones(3, 2)))
    (outer,) = [
        b for b in data_of(recorded.save(tmp_path / "g.html"))["tree"] if isinstance(b, dict)
    ]
    assert titles([outer]) == [("Outer", titles(boxes["net  Outer"]["items"]))]
    with ad.graph.modules():
        pass
    named = {"weight": shared[0].weight}  # nothing is known of models by other names
    data = data_of(ad.graph(shared(ad.ones(2)), named).save(tmp_path / "g.html"))
    assert titles(data["tree"]) == []


def test_an_error_in_a_module_does_not_disturb_later_calls() -> None:
    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError

    with ad.graph.modules():
        with pytest.raises(KeyError):
            Fails()(1)
        y = nn.Linear(2, 2)(ad.ones(2))
    assert ad.graph(y).nodes[0].module == "Linear"
    assert not nn.modules.module._global_forward_pre_hooks
    assert not nn.modules.module._global_forward_hooks


@ad.composite(arithmetic=True)
@dataclass
class State:
    a: Any
    b: Any


def test_operations_on_composites_and_their_leaves_are_boxes(tmp_path: Path) -> None:
    state = State(ad.ones(2, requires_grad=True), ad.ones(3, requires_grad=True))
    moved = state + 0.5 * state
    y = moved.a.sum() * moved.b.sum()
    data = data_of(ad.graph(y).save(tmp_path / "graph.html"))
    found = [title for title, _ in titles(data["tree"])]
    assert sorted(found) == ["add of 2 parts", "mul of 2 parts", "state"]
    x = ad.ones(2, requires_grad=True)
    y = (x * 2 + x * 3).sum()  # two products on one line are not one operation
    assert titles(data_of(ad.graph(y).save(tmp_path / "graph.html"))["tree"]) == []


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "adjoint", "graph", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=ENVIRONMENT,
    )


def test_the_pass_of_a_program_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, torch\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "x.register_hook(lambda g: print('hook'))\n"
        "for i in range(2):\n"
        "    loss = (x.exp() * (i + 1)).sum()\n"
        "    loss.backward()\n"
        "print(x.grad.tolist() == (3 * x.exp()).tolist(), sys.argv[1:])\n"
        "torch.autograd.backward((x * 2).sum())\n"
    )
    done = run("-o", "page.html", "--pass", "3", "train.py", "-o", "b", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "hook\nhook\nTrue ['-o', 'b']\nhook\n"), (
        done.stderr
    )
    data = data_of(tmp_path / "page.html")
    assert [ops(data)[s["node"]] for s in data["steps"]] == ["sum", "mul", "leaf"]
    assert data["node"]["label"] == {"2": "x"}
    done = run("-o", "none.html", "--pass", "4", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "ran 3 backward passes, there is no pass 4" in done.stderr
    assert run("--pass", "0", "train.py", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("command", [["graph", "-o"], ["profile", "--html"]])
def test_a_page_that_cannot_be_written_is_told_before_the_program_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    from adjoint.cli import main

    script = tmp_path / "says.py"
    script.write_text("print('it ran')\n")
    for page, why in (
        (tmp_path / "no" / "page.html", "there is no folder"),
        (tmp_path, "a folder"),
    ):
        assert main([*command, str(page), str(script)]) == 2
        said = capsys.readouterr()
        assert why in said.err
        assert said.out == ""


def irregular(steps: int) -> Any:
    """A graph whose ops were thrown by a die."""
    draw = random.Random(0)
    pool = [ad.ones(2, requires_grad=True)]
    for _ in range(steps):
        a, b = draw.choice(pool[-9:]), draw.choice(pool[-9:])
        pool.append((a * b).sin() if draw.random() < 0.5 else (a + b).exp())
    return pool[-1].sum()


def test_a_large_graph_that_does_not_repeat_is_shown_by_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adjoint.graph import _page

    y = irregular(300)
    whole = data_of(ad.graph(y).save(tmp_path / "whole.html"))
    monkeypatch.setattr(_page, "_ALL", 20)
    data = data_of(ad.graph(y).save(tmp_path / "lines.html", backward=True))
    assert sorted(ops(data)) == sorted(["sum", "sin", "mul", "exp", "add", "leaf"])
    assert sum(data["node"]["many"]) == len(whole["node"]["kind"])
    assert sum(data["node"]["total"]) == sum(whole["node"]["total"])
    (box,) = (part for part in data["tree"] if isinstance(part, dict))
    assert box["kind"] == "gathered"
    assert len(box["items"]) == 5


def test_a_look_ahead_misses_no_repetition() -> None:
    from adjoint.graph._fold import next_equal, possible_starts, repetition

    draw = random.Random(0)
    for _ in range(300):
        ids = [draw.randrange(3) for _ in range(draw.randrange(40))]
        following, longest = next_equal(ids), draw.randrange(1, 12)
        found = [i for i in range(len(ids)) if repetition(i, ids, following, longest)[0]]
        assert set(found) <= set(possible_starts(ids, following, longest))


@pytest.mark.parametrize("name", ["@data@ @style@ @script@", "</script><b>&\"'", "é中\u2028\udc80"])
def test_names_of_any_kind_stay_names(tmp_path: Path, name: str) -> None:
    y = loop(2)
    path = ad.graph(y, names={name: y}).save(tmp_path / "graph.html")
    assert data_of(path)["title"] == f"graph of {name}"
    assert Path(path).read_text(encoding="utf-8").count("</script>") == 1


def test_a_pass_begins_at_the_output_that_is_meant(tmp_path: Path) -> None:
    x = ad.ones(5, 4, requires_grad=True)
    _, second = x.exp().split([2, 3])
    q, r = ad.linalg.qr(x.cos() + ad.eye(5, 4))
    for outputs in (second, [r, q], {"r": r, "q": q, "second": second}):
        parts = [outputs] if isinstance(outputs, ad.Tensor) else list(outputs)
        parts = list(outputs.values()) if isinstance(outputs, dict) else parts
        path = ad.graph(outputs).save(tmp_path / "graph.html", backward=True)
        last = data_of(path)["steps"][-1]
        (expected,) = ad.autograd.grad([p.sum() for p in parts], x, retain_graph=True)
        assert last["got"][0][0] == pytest.approx(float(expected.norm()), rel=1e-5)


def test_several_outputs_that_are_not_a_list_are_told_apart_from_names() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"names: expected a dict .* got Tensor; several outputs"):
        ad.graph(x.exp(), x.sin())  # type: ignore[arg-type]
