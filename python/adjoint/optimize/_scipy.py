"""SciPy, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Theirs", "scipy_optimize"]


def scipy_optimize() -> Any:
    """The module `scipy.optimize`."""
    try:
        import scipy.optimize
    except ImportError as error:
        raise ImportError(
            "this method is SciPy's, which is not installed\n  fix: pip install 'adjoint[science]'"
        ) from error
    return scipy.optimize


class Theirs:
    """Tells what SciPy raises, as it runs away or meets NaN, from what the user's functions raise.

    Before it has called any of them, what it raises is about arguments.
    """

    kinds = (ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError)

    def __init__(self) -> None:
        self._called = False
        self._error: Exception | None = None

    def watching(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose errors are known."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._called = True
            try:
                return function(*args, **kwargs)
            except Exception as error:
                self._error = error
                raise

        return watched

    def is_scipys(self, error: Exception) -> bool:
        """Whether it came from SciPy's own code."""
        return self._called and error is not self._error
