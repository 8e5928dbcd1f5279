"""Interpolation, differentiable by values, nodes and places, with SciPy's names.

- ``_splines.py`` - `CubicSpline`, `PchipInterpolator`: cubics by slopes at the nodes
- ``_linear.py`` - `interp`, `interp1d`: straight lines, and steps
- ``_grids.py`` - `RegularGridInterpolator`, `interpn`: grids of any number of axes
"""

from ._grids import RegularGridInterpolator as RegularGridInterpolator
from ._grids import interpn as interpn
from ._linear import interp as interp
from ._linear import interp1d as interp1d
from ._splines import CubicSpline as CubicSpline
from ._splines import PchipInterpolator as PchipInterpolator

__all__ = [
    "CubicSpline",
    "PchipInterpolator",
    "RegularGridInterpolator",
    "interp",
    "interp1d",
    "interpn",
]
