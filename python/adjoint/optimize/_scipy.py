"""SciPy, where it is installed."""

from __future__ import annotations

from typing import Any

__all__ = ["scipy_optimize"]


def scipy_optimize() -> Any:
    """The module `scipy.optimize`."""
    try:
        import scipy.optimize
    except ImportError as error:
        raise ImportError(
            "this method is SciPy's, which is not installed\n  fix: pip install 'adjoint[science]'"
        ) from error
    return scipy.optimize
