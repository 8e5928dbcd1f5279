"""`LRScheduler`: counts steps, sets learning rates, and warns of calls in the wrong order."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from adjoint import Tensor, _core
from adjoint.optim._options import _to_scalar
from adjoint.optim.optimizer import Optimizer

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "LRScheduler",
    "Rate",
    "Rates",
    "in_programs",
    "saved_callable",
]

Rate = Any  # a float, or a tensor where the optimizer's rate is one
Rates = list[Rate]
_F = TypeVar("_F", bound=Callable[..., None])

_ORDER = (
    "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being "
    "deprecated where possible. Please use `scheduler.step()` to step the "
    "scheduler. During the deprecation, if epoch is different from None, the "
    "closed form is used instead of the new chainable form, where available. "
    "Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)


def in_programs(step: _F) -> _F:
    """In a compiled function the program takes the step, as it runs."""

    @functools.wraps(step)
    def wrapper(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
        if _core._is_recording():
            _core._host_change(lambda _: step(self, *args, **kwargs) or (), [])
        else:
            step(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


class _flag:
    """Sets an attribute of a scheduler to True for a while."""

    name: str

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def __enter__(self) -> _flag:
        setattr(self.o, self.name, True)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self.o, self.name, False)


class _initial_mode(_flag):
    name = "_is_initial"


class _enable_get_lr_call(_flag):
    name = "_get_lr_called_within_step"


class LRScheduler:
    """Base class: subclasses give the learning rates of step `last_epoch` in `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" is set.
    last_epoch : int, default -1
        The number of the last step when training is resumed.
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _last_lr: Rates
    _step_count: int
    optimizer: Optimizer
    last_epoch: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming "
                    "scheduler with last_epoch >= 0.\n"
                    "This typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly "
                    "loaded the optimizer state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: Rates = [_own(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        _note_steps_of(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    def get_lr(self) -> Rates:
        """The learning rates at step `last_epoch`, one for each group."""
        raise NotImplementedError

    def get_last_lr(self) -> Rates:
        """The learning rates last set."""
        return self._last_lr

    @in_programs
    def step(self, epoch: int | None = None) -> None:
        """Count one step and set the learning rates."""
        if self._step_count == 1:
            _warn_of_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=3)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with _enable_get_lr_call(self):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed: Callable[[], Rates] = getattr(self, "_get_closed_form_lr", self.get_lr)
                rates = closed()
        self._set(rates)

    def _set(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _update_param_group_val(group, "lr", rate)
        self._last_lr = self._current()

    def _current(self) -> Rates:
        return [_own(group["lr"]) for group in self.optimizer.param_groups]

    def _times(self, factor: float) -> Rates:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """The former name of `LRScheduler`."""


def check_optimizer(optimizer: Any) -> None:
    """Refuse anything else than an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _own(rate: Rate) -> Rate:
    """Of a tensor a copy, since rates are changed in place."""
    return rate.clone() if isinstance(rate, Tensor) else rate


def _update_param_group_val(param_group: dict[str, Any], key: str, val: Rate) -> None:
    """Set an option; a tensor stays the same one."""
    if isinstance(param_group[key], Tensor):
        param_group[key].fill_(_to_scalar(val))
    else:
        param_group[key] = val


def _format_param(name: str, optimizer: Optimizer, param: Rate | Sequence[Rate]) -> Rates:
    """One value for each group."""
    groups = len(optimizer.param_groups)
    if not isinstance(param, list | tuple):
        param = [param] * groups
    if len(param) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(param)} values, param_groups has {groups}."
        )
    return [_own(value) for value in param]


def _note_steps_of(optimizer: Any) -> None:
    """Let the optimizer remember from now on that it has taken a step."""
    vars(optimizer).setdefault("_opt_called", False)  # the step of adjoint's optimizers sets it
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    reference = weakref.ref(optimizer)  # not to keep it alive by its own attribute
    function = optimizer.step.__func__

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        stepped: Any = reference()
        stepped._opt_called = True
        return function.__get__(stepped, type(stepped))(*args, **kwargs)

    noted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noted


def _warn_of_order(optimizer: Any) -> None:
    if not hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        warnings.warn(
            "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
            "initialization. Please, make sure to call `optimizer.step()` before "
            f"`lr_scheduler.step()`. {_ORDER}",
            UserWarning,
            stacklevel=4,
        )
    elif not getattr(optimizer, "_opt_called", False):
        warnings.warn(
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 "
            "and later, you should call them in the opposite order: `optimizer.step()` before "
            "`lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first "
            f"value of the learning rate schedule. {_ORDER}",
            UserWarning,
            stacklevel=4,
        )


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    """`get_lr` counts on what `step` has just done."""
    if not lr_scheduler._get_lr_called_within_step:
        warnings.warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
            stacklevel=2,
        )


def saved_callable(function: Any) -> dict[str, Any] | None:
    """What is saved of a callable: the attributes of an object; functions are given again."""
    import types

    return None if isinstance(function, types.FunctionType) else dict(vars(function))
