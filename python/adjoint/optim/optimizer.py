"""`Optimizer`: parameter groups, per-parameter state, and saving both.

Read next: `sgd.py` and `adam.py`, which add the update.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint.utils.hooks import RemovableHandle

__all__ = ["Optimizer"]


class _Required:
    """Stands in `defaults` for an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base class of all optimizers.

    Parameters
    ----------
    params : iterable
        Tensors, (name, tensor) pairs, or dicts with "params" and options of their own.
    defaults : dict
        Options for groups that do not set them.
    """

    param_groups: list[dict[str, Any]]
    state: defaultdict[Tensor, Any]
    defaults: dict[str, Any]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._make_hook_tables()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    # -- stepping --------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; a closure recomputes the loss first and its value is returned."""
        raise NotImplementedError

    def _run_closure(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with ad.enable_grad():
            return closure()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients: to None, or to zeros."""
        for parameter in _recorded_parameters(self) if _core._is_recording() else _parameters(self):
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach().zero_()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before every step; it may return new arguments."""
        handle = RemovableHandle(self._optimizer_step_pre_hooks)
        self._optimizer_step_pre_hooks[handle.id] = hook
        return handle

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after every step."""
        handle = RemovableHandle(self._optimizer_step_post_hooks)
        self._optimizer_step_post_hooks[handle.id] = hook
        return handle

    # -- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Parameters
        ----------
        param_group : dict
            "params" and any options; the others are taken from the defaults.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, Tensor):
            given = [given]
        elif isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        given = list(given)
        param_group["params"] = given
        _split_names(param_group, given)
        for parameter in param_group["params"]:
            _check_parameter(parameter, bool(self.defaults.get("differentiable", None)))
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        own = {id(parameter) for parameter in param_group["params"]}
        if len(own) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; "
                "each occurrence is updated",
                stacklevel=3,
            )
        if any(id(p) in own for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # -- saving ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups' options, with parameters replaced by their numbers."""
        numbers: dict[int, int] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
        groups = [
            {
                **{key: value for key, value in group.items() if key != "params"},
                "params": [numbers[id(parameter)] for parameter in group["params"]],
            }
            for group in self.param_groups
        ]
        state: dict[Hashable, Any] = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned, for the same parameters in the same order."""
        saved = copy.copy(dict(state_dict))
        groups, saved_groups = self.param_groups, copy.deepcopy(saved["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(
            len(group["params"]) != len(other["params"])
            for group, other in zip(groups, saved_groups, strict=True)
        ):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        by_number: dict[Any, Tensor] = {}
        for group, other in zip(groups, saved_groups, strict=True):
            by_number.update(zip(other["params"], group["params"], strict=True))
            other["params"] = group["params"]
            if "param_names" in group and "param_names" not in other:
                other["param_names"] = group["param_names"]
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in saved["state"].items():
            if key in by_number:
                state[by_number[key]] = _cast_state(by_number[key], value)
            else:
                state[key] = value
        self.__setstate__({"state": state, "param_groups": saved_groups})

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hook_tables()

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def _split_names(group: dict[str, Any], given: list[Any]) -> None:
    """Turn (name, tensor) pairs into parallel lists of names and tensors."""
    named = [isinstance(entry, tuple) for entry in given]
    if not any(named):
        return
    if not all(named):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    group["param_names"] = [entry[0] for entry in given]
    group["params"] = [entry[1] for entry in given]


def _check_parameter(parameter: Any, differentiable: bool) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {_typename(parameter)}"
        )
    if not differentiable and not (parameter.is_leaf or parameter.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor")


def _typename(value: object) -> str:
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


def _cast_state(parameter: Tensor, value: Any, key: str | None = None) -> Any:
    """Loaded moments take the parameter's dtype; step counters keep theirs."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.clone() if value.dtype == ad.float32 else value.to(ad.float32)
        # Copied, so that two optimizers that load one state do not share moments.
        return value.to(parameter.dtype, copy=True) if parameter.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _cast_state(parameter, entry, name) for name, entry in value.items()}
    return value


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _recorded_parameters(optimizer: Optimizer) -> list[Tensor]:
    """The parameters, for a program: with others it is recorded anew."""
    from adjoint.compiler._walk import guard

    def read() -> list[Tensor]:
        guard(optimizer, _which_parameters)
        return _parameters(optimizer)

    return _core._unrecorded(read)


def _which_parameters(optimizer: Optimizer) -> tuple[int, ...]:
    return tuple(map(id, _parameters(optimizer)))


def _record_step(
    optimizer: Optimizer, step: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A step inside a program (`adjoint.compile`): the program takes it as it runs."""
    if args or kwargs:
        _core._refuse_recording("the step of an optimizer gets a closure")
        return step(optimizer, *args, **kwargs)
    params = _recorded_parameters(optimizer)
    grads = [p.grad for p in params if p.grad is not None]

    def run(_: Any) -> tuple[()]:
        step(optimizer)
        return ()

    _core._host_change(run, [*params, *grads])
    return None


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if _core._is_recording():
            return _record_step(self, wrapper, args, kwargs)
        # The common case: no hooks, one test each.
        for hook in list(self._optimizer_step_pre_hooks.values()):
            replaced = hook(self, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
        with ad.no_grad():
            result = step(self, *args, **kwargs)
        for hook in list(self._optimizer_step_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return wrapper


def _refuse_unsupported(differentiable: bool, capturable: bool = False) -> None:
    """`foreach` and `fused` choose between loops that give one result; these two do not."""
    if differentiable:
        raise NotImplementedError(
            "differentiable=True is not in adjoint: write the update with tensor operations to "
            "differentiate through it"
        )
    if capturable:
        raise NotImplementedError("capturable=True is for CUDA graphs; adjoint computes on the CPU")


def _as_float(value: float | Tensor) -> float:
    return float(value.item()) if isinstance(value, Tensor) else float(value)


class _ByGroup(Optimizer):
    """An optimizer whose step goes through its groups, one after the other."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; returns the closure's value."""
        loss = self._run_closure(closure)
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group: dict[str, Any]) -> None:
        raise NotImplementedError
