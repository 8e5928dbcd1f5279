"""The pictures of the gallery: examples that take ``--save FOLDER`` are run with it.

Used by conf.py. sphinx-gallery finds figures of pyplot by itself; our examples draw without it, and
what they write is shown. Of an example that draws nothing the graph that it recorded is drawn; if
that is large, its first lines are the thumbnail.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import recorded_graph

# Shown and not run: what takes minutes, and what needs a compiler that is not here.
_COMPILERS = {"c_library": "cc", "fortran": "gfortran"}
_MISSING = [name for name, command in _COMPILERS.items() if shutil.which(command) is None]
RUN = rf"^(?!.*({'|'.join(['million_steps', *_MISSING])})).*\.py$"
_FOLDER = Path(tempfile.gettempdir()) / "adjoint-gallery"


class Arguments:
    """What each example is called with."""

    def __call__(self, gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
        shutil.rmtree(_FOLDER, ignore_errors=True)
        _FOLDER.mkdir()
        text = Path(script_vars["src_file"]).read_text(encoding="utf-8")
        return ["--save", str(_FOLDER)] if '"--save"' in text else []

    def __repr__(self) -> str:  # Sphinx compares settings by it
        return "Arguments()"


def _card(source: str, target: Path) -> None:
    """Draw the first lines that do something."""
    from matplotlib.figure import Figure

    lines = [line for line in source.splitlines() if line.strip()]
    dull = ("import", "from", "#", "@", '"', "torch.manual_seed", "ad.manual_seed")
    plain = [line for line in lines if not line.startswith(dull)]
    figure = Figure(figsize=(4, 2.8), dpi=100, facecolor="#f6f8fa")
    text = "\n".join(line[:29].rstrip() for line in plain[:8])
    figure.text(0.04, 0.94, text, family="monospace", size=15, va="top", color="#24292f")
    figure.savefig(target)


class Scraper:
    """Takes the pictures that an example has written, in the order of their names."""

    def __call__(self, block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
        from sphinx_gallery.scrapers import figure_rst

        shown = []
        for picture in sorted(_FOLDER.glob("*.png")):
            target = Path(next(block_vars["image_path_iterator"]))
            shutil.move(picture, target)
            shown.append(str(target))
        if not shown and not len(block_vars["image_path_iterator"]):
            target = Path(next(block_vars["image_path_iterator"]))
            if recorded_graph.draw(block_vars["example_globals"], target):
                shown.append(str(target))
            else:  # not in `shown`: it becomes the thumbnail and does not stand on the page
                _card(block[1], target)
        return figure_rst(shown, gallery_conf["src_dir"])  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "Scraper()"
