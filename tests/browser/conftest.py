"""A real browser for the pages: Chromium, driven by Playwright. Without them the tests skip.

``ADJOINT_PICTURES=docs/guides/images`` lets the tests write the pictures of the documentation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Nothing of the browser's own may look for a network either.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
]


# Not for the whole session: while it is open an event loop runs, in which tests of asyncio fail.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[Path], Any]]:
    """Opens a file; afterwards no request but for the file, and no error, may have happened."""
    requests: list[str] = []
    errors: list[str] = []
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, device_scale_factor=1, accept_downloads=True
    )
    opened: list[str] = []

    def open_page(path: Path) -> Any:
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        opened.append(path.as_uri())
        page.goto(path.as_uri())
        page.wait_for_function("window.adjointPage")
        return page

    yield open_page
    context.close()
    foreign = [
        url for url in requests if url not in opened and not url.startswith(("data:", "blob:"))
    ]
    assert not foreign
    assert not errors


@pytest.fixture
def picture() -> Callable[[Any, str], None]:
    """Writes a picture for the documentation, if they are asked for."""
    folder = os.environ.get("ADJOINT_PICTURES")

    def write(page: Any, name: str) -> None:
        if folder:
            page.wait_for_timeout(150)  # the next frame
            page.screenshot(path=str(Path(folder) / f"{name}.png"))

    return write
