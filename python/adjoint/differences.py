"""Difference methods, for ``derivative=`` of `adjoint.external`.

``ad.external(f, derivative=ad.differences.Central(step=1e-3))``; ``derivative="central"`` is short
for ``Central()``. A method of your own is a subclass of `Stencil` (places on the axis of one
coordinate, and how their values are combined) or of `Method`; with ``name=`` in its class statement
it can be asked for by that name. Those that come with adjoint are one line each below.

>>> import adjoint as ad
>>> ad.differences.Central(step=1e-3)
Central(step=0.001)
>>> ad.differences.Richardson().evaluations(inputs=3), ad.differences.Forward().order
(48, 1)
"""

from __future__ import annotations

from .numeric._central import Central as Central
from .numeric._complex_step import ComplexStep as ComplexStep
from .numeric._forward import Forward as Forward
from .numeric._linear import Linear as Linear
from .numeric._method import METHODS as METHODS
from .numeric._method import Method as Method
from .numeric._method import Stencil as Stencil
from .numeric._richardson import Richardson as Richardson
from .numeric._spsa import Spsa as Spsa
