"""Differential equations and integrals, differentiable, with SciPy's names.

- ``_solve_ivp.py`` - `solve_ivp`, `odeint`: start reading here
- ``_methods.py``, ``_rosenbrock.py``, ``_radau.py`` - methods of one step
- ``_control.py`` - which steps to take; ``_trajectory.py`` - these steps with their derivatives
- ``_events.py`` - zeros along the way; ``_quadrature.py`` - integrals of samples and of functions
"""

from ._quadrature import cumulative_simpson as cumulative_simpson
from ._quadrature import cumulative_trapezoid as cumulative_trapezoid
from ._quadrature import quad as quad
from ._quadrature import simpson as simpson
from ._quadrature import trapezoid as trapezoid
from ._solve_ivp import OdeResult as OdeResult
from ._solve_ivp import odeint as odeint
from ._solve_ivp import solve_ivp as solve_ivp

__all__ = [
    "OdeResult",
    "cumulative_simpson",
    "cumulative_trapezoid",
    "odeint",
    "quad",
    "simpson",
    "solve_ivp",
    "trapezoid",
]
