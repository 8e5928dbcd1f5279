"""Switches for how `nn.Module` converts parameters: in place, by new objects, or swapped."""

from __future__ import annotations

_overwrite_module_params_on_conversion = False
_swap_module_params_on_conversion = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `module.to(...)` and its like put new parameters in place of the old ones.

    By default the old parameters are given new memory, so that an optimizer that holds them goes
    on with the converted ones.
    """
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` set; False at first."""
    return _overwrite_module_params_on_conversion


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether `module.to(...)` and `load_state_dict` swap parameters with `utils.swap_tensors`.

    A parameter then stays the same object while its contents, class included, are exchanged.
    """
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` set; False at first."""
    return _swap_module_params_on_conversion
