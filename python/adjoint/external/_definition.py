"""What `external` was told of a function: all that a call of it, and its derivatives, need.

Read next: _call.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adjoint.numeric._plan import Plan

from ._arguments import Arguments, Static
from ._evaluate import Evaluator
from ._user_derivatives import Given

__all__ = ["Definition"]


@dataclass(eq=False)
class Definition:
    """A function, how it is evaluated, and how it is differentiated."""

    function: Callable[..., Any]
    name: str
    evaluator: Evaluator
    given: Given  # derivatives of the user's
    plan: Plan  # differences, for what was not given
    static: Static
    nondifferentiable: Sequence[int | str]
    batched: bool
    _prepared: dict[int, Arguments] = field(default_factory=dict)

    def prepared(self, count: int) -> Arguments:
        """The form of a call with so many tensors, made once."""
        found = self._prepared.get(count)
        if found is None:
            found = self._prepared[count] = Arguments.of_tensors(count, self.static)
        return found

    def one_rule(self) -> str:
        """Why forward and backward mode cannot disagree: they are one rule; or an empty string."""
        if self.plan.tangents_differenced:  # beside a vjp
            return ""
        if self.given or self.plan.directional:
            return self.given.one_rule()
        return "the jvp and the vjp are derived from the same differences"
