"""Pages for a browser: one file each, with everything in it and no way to ask a network for more.

A page is a shell (``shell.html``, ``style.css``), some scripts of this folder and data. The scripts
are plain files that share one scope, put together in the order of a list: no bundler is needed, and
what is read in a browser's debugger is what stands here. Read next: `adjoint.graph._page`, which
makes the page of a graph.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["open_in_browser", "page", "write"]

_FOLDER = Path(__file__).parent
SHELL = ("dom.js", "format.js", "theme.js")  # what every page begins with


def page(title: str, data: Any, scripts: Sequence[str], styles: Sequence[str] = ()) -> str:
    """The text of a page.

    Parameters
    ----------
    title
        What the window is called.
    data
        Anything that JSON can hold; scripts find it as ``DATA``. Numbers that JSON has no word for
        (NaN, infinities) are to be given as strings.
    scripts, styles
        Files of this folder, after those that every page has.
    """
    parts = {
        "title": escape(title),
        "style": "\n".join(_asset(name) for name in ("style.css", *styles)),
        # Inside a script a tag would end it.
        "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "script": "\n".join(_asset(name) for name in (*SHELL, *scripts)),
    }
    # At once: a title or a line of the program may hold such a word itself.
    return re.sub(r"@(title|style|data|script)@", lambda m: parts[m[1]], _asset("shell.html"))


@cache
def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def write(text: str, path: str | os.PathLike[str]) -> str:
    """Write a page; returns the path."""
    name = os.fspath(path)
    # Names may hold halves of characters (surrogates), which no file can: they become "?".
    with open(name, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return name


def open_in_browser(text: str, name: str) -> str:
    """Write a page to a temporary file and open it; returns the path, also where no browser is."""
    import tempfile
    import webbrowser

    folder = tempfile.mkdtemp(prefix="adjoint-")
    path = write(text, os.path.join(folder, f"{name}.html"))
    webbrowser.open(Path(path).as_uri())
    return path
