"""Differential equations and integrals, differentiable, with SciPy's names.

- ``_solve_ivp.py`` - `solve_ivp`, `odeint`: start reading here; ``_problem.py`` - what they solve
- ``_system.py`` - the equation; ``_methods.py``, ``_dop853.py``, ``_rosenbrock.py``, ``_radau.py``,
  ``_bdf.py`` - methods of one step; ``_stages.py`` - the equations that implicit ones solve
- ``_control.py`` - which steps to take; ``_trajectory.py`` - these steps with their derivatives;
  ``_recorded.py`` - both inside a recording
- ``_gradients.py`` - which gradient; ``_ways.py``, ``_continuous.py``, ``_forward.py`` - the others
- ``_watch.py``, ``_crossing.py``, ``_events.py`` - zeros along the way; ``_result.py``,
  ``_recorded_result.py`` - what is returned
- ``_quadrature.py`` - integrals of samples and of functions
- ``_bvp.py``, ``_bvp_search.py`` - `solve_bvp`
- ``_sde.py``, ``_brownian.py`` - stochastic equations
"""

from ._brownian import BrownianPath as BrownianPath
from ._bvp import solve_bvp as solve_bvp
from ._problem import OdeResult as OdeResult
from ._quadrature import cumulative_simpson as cumulative_simpson
from ._quadrature import cumulative_trapezoid as cumulative_trapezoid
from ._quadrature import quad as quad
from ._quadrature import simpson as simpson
from ._quadrature import trapezoid as trapezoid
from ._sde import sdeint as sdeint
from ._sde import solve_sde as solve_sde
from ._solve_ivp import odeint as odeint
from ._solve_ivp import solve_ivp as solve_ivp

__all__ = [
    "BrownianPath",
    "OdeResult",
    "cumulative_simpson",
    "cumulative_trapezoid",
    "odeint",
    "quad",
    "sdeint",
    "simpson",
    "solve_bvp",
    "solve_ivp",
    "solve_sde",
    "trapezoid",
]
