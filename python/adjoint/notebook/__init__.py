"""What notebooks show: tensors with a heat map, structures as trees that open, reports as text.

Objects have a ``_repr_html_`` that calls a function of this room, which is loaded then. HTML is
plain: no scripts, no requests, colours that fit light and dark pages.

- ``_tensors.py`` - a tensor: what it is, its numbers in brief, a heat map
- ``_structures.py`` - composites, and `show` for any structure
- ``_texts.py`` - what prints well by itself: explanations, reports, programs, graphs
"""

from ._structures import Shown as Shown
from ._structures import show as show
from ._structures import structure_html as structure_html
from ._tensors import tensor_html as tensor_html
from ._texts import compiled_html as compiled_html
from ._texts import graph_html as graph_html
from ._texts import program_html as program_html
from ._texts import programs_html as programs_html
from ._texts import rich_html as rich_html
from ._texts import text_html as text_html

__all__ = [
    "Shown",
    "compiled_html",
    "graph_html",
    "program_html",
    "programs_html",
    "rich_html",
    "show",
    "structure_html",
    "tensor_html",
    "text_html",
]
