"""`GradScaler`: a loss times a factor, so that small gradients do not become zero in float16.

The factor grows as long as gradients are finite; a step with others is skipped, and the factor is
lowered. bfloat16 has the range of float32 and needs none of this.
"""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any, cast

from adjoint import _core
from adjoint._core import Tensor, float16, float32, int32
from adjoint.autograd.grad_mode import no_grad

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimiser is in an iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, unscales gradients, and skips steps whose gradients are not finite.

    Parameters
    ----------
    device
        "cpu". For "cuda" (the default, as in PyTorch) it is disabled with a warning.
    init_scale
        The first factor.
    growth_factor, growth_interval
        After so many steps with finite gradients the factor is multiplied.
    backoff_factor
        It is multiplied by this after a step with others.
    enabled
        False: `scale` and `unscale_` do nothing, `step` is the optimiser's.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0], requires_grad=True)
    >>> optimizer = ad.optim.SGD([x], lr=0.1)
    >>> scaler = ad.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale(x * 3).backward()
    >>> x.grad
    tensor([3072.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> x.detach()
    tensor([0.7000])
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if self._device == "cuda" and enabled:
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made at the first use
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        fix = (
            "This may indicate your script did not use scaler.scale(loss or outputs) earlier in "
            "the iteration."
        )
        if self._scale is None:
            raise AssertionError(f"Attempted {funcname} but _scale is None.  " + fix)
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {funcname} but _growth_tracker is None.  " + fix)
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        if self._growth_tracker is not None:
            raise AssertionError("_growth_tracker initialized before _scale")
        self._scale = _core.full((), self._init_scale, dtype=float32)
        self._growth_tracker = _core.full((), self._init_growth_tracker, dtype=int32)

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or all tensors of nested lists and tuples, by the factor.

        Parameters
        ----------
        outputs
            What backward will start from.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * cast(Tensor, self._scale)
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    # -- before a step -----------------------------------------------------------------------------

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiply gradients by `inv_scale`, and note whether all of them are finite."""
        found: dict[Any, Tensor] = {}
        with no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    grad = param.grad
                    if grad is None:
                        continue
                    if not allow_fp16 and grad.dtype == float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    seen = found.setdefault(grad.device, found_inf.clone())
                    if not _core.isfinite(grad).all():
                        seen.fill_(1.0)
                    grad.mul_(inv_scale)
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide an optimiser's gradients by the factor, once between two updates.

        To be called before gradients are clipped or looked at; `step` does it otherwise.
        """
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        none = _core.full((), 0.0, dtype=float32)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, none, False)
        state["stage"] = OptState.UNSCALED

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        self._check_scale_growth_tracker("_check_inf_per_device")
        one, none = _core.full((), 1.0, dtype=float32), _core.full((), 0.0, dtype=float32)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, none, True)
        return cast(dict[Any, Tensor], state["found_inf_per_device"])

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return cast(dict[Any, Tensor], found)

    # -- a step ------------------------------------------------------------------------------------

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return cast("float | None", optimizer.step(*args, **kwargs))

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> float | None:
        """Unscale an optimiser's gradients, if that was not done, and step if all are finite.

        Parameters
        ----------
        optimizer
            Whose step.
        *args, **kwargs
            For ``optimizer.step``; a closure is refused.

        Returns
        -------
        What ``optimizer.step`` returns; None if the step was skipped.
        """
        if not self._enabled:
            return cast("float | None", optimizer.step(*args, **kwargs))
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._scaled_step(optimizer, state, *args, **kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _scaled_step(
        self, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        """The step of an optimiser that unscales, and skips, by itself."""
        kwargs_ = dict(kwargs)
        by_argument = "grad_scaler" in inspect.signature(optimizer.step).parameters
        if by_argument:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them "
                "directly.",
                FutureWarning,
                stacklevel=3,
            )
            kwargs_["grad_scaler"] = self
        else:
            if state["stage"] is OptState.READY:
                self._check_inf_per_device(optimizer)
            scale = self._get_scale_async()
            found = list(state["found_inf_per_device"].values())
            unscaled = state["stage"] is OptState.UNSCALED
            optimizer.grad_scale = (
                None if unscaled else scale * getattr(optimizer, "grad_scale", 1)  # type: ignore[operator]
            )
            optimizer.found_inf = _core.stack(found).sum() if found else _core.full((), 0.0)
        result = optimizer.step(*args, **kwargs_)
        state["stage"] = OptState.STEPPED
        if not by_argument:
            del optimizer.grad_scale
            del optimizer.found_inf
        return cast("float | None", result)

    # -- after it ----------------------------------------------------------------------------------

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the factor for the next iteration.

        Parameters
        ----------
        new_scale
            The factor; by default it grows or is lowered by what the steps have found.
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set_scale(scale, new_scale)
        else:
            found = [
                one
                for state in self._per_optimizer_states.values()
                for one in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(one.item() for one in found):
                scale.mul_(self._backoff_factor)
                tracker.fill_(0)
            elif tracker.item() + 1 == self._growth_interval:
                grown = scale * self._growth_factor
                if _core.isfinite(grown):
                    scale.copy_(grown)
                tracker.fill_(0)
            else:
                tracker.add_(1)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    @staticmethod
    def _set_scale(scale: Tensor, new_scale: float | Tensor) -> None:
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
            return
        reason = (
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
            "torch.FloatTensor with requires_grad=False."
        )
        good = isinstance(new_scale, Tensor) and new_scale.numel() == 1
        if not good or new_scale.requires_grad:
            raise AssertionError(reason)
        scale.copy_(new_scale)

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """Return the factor; 1 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return by what the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by what the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return by what the factor is multiplied after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by what the factor is multiplied after a step that was skipped."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps the factor grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        if self._growth_tracker is None:
            return self._init_growth_tracker
        return int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Return whether it does anything."""
        return self._enabled

    # -- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the factor and how it changes; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = cast(float, state_dict["scale"])
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = cast(float, state_dict["growth_factor"])
        self._backoff_factor = cast(float, state_dict["backoff_factor"])
        self._growth_interval = cast(int, state_dict["growth_interval"])
        self._init_growth_tracker = cast(int, state_dict["_growth_tracker"])
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if len(self._per_optimizer_states) != 0:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = None
            state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
