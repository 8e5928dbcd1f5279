"""The documentation as a site: it fits desks and phones, finds names, and asks no host anything.

It is looked at where it was built (``python -m sphinx docs build/docs``); elsewhere the tests skip.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "docs"
DOORS = ("start/from-pytorch.html", "start/simulation.html", "internals/how-it-works.html")
PAGES = (
    *("index.html", *DOORS, "limits.html", "questions/grad-is-none.html", "gallery/index.html"),
    *("guides/graph.html", "guides/loops.html", "reference/generated/room-loops.html"),
)

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="the documentation is not built"
)


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[[str, int], Any]]:
    """Opens a page in a window of some width; none may ask for what is not the site's."""
    requests: list[str] = []
    context = browser.new_context()

    def open_page(name: str, width: int = 1280) -> Any:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 800})
        page.on("request", lambda request: requests.append(request.url))
        file, _, query = name.partition("?")
        page.goto((SITE / file).as_uri() + (f"?{query}" if query else ""))
        return page

    yield open_page
    context.close()
    own = (SITE.as_uri(), "data:", "blob:")
    assert not [url for url in requests if not url.startswith(own)]


def test_front_page_has_three_doors_and_limits_one_click_away(look: Callable[..., Any]) -> None:
    page = look("index.html")
    doors = page.locator(".sd-card a.sd-stretched-link")
    found = [door.get_attribute("href") for door in doors.all()]
    assert found == list(DOORS)
    assert page.locator("article a[href='limits.html']").count() == 1
    page.locator(".sd-card").first.click()
    assert page.title().startswith("Coming from PyTorch")


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone_and_show_their_pictures(name: str, look: Callable[..., Any]) -> None:
    page = look(name, 390)
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert page.evaluate(broken) == []


def test_no_page_names_a_script_picture_or_style_of_a_host() -> None:
    foreign = re.compile(r'src="https?:|<link[^>]+(?:stylesheet|preload)[^>]+https?:')
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 80
    assert [page for page in pages if foreign.search(page.read_text(encoding="utf-8"))] == []


def test_search_finds_names(look: Callable[..., Any]) -> None:
    page = look("search.html?q=scan")
    first = page.locator("#search-results li a").first
    first.wait_for(timeout=10_000)
    assert first.inner_text() == "adjoint.scan"
