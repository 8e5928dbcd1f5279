"""`PostLocalSGDOptimizer`: an optimizer whose parameters are averaged every few steps."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from adjoint.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps an optimizer, then lets an averager do its part; that one's step is in state dicts.

    Parameters
    ----------
    optim : Optimizer
        Steps this rank's parameters.
    averager : ModelAverager
        Such as `PeriodicModelAverager`.
    """

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim = optim
        self.param_groups = optim.param_groups
        self.averager = averager

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of the optimizer inside."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's, and the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go back to a state; without a step in it, the averager begins again."""
        given = dict(state_dict)
        if "step" not in given:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step "
                "counter to 0.",
                stacklevel=2,
            )
        self.averager.step = given.pop("step", 0)
        self.optim.load_state_dict(given)
        self.param_groups = self.optim.param_groups

    def step(self, closure: Any = None) -> Any:
        """Step, then average if it is time."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Let the optimizer step more parameters."""
        self.optim.add_param_group(param_group)
