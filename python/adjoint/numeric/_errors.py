"""The errors of externals: what was being evaluated, what happened, what to do.

Read next: `adjoint.external._evaluate`, which raises most of them.
"""

from __future__ import annotations

__all__ = ["EvaluationError", "ExternalError"]


class ExternalError(RuntimeError):
    """An external function, or its derivative, could not be evaluated."""


class EvaluationError(ExternalError):
    """One evaluation failed.

    Attributes
    ----------
    where : str
        The input that was perturbed, ``params.k[3] + 6e-06``, or an empty string.
    """

    timed_out = False  # whether ``timeout=`` ended it

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where

    @property
    def hung(self) -> bool:
        """Whether the function, or a program that it ran, did not return in time."""
        return self.timed_out or getattr(self.__cause__, "timed_out", False)

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.where)
