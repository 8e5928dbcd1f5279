"""A backward pass, recorded and played in a real browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import adjoint as ad
from tests.browser import programs
from tests.children import ENVIRONMENT

Visit = Any
Picture = Any


def test_the_slider_plays_the_pass(tmp_path: Path, visit: Visit, picture: Picture) -> None:
    loss, names = programs.poisoned()
    stepper = ad.step(loss, names=names).break_on(nan=True)
    page = visit(Path(stepper.save(tmp_path / "steps.html")))
    report = page.locator("#step")
    assert report.inner_text() == ""
    page.keyboard.press(".")
    assert "STEP 1" in report.inner_text().upper()
    page.keyboard.press(".")
    page.keyboard.press(",")
    assert "STEP 1" in report.inner_text().upper()
    page.click("text=next NaN")
    text = report.inner_text()
    assert "sqrt" in text
    assert "`sqrt` passes on a gradient that is NaN" in text
    page.keyboard.press("3")
    picture(page, "step_nan")
    count = len(stepper.history)
    page.evaluate(
        f"() => {{ const s = document.querySelector('#player input'); s.value = {count};"
        " s.dispatchEvent(new Event('input')); }"
    )
    assert f"{count} of {count}" in page.inner_text("#player .where")
    assert ".grad is" in report.inner_text()
    states = page.evaluate(
        "() => adjointPage.scene.items.filter((i) => i.id !== undefined)"
        ".map((i) => adjointPage.player.stateOf(i))"
    )
    assert set(states) == {"ran", "now"}
    page.click("text=next zero")
    assert "none after this step" in page.inner_text("#player .where")


def test_the_pass_of_a_program(tmp_path: Path, visit: Visit) -> None:
    """`adjoint graph script.py` shows the program's own pass."""
    script = tmp_path / "train.py"
    script.write_text(
        "import adjoint as ad\n"
        "net = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.ReLU(), ad.nn.Linear(8, 1))\n"
        "for epoch in range(2):\n"
        "    loss = (net(ad.ones(5, 4)) ** 2).mean()\n"
        "    loss.backward()\n"
    )
    page_file = tmp_path / "graph.html"
    command = [sys.executable, "-m", "adjoint", "graph", "-o", str(page_file), "--pass", "2"]
    subprocess.run([*command, str(script)], check=True, env=ENVIRONMENT, capture_output=True)
    page = visit(page_file)
    assert page.title() == "graph of loss"
    page.keyboard.press(".")
    assert "train.py:4" in page.inner_text("#step")
    titles = page.evaluate("() => adjointPage.scene.items.map((i) => i.title).filter(Boolean)")
    assert titles == ["Sequential"]
