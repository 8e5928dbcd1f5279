"""Spectral norm by a hook: the old way; `parametrizations.spectral_norm` is the new one."""

from __future__ import annotations

from typing import Any, TypeVar

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, UninitializedParameter
from adjoint.nn.utils import _spectral
from adjoint.nn.utils.parametrizations import _output_axis

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook: ``weight`` is ``weight_orig`` over its largest singular value."""

    # 1: W is no longer a buffer, and v is one.
    _version: int = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        self.name = name
        self.dim = dim
        _spectral.check_iterations(n_power_iterations)
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as the matrix whose singular value counts."""
        return _spectral.as_matrix(weight, self.dim)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Tensor:
        """The weight of the next forward."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with ad.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(ad.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(ad.mv(matrix, v), dim=0, eps=self.eps))
            # Copies: a second forward changes the vectors before the first one's backward.
            u, v = u.clone(), v.clone()
        weight_now: Tensor = weight / ad.dot(u, ad.mv(matrix, v))
        return weight_now

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with ad.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the weight anew, before forward."""
        setattr(module, self.name, self.compute_weight(module, module.training))

    def _solve_v_and_rescale(self, weight_mat: Tensor, u: Tensor, target_sigma: Any) -> Tensor:
        """The v of files of version 0, so that u.T W v is the sigma they had."""
        wide = weight_mat.t()
        inverse: Tensor = ad.linalg.pinv(wide @ weight_mat)
        v: Tensor = (inverse @ (wide @ u.unsqueeze(1))).squeeze(1)
        scaled: Tensor = v * (target_sigma / ad.dot(u, ad.mv(weight_mat, v)))
        return scaled

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Register the hook, the parameter and the buffers it computes from."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        self = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        with ad.no_grad():
            rows, columns = self.reshape_weight_to_matrix(weight).shape
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute, so that it is there before the first forward and for deepcopy.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(self)
        module._register_state_dict_hook(SpectralNormStateDictHook(self))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(self))
        return self


class SpectralNormLoadStateDictPreHook:
    """Reads files of version 0, which had the weight and no v."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Put what this version expects in place of what the old one wrote."""
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        suffixes = ("_orig", "", "_u")
        if version is None and all(key + s not in state_dict for s in (*suffixes, "_v")):
            return  # nothing of ours in it: missing keys are reported as usual
        if version is None and all(key + s in state_dict for s in ("_orig", "_u", "_v")):
            return  # written without metadata by the current version
        absent = [key + s for s in suffixes if key + s not in state_dict]
        if strict:
            missing_keys.extend(absent)
        if absent:
            return
        with ad.no_grad():
            original = state_dict[key + "_orig"]
            weight = state_dict.pop(key)
            sigma = (original / weight).mean()
            matrix = fn.reshape_weight_to_matrix(original)
            state_dict[key + "_v"] = fn._solve_v_and_rescale(matrix, state_dict[key + "_u"], sigma)


class SpectralNormStateDictHook:
    """Writes the version of the hook into the metadata."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        """Add the version."""
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a weight by its largest singular value, before each forward.

    The old way, kept for programs that name ``weight_orig`` and ``weight_u``; see
    `parametrizations.spectral_norm`.
    """
    axis = _output_axis(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, axis, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo `spectral_norm`: the weight is a parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for table, cls in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, registered in table.items():
            hook_itself = getattr(registered, "hook", registered)
            if isinstance(hook_itself, cls) and hook_itself.fn.name == name:
                del table[key]
                break
    return module
