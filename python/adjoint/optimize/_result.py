"""What a solver returns, and what it raises where it does not arrive."""

from __future__ import annotations

from typing import Any

__all__ = ["ConvergenceError", "OptimizeResult"]


class OptimizeResult(dict[str, Any]):
    """The answer of a solver, with SciPy's names, as attributes or by key.

    ``x`` is the answer: a tensor, or a composite like the ``x0`` that was given; it is
    differentiable, and so are the values at the answer: ``fun`` of `minimize`, `minimize_scalar`,
    `least_squares` and `lsq_linear`, and ``cost``. The other fields are numbers, texts and tensors
    without history.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"this result has no field {name!r}; it has {', '.join(self)}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __dir__(self) -> list[str]:
        return [*self, *super().__dir__()]

    def __repr__(self) -> str:
        width = max((len(k) for k in self), default=0)
        return "\n".join(
            f"{k:>{width}}: {v}".replace("\n", "\n" + " " * (width + 2)) for k, v in self.items()
        )


class ConvergenceError(RuntimeError):
    """A solver stopped before it had an answer. ``result`` is how far it got."""

    def __init__(self, message: str, result: OptimizeResult) -> None:
        super().__init__(message)
        self.result = result
