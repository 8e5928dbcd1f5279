"""What a real JupyterLab shows: every cell has its picture, trees open, progress bars move."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.children import ENVIRONMENT

CELLS = [
    "import adjoint as ad\nx = ad.randn(40, 60, requires_grad=True)\ny = (x * 2).sin()\ny",
    "from dataclasses import dataclass\n"
    "@ad.composite\n@dataclass\nclass Body:\n    place: ad.Tensor\n    parts: list\n"
    "Body(ad.ones(3), [ad.zeros(4), {'deep': ad.eye(5)}])",
    "ad.check(lambda v: (v**3).sin(), ad.ones(4, dtype=ad.float64))",
    "ad.explain_grad((x.detach() * 2).sum(), x)",
    "f = ad.compile(lambda v: (v * 2).sin().sum())\nf(ad.ones(3)), f(ad.ones(3))\nf",
    "ad.graph(y.sum())",
    "ad.plot.memory(lambda x: x.exp().sum(), x)",
    "from adjoint.loops import _progress\n_progress.PATIENCE = 0.05\n"
    "def heat(u, _):\n    return u + 0.2 * (u.roll(1) - 2 * u + u.roll(-1)), None\n"
    "end, _ = ad.scan(heat, ad.ones(1000), length=20_000_000)\n'the last cell ' + 'is done'",
]


def notebook() -> dict[str, Any]:
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"cell-{number}",
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(CELLS)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab of this Python on the loopback; its address."""
    pytest.importorskip("jupyterlab", reason="the extra `browser` is not installed")
    (tmp_path / "shown.ipynb").write_text(json.dumps(notebook()))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("token=", "password=", f"root_dir={tmp_path}", "allow_root=True")
    settings = [f"--ServerApp.{option}" for option in options]
    quiet = [
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1"]
    server = subprocess.Popen(
        [*command, f"--port={port}", *settings, *quiet],
        env={**os.environ, **ENVIRONMENT, "HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api")
        yield address
    finally:
        server.terminate()
        server.wait(20)


def wait_for(address: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_notebook_shows_what_it_computes(
    lab: str, browser: Any, picture: Callable[[Any, str], None]
) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 3000})
    page.goto(f"{lab}/lab/tree/shown.ipynb", timeout=60_000)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_selector("text=Python 3 (ipykernel) | Idle", timeout=60_000)
    page.click("text=Run")
    page.click("text=Run All Cells")
    bar = page.wait_for_selector(".jp-OutputArea progress[value]", timeout=60_000)
    first = bar.evaluate("bar => bar.value")
    page.wait_for_function(
        "first => (document.querySelector('.jp-OutputArea progress') || {value: 1e9}).value"
        " > first",
        arg=first,
    )
    page.wait_for_selector("text=the last cell is done", timeout=180_000)
    shown = [cell.inner_text() for cell in page.query_selector_all(".jp-Cell-outputArea")]
    wanted = [
        "grad_fn: SinBackward0",
        "Body: 3 tensors",
        "all right",
        "the history was cut off",
        "compiled: 1 program",
        "3 nodes, 1 leaf",
    ]
    for words, text in zip(wanted, shown, strict=False):
        assert words in text
    assert page.locator(".jp-OutputArea svg[aria-label='heat map']").count() >= 1
    assert page.locator(".jp-OutputArea img").count() == 1  # the plot
    assert page.locator(".jp-OutputArea progress").count() == 0  # taken away at the end
    tree = page.locator(".jp-OutputArea details", has_text="place: float32 [3]").last
    assert not tree.locator("text=[1.0, 1.0, 1.0]").is_visible()
    tree.locator("summary").first.click()
    assert tree.locator("text=[1.0, 1.0, 1.0]").is_visible()
    picture(page, "notebook")
    page.close()
