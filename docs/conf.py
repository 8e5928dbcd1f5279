"""Sphinx configuration. The op reference is generated from the op blocks when a build starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import adjoint

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

project = "adjoint"
author = "the adjoint developers"
copyright = "the adjoint developers, Apache-2.0"
version = release = adjoint.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"adjoint {version}"


def generate_reference(app: Any) -> None:
    from tools import gen_reference

    gen_reference.write(Path(app.srcdir) / "reference" / "generated")


def setup(app: Any) -> None:
    app.connect("builder-inited", generate_reference)
