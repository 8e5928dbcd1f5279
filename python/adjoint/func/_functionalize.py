"""``functionalize``: accepted for programs that use it; here it has nothing to rewrite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._arguments import named


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function with the results of ``func``.

    PyTorch replaces in-place operations by others for its tracers. Transforms here differentiate
    and batch in-place operations and views as they are, so the function is called unchanged.

    Parameters
    ----------
    func
        Any function.
    remove
        ``"mutations"`` or ``"mutations_and_views"``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.func.functionalize(lambda x: x.clone().mul_(2))(ad.ones(2))
    tensor([2., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for remove="
            f"{remove}. Valid options are: 'mutations' and 'mutations_and_views'."
        )

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return named(wrapper, func)
