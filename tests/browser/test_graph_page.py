"""The page of a graph in a real browser: open, unfold, search, paths, colours, export.

`visit` asserts for every page that it asked no host for anything, and raised no error.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import adjoint as ad
from tests.browser import programs

Visit = Any
Picture = Any


def shown(page: Any) -> list[str]:
    """The titles of the nodes that are drawn as such."""
    return page.evaluate(
        "() => adjointPage.scene.items.filter((i) => i.id !== undefined)"
        ".map((i) => adjointPage.model.title(i.id))"
    )


def boxes(page: Any) -> dict[str, bool]:
    """The boxes in view: whether each is open."""
    return dict(
        page.evaluate(
            "() => adjointPage.scene.items.filter((i) => i.title !== undefined)"
            ".map((i) => [i.title, i.open])"
        )
    )


def click_item(page: Any, test: str, double: bool = False) -> None:
    """Click what a test in JavaScript finds, where it is on the screen."""
    x, y = page.evaluate(
        f"""() => {{
            const titleOf = (i) => i.title ?? adjointPage.model.title(i.id);
            const p = adjointPage, item = p.scene.items.find((i) => {test});
            if (!p.camera.shows(item)) p.camera.centre(item);
            const r = p.canvas.getBoundingClientRect(), c = p.camera;
            const x = item.ax + item.w / 2, y = item.ay + 14;
            return [r.left + (x - c.x) * c.scale, r.top + (y - c.y) * c.scale];
        }}"""
    )
    (page.mouse.dblclick if double else page.mouse.click)(x, y)


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    total, names = programs.simulation(50)
    return Path(ad.graph(total, names).save(tmp_path / "loop.html", backward=True))


def test_a_node_tells_what_it_is_and_shows_its_line(tmp_path: Path, visit: Visit) -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    scale = x.exp()
    loss = (scale * x.sin()).sum()  # this line
    page = visit(Path(ad.graph(loss).save(tmp_path / "graph.html")))
    assert page.title() == "graph of loss"
    assert sorted(shown(page)) == ["exp", "mul", "sin", "sum", "x"]
    click_item(page, "titleOf(i) === 'mul'")
    panel = page.inner_text("aside")
    assert "MulBackward0" in panel
    assert "[3]" in panel
    assert "12 B" in panel  # of `sin`; that of `scale` is kept by `exp`
    assert "loss = (scale * x.sin()).sum()  # this line" in page.inner_text(".source .here")
    assert "scale = x.exp()" in page.inner_text(".source")
    assert page.locator("button[data-value=norm]").is_disabled()  # nothing was measured


def test_loops_fold_open_and_unroll(loop: Path, visit: Visit, picture: Picture) -> None:
    page = visit(loop)
    (title,) = boxes(page)
    assert title.startswith("loop  programs.py:")
    assert shown(page) == ["add", "mean", "mul", "tanh", "add", "mv"]
    click_item(page, "i.kind === 'loop'", double=True)
    assert boxes(page) == {title: False}
    click_item(page, "i.kind === 'loop'", double=True)
    click_item(page, "titleOf(i) === 'tanh'")
    assert "gradient, 50 times" in page.inner_text("aside").lower()
    page.keyboard.press("3")
    picture(page, "graph_loop")
    click_item(page, "i.kind === 'loop'")
    page.click("text=all 50")
    assert len(shown(page)) == 300
    assert "step 50 of 50" in boxes(page)
    page.click("text=only one")
    assert len(shown(page)) == 6


def test_modules_and_composites_are_boxes(tmp_path: Path, visit: Visit, picture: Picture) -> None:
    page = visit(Path(programs.network().save(tmp_path / "net.html", backward=True)))
    assert boxes(page) == {
        "Net": True,
        "blocks  Sequential": True,
        "0  Block": True,
        "1  Block": True,
    }
    assert page.evaluate("() => adjointPage.model.data.node.tag") != {}
    click_item(page, "i.id !== undefined && adjointPage.model.tag(i.id) === 'up'")
    panel = page.inner_text("aside")
    assert "Net.blocks.1.up" in panel or "Net.blocks.0.up" in panel
    picture(page, "graph_network")
    page.click("text=close all")
    assert boxes(page) == {"Net": False}
    page.click("text=open all")
    assert len(boxes(page)) == 4
    page = visit(Path(programs.orbit().save(tmp_path / "orbit.html")))
    assert {"start", "add of 2 parts", "mul of 2 parts"} <= boxes(page).keys()
    assert {"start.position", "start.velocity"} <= set(shown(page))


def test_search_by_op_line_shape_and_name(loop: Path, visit: Visit) -> None:
    page = visit(loop)

    def find(query: str) -> str:
        page.fill("#search", query)
        return page.inner_text("aside").split("\n")[0].lower()

    assert find("tanh") == "50 found"
    assert find("[4, 4]") == "1 found"
    assert find("add []") == "50 found"
    assert find("programs.py mul") == "50 found"
    assert find("state * state") == "150 found"  # the text of the line: mul, mean and add
    assert find("w") != "0 found"
    assert find("nowhere") == "0 found"
    find("mv")
    page.keyboard.press("Enter")
    assert page.evaluate("() => adjointPage.model.title(adjointPage.selected.id)") == "mv"
    assert "1 of 50" in page.inner_text("#hint")
    page.keyboard.press("Escape")
    assert page.evaluate("() => adjointPage.marked") is None


def test_path_between_two_nodes(tmp_path: Path, visit: Visit) -> None:
    x = ad.tensor([1.0], requires_grad=True)
    a = x.exp()
    y = (a.sin() + x.cos()).sum()
    page = visit(Path(ad.graph(y).save(tmp_path / "graph.html")))
    click_item(page, "titleOf(i) === 'add'")
    page.click("text=path to …")
    click_item(page, "titleOf(i) === 'exp'")
    path = page.evaluate("() => [...adjointPage.path].map((id) => adjointPage.model.title(id))")
    assert sorted(path) == ["add", "exp", "sin"]
    assert "3 nodes on the way" in page.inner_text("#hint")
    page.keyboard.press("Escape")
    click_item(page, "titleOf(i) === 'exp'")
    page.keyboard.press("p")
    click_item(page, "titleOf(i) === 'cos'")
    assert "no path" in page.inner_text("#hint")


def test_colours_zoom_theme_and_keys(loop: Path, visit: Visit, picture: Picture) -> None:
    page = visit(loop)
    assert "kept" in page.inner_text("#legend")
    page.keyboard.press("2")
    assert "time, backward" in page.inner_text("#legend")
    page.click("text=gradient")
    assert "gradient norm" in page.inner_text("#legend")
    scale = "() => adjointPage.camera.scale"
    before = page.evaluate(scale)
    page.keyboard.press("+")
    assert page.evaluate(scale) > before
    page.mouse.move(400, 400)
    page.mouse.wheel(0, 600)
    page.wait_for_function(f"adjointPage.camera.scale < {before}")
    page.keyboard.press("f")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("() => adjointPage.model.title(adjointPage.selected.id)") == "mean"
    page.keyboard.press("ArrowUp")
    assert page.evaluate("() => adjointPage.model.title(adjointPage.selected.id)") == "add"
    page.keyboard.press("t")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    picture(page, "graph_dark")


def test_export_as_svg_and_png_and_print(loop: Path, visit: Visit, tmp_path: Path) -> None:
    page = visit(loop)
    with page.expect_download() as svg:
        page.click("text=SVG")
    svg.value.save_as(tmp_path / "graph.svg")
    drawn = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"tanh", "mean", "mv"} <= set(texts)
    with page.expect_download() as png:
        page.click("text=PNG")
    png.value.save_as(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#print svg").is_visible()
    assert not page.locator("canvas").is_visible()


def test_names_and_lines_cannot_break_out_of_the_page(tmp_path: Path, visit: Visit) -> None:
    x = ad.tensor([1.0], requires_grad=True)
    evil = "</script><script>document.title='taken'</script><!--"
    page = visit(
        Path(ad.graph((x * 2).sum(), {evil: x}).save(tmp_path / "graph.html"))
    )  # </script>
    assert page.title().startswith("graph of")
    assert evil in shown(page)


def test_ten_thousand_nodes_stay_smooth(tmp_path: Path, visit: Visit) -> None:
    total, names = programs.simulation(1700)
    page = visit(Path(ad.graph(total, names).save(tmp_path / "large.html")))
    times = page.evaluate(
        """() => {
            const p = adjointPage;
            p.unroll(p.model.boxes("loop")[0]);
            const timed = (f) => {
                const start = performance.now();
                for (let i = 0; i < 5; ++i) f();
                return (performance.now() - start) / 5;
            };
            p.seeAll();
            p.draw();
            const far = timed(() => { p.camera.moveBy(7, 3); p.draw(); });
            p.camera.centre(p.scene.items[5000]);
            const near = timed(() => { p.camera.moveBy(7, 3); p.draw(); });
            const nodes = p.scene.items.filter((i) => i.id !== undefined).length;
            return { far, near, nodes, drawn: p.drawn.items };
        }"""
    )
    assert times["nodes"] == 10_200
    assert times["drawn"] < 400  # what is out of sight is not drawn
    assert max(times["far"], times["near"]) < 100, times  # milliseconds, on any machine


def test_a_large_graph_is_folded_and_opens_at_once(tmp_path: Path, visit: Visit) -> None:
    total, names = programs.simulation(6000)
    path = Path(ad.graph(total, names).save(tmp_path / "folded.html"))
    assert path.stat().st_size < 300_000
    start = time.perf_counter()
    page = visit(path)
    assert time.perf_counter() - start < 10
    assert len(shown(page)) == 6
    click_item(page, "titleOf(i) === 'tanh'")
    assert "96.0 kB in all 6,000" in page.inner_text("aside")


def test_a_node_shows_the_time_of_its_call_where_a_profile_saw_it(
    tmp_path: Path, visit: Visit
) -> None:
    with ad.profile():
        x = ad.ones(100, 100, requires_grad=True)
        y = (x @ x).exp().sum()
    page = visit(Path(ad.graph(y).save(tmp_path / "graph.html")))
    page.keyboard.press("4")
    assert "time, forward" in page.inner_text("#legend")
    assert "nothing" not in page.inner_text("#legend")
    click_item(page, "titleOf(i) === 'exp'")
    assert "time, forward" in page.inner_text("body")


def test_the_flame_page_opens_a_box_and_has_both_directions(
    tmp_path: Path, visit: Visit, picture: Picture
) -> None:
    x = ad.ones(100, 100, requires_grad=True)
    with ad.profile() as p:
        (x @ x).exp().sum().backward()
    page = visit(Path(p.save(tmp_path / "profile.html")))
    picture(page, "profile")
    assert {"forward", "backward"} <= set(page.locator("#flame .box").all_inner_texts())
    page.click("#flame .box.backward >> nth=0")
    assert page.evaluate("() => adjointPage.chosen.title") == "backward"
    assert "By operation" in page.inner_text("body").replace("BY OPERATION", "By operation")


def test_a_narrow_page_has_everything_within_its_width(tmp_path: Path, visit: Visit) -> None:
    x = ad.ones(30, requires_grad=True)
    path = ad.graph((x.exp() * x).sum()).save(tmp_path / "graph.html", backward=True)
    page = visit(Path(path))
    page.set_viewport_size({"width": 400, "height": 800})
    page.keyboard.press(".")
    right = "(all) => Math.max(...all.map((e) => e.getBoundingClientRect().right))"
    assert page.locator("button, input, canvas, aside div").evaluate_all(right) <= 400


def test_a_page_that_opens_later_begins_with_its_output(tmp_path: Path, visit: Visit) -> None:
    """As in a cell of a notebook, where it stands in a part that is closed."""
    x = ad.ones(3, requires_grad=True)
    path = tmp_path / "cell.html"
    cell = ad.graph(x.exp().sum())._repr_html_()
    path.write_text(f"<link rel=icon href='data:,'>{cell}<script>adjointPage = 1</script>")
    page = visit(path)
    page.click("text=as a page")
    frame = page.frame_locator("iframe").locator("canvas")
    frame.wait_for()
    page.wait_for_timeout(300)
    seen = frame.evaluate(
        "(canvas) => { const { adjointPage: p } = canvas.ownerDocument.defaultView;"
        " return p.scene.items.every((item) => p.camera.shows(item)); }"
    )
    assert seen
