"""A compiled module: itself a module, around the one that is compiled."""

from __future__ import annotations

from typing import Any

from adjoint import nn

from ._compile import Compiled
from ._recorded import Recorded

__all__ = ["OptimizedModule"]


class OptimizedModule(nn.Module):
    """What `compile` makes of a module; its parameters and attributes are the module's."""

    def __init__(self, module: nn.Module, fullgraph: bool = False) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_compiled"] = Compiled(module, fullgraph)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, by a program where there is one."""
        return self._compiled(*args, **kwargs)

    @property
    def programs(self) -> list[Recorded]:
        """The recordings there are."""
        found: list[Recorded] = self._compiled.programs
        return found

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set the mode of the module."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        """What is not found here is the module's."""
        if name == "_orig_mod":
            return super().__getattr__(name)
        return getattr(self._orig_mod, name)
