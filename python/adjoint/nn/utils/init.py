"""Making a module without the work of drawing its parameters."""

from __future__ import annotations

import inspect
from typing import Any

from adjoint.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters and buffers have memory, but no values yet.

    Parameters
    ----------
    module_cls : class
        A `Module` that takes a ``device``.
    *args, **kwargs
        Its arguments.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.utils.skip_init(ad.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    final = kwargs.pop("device", "cpu")
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=final)
