"""Equations, minima and fits whose answers are differentiable, with SciPy's names.

- ``_root.py``, ``_minimize.py``, ``_least_squares.py`` - `root`, `fixed_point`, `minimize`,
  `least_squares`
- ``_scalar.py``, ``_fits.py`` - `root_scalar`, `minimize_scalar`, `curve_fit`, `lsq_linear`, `nnls`
- ``_by_name.py`` - `fsolve`, `newton`, `brentq`, ...: functions of SciPy's for one method each
- ``_limits.py`` - `Bounds`, `LinearConstraint`, `NonlinearConstraint`, which may hold tensors
- ``_own_solver.py`` - `implicit`: the same for a solver of one's own
- ``_implicit.py`` - the derivative of an answer: start reading here
- ``_conditions.py``, ``_constraints.py`` - what holds at a minimum
- ``_linear.py``, ``_large.py``, ``_choice.py`` - solving with the derivative of a residual: whole,
  sparse, or by products
- ``_solver.py`` - runs a solver of equations: ``_newton.py``, ``_quasi_newton.py``, SciPy's, the
  user's
- ``_often.py``, ``_opened.py`` - functions as recordings, which are kept from run to run
- ``_unknowns.py`` - structures as vectors; `adjoint._samples` - solvers under `vmap`
"""

from ._by_name import bisect as bisect
from ._by_name import brenth as brenth
from ._by_name import brentq as brentq
from ._by_name import fsolve as fsolve
from ._by_name import newton as newton
from ._by_name import ridder as ridder
from ._by_name import toms748 as toms748
from ._fits import curve_fit as curve_fit
from ._fits import lsq_linear as lsq_linear
from ._fits import nnls as nnls
from ._least_squares import least_squares as least_squares
from ._limits import Bounds as Bounds
from ._limits import LinearConstraint as LinearConstraint
from ._limits import NonlinearConstraint as NonlinearConstraint
from ._minimize import minimize as minimize
from ._own_solver import implicit as implicit
from ._refused import linprog as linprog
from ._refused import milp as milp
from ._result import ConvergenceError as ConvergenceError
from ._result import OptimizeResult as OptimizeResult
from ._root import fixed_point as fixed_point
from ._root import root as root
from ._scalar import minimize_scalar as minimize_scalar
from ._scalar import root_scalar as root_scalar

__all__ = [
    "Bounds",
    "ConvergenceError",
    "LinearConstraint",
    "NonlinearConstraint",
    "OptimizeResult",
    "bisect",
    "brenth",
    "brentq",
    "curve_fit",
    "fixed_point",
    "fsolve",
    "implicit",
    "least_squares",
    "linprog",
    "lsq_linear",
    "milp",
    "minimize",
    "minimize_scalar",
    "newton",
    "nnls",
    "ridder",
    "root",
    "root_scalar",
    "toms748",
]
