"""A compiled module: itself a module, around the one that is compiled."""

from __future__ import annotations

from os import PathLike
from typing import Any

from adjoint import nn

from ._compile import Compiled
from ._recorded import Recorded

__all__ = ["OptimizedModule"]


class OptimizedModule(nn.Module):
    """What `compile` makes of a module; its parameters and attributes are the module's."""

    def __init__(
        self, module: nn.Module, fullgraph: bool = False, verify: bool | None = None
    ) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["_compiled"] = Compiled(module, fullgraph, verify)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, by a program where there is one."""
        return self._compiled(*args, **kwargs)

    @property
    def programs(self) -> list[Recorded]:
        """The recordings there are."""
        found: list[Recorded] = self._compiled.programs
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write the programs to a file; see `Compiled.save`."""
        self._compiled.save(path)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set the mode of the module."""
        super().train(mode)
        return self

    @property
    def training(self) -> bool:
        """The mode of the module."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        """What is not found here is the module's."""
        if name == "_orig_mod":
            return super().__getattr__(name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What is set is the module's, which reads it."""
        if self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        """What is deleted is the module's."""
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def _is_own(self, name: str) -> bool:
        return name == "_orig_mod" or name in self.__dict__ or hasattr(type(self), name)
