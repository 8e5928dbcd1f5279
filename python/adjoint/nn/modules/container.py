"""Modules that hold other modules in a sequence or under names.

Those that hold parameters are in `_parameter_containers.py`.
"""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, cast, overload

from adjoint.nn.modules._parameter_containers import ParameterDict, ParameterList, _checked_pair
from adjoint.nn.modules.module import Module, _block, _indent

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


class Container(Module):
    """A module of children given by name, as old programs make one; subclass `Module` instead."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Indexed(Module):
    """Children named "0", "1", …: what Sequential and ModuleList share."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(cast("dict[str, Module]", self._modules).values())

    @overload
    def __getitem__(self, idx: int) -> Module: ...
    @overload
    def __getitem__(self, idx: slice) -> Self: ...
    def __getitem__(self, idx: int | slice) -> Module | Self:
        if isinstance(idx, slice):
            return type(self)._of(dict(list(self._modules.items())[idx]))
        return cast(Module, self._modules[self._name_at(idx)])

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        names = list(self._modules)
        doomed = names[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        kept = [module for name, module in self._modules.items() if name not in doomed]
        self._modules.clear()
        # The numbers close ranks; names that the user gave become numbers too.
        self._modules.update({str(index): module for index, module in enumerate(kept)})

    def _name_at(self, idx: int) -> str:
        index, size = operator.index(idx), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    @classmethod
    def _of(cls, modules: dict[str, Any]) -> Self:
        raise NotImplementedError

    def append(self, module: Module) -> Self:
        """Add a module at the end; return self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; return self."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position `index`."""
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        children = list(self)
        children.insert(index if index >= 0 else index + size, module)
        self._modules.clear()
        self.extend(children)

    def pop(self, key: int) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Indexed):
    """Modules called one after the other, each with the result of the one before.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Iterable[tuple[str, Module]] = args[0].items()
        else:
            named = ((str(index), module) for index, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    @classmethod
    def _of(cls, modules: dict[str, Any]) -> Self:
        return cls(OrderedDict(modules))

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = cast(Module, module)(input)
        return input

    def __add__(self, other: object) -> Sequential:
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: object) -> Self:
        return self.extend(_sequential(other))

    def __mul__(self, other: int) -> Sequential:
        _check_factor(self, other)
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        _check_factor(self, other)
        modules = list(self)
        for _ in range(other - 1):
            self.extend(modules)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before position `index`; return self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        super().insert(index, module)
        return self


def _sequential(other: object) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


def _check_factor(sequence: Sequential, factor: object) -> None:
    if not isinstance(factor, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(sequence)} and {type(factor)}")
    if factor <= 0:
        raise ValueError(f"Non-positive multiplication factor {factor} for {type(sequence)}")


class ModuleList(_Indexed):
    """A list of modules that takes part in its parent's parameters and state."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @classmethod
    def _of(cls, modules: dict[str, Any]) -> Self:
        return cls(modules.values())

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; return self."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                + type(modules).__name__
            )
        return super().extend(modules)

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        # Neighbours that print alike are folded: "(0-2): 3 x Linear(...)".
        runs: list[list[Any]] = []
        for index, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = index
            else:
                runs.append([index, index, text])
        lines = []
        for first, last, text in runs:
            label = f"({first})" if first == last else f"({first}-{last})"
            times = "" if first == last else f"{last - first + 1} x "
            lines.append(_indent(f"{label}: {times}{text}"))
        return _block(self._get_name(), [], lines)


class ModuleDict(Module):
    """Modules under names, in the order of insertion."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return cast(Module, self._modules[key])

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove everything."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """(name, module) pairs."""
        return cast("dict[str, Module]", self._modules).items()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return cast("dict[str, Module]", self._modules).values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add all of `modules`, replacing those with the same names."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                + type(modules).__name__
            )
        pairs = modules.items() if isinstance(modules, Mapping | ModuleDict) else modules
        for index, pair in enumerate(pairs):
            name, module = _checked_pair("ModuleDict", index, pair)
            self[name] = module
