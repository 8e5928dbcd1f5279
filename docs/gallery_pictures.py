"""The pictures of the gallery: examples that take ``--save FOLDER`` are run with it.

Used by conf.py. sphinx-gallery finds figures of pyplot by itself; our examples draw without it, and
what they write is shown.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

# Examples that need a compiler, a second process or minutes are shown and not run.
RUN = r"^(?!.*(c_library|fortran|executable|million_steps|two_workers|composite_to_)).*\.py$"
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


class Scraper:
    """Takes the pictures that an example has written, in the order of their names."""

    def __call__(self, block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
        from sphinx_gallery.scrapers import figure_rst

        shown = []
        for picture in sorted(_FOLDER.glob("*.png")):
            target = Path(next(block_vars["image_path_iterator"]))
            shutil.move(picture, target)
            shown.append(str(target))
        return figure_rst(shown, gallery_conf["src_dir"])  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return "Scraper()"
