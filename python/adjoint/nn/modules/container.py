"""Modules that hold others, or parameters, in a sequence or under names."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, cast, overload

from adjoint import Tensor
from adjoint.nn.modules.module import Module, _block, _indent
from adjoint.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


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
        kept = [(name, module) for name, module in self._modules.items() if name not in doomed]
        self._modules.clear()
        for index, (name, module) in enumerate(kept):
            # Numbers close ranks; names that the user gave stay.
            self._modules[str(index) if name.isdigit() else name] = module

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
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, "
                f"but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before position `index`; return self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        super().insert(index, module)
        return self


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
        for name, module in pairs:
            self[name] = module


class ParameterList(Module):
    """A list of parameters; tensors that are assigned become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(index)) for index in range(self._size))

    def _name_at(self, idx: int) -> str:
        index = operator.index(idx)
        if not -self._size <= index < self._size:
            raise IndexError(f"index {index} is out of range")
        return str(index % self._size)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return getattr(self, self._name_at(idx))

    def __setitem__(self, idx: int, value: Any) -> None:
        setattr(self, self._name_at(idx), _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Add a value at the end; return self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end; return self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(_describe(str(index), value) for index, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters under names; tensors that are assigned become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, self._attribute(key), _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._attribute(key))

    @staticmethod
    def _attribute(key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need "
                "non-string keys."
            )
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value under `key`, or `default`."""
        return self[key] if key in self._keys else default

    def pop(self, key: str) -> Any:
        """Remove a value and return it."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add all of `parameters`, replacing those with the same names."""
        pairs = parameters.items() if hasattr(parameters, "items") else parameters
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(key, value, value.type() if isinstance(value, Tensor) else None)
            for key, value in self.items()
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


def _as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(name: str, value: Any, element: str | None = None) -> str:
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        size = "x".join(str(length) for length in value.size())
        return f"  ({name}): {kind} containing: [{element or value.dtype} of size {size}]"
    return f"  ({name}): Object of type: {type(value).__name__}"
