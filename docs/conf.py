"""Sphinx configuration. The op reference is generated from the op blocks when a build starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import adjoint

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "docs"))

import gallery_pictures  # noqa: E402
from sphinx_gallery.sorting import ExplicitOrder  # noqa: E402

project = "adjoint"
author = "the adjoint developers"
copyright = "the adjoint developers, Apache-2.0"
version = release = adjoint.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
exclude_patterns = ["_build", "**/sg_execution_times.rst"]

adjoint.install_as_torch()  # examples that say `import torch` run here, too
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": gallery_pictures.RUN,
    "ignore_pattern": r"__init__\.py",
    "reset_argv": gallery_pictures.Arguments(),
    "image_scrapers": (gallery_pictures.Scraper(),),
    "reset_modules": (),
    "subsection_order": ExplicitOrder(
        [str(Path("..", "examples", name)) for name in ("first_steps", "composites")] + ["*"]
    ),
    "abort_on_example_error": True,
    "default_thumb_file": str(ROOT / "docs" / "images" / "thumbnail.png"),
    "show_memory": False,
    "write_computation_times": False,  # those pages ask a host for scripts
    "remove_config_comments": True,
}
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"adjoint {version}"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
html_math_renderer = "mathml"  # which browsers draw themselves: no script from elsewhere


def generate_reference(app: Any) -> None:
    from tools import gen_reference

    gen_reference.write(Path(app.srcdir) / "reference" / "generated")


def formula(writer: Any, node: Any) -> None:
    """Write a formula as MathML, by docutils' own translation."""
    from docutils.nodes import SkipNode
    from docutils.utils.math.latex2mathml import tex2mathml

    inline = node.tagname == "math"
    text = tex2mathml(node.astext(), as_block=not inline)
    writer.body.append(text if inline else f'<div class="math">{text}</div>')
    raise SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("builder-inited", generate_reference)
