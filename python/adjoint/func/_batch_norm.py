"""``replace_all_batch_norm_modules_``: batch norms that keep no running statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjoint.nn import Module


def _forget_running_statistics(module: Any) -> None:
    from adjoint.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d

    if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d):
        module.running_mean = None
        module.running_var = None
        module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make every batch norm in ``root`` use the statistics of its batch only, in place.

    ``vmap`` over samples cannot update running statistics, which the samples share.

    Parameters
    ----------
    root
        The module to change.

    Returns
    -------
    Module
        ``root`` itself.

    Examples
    --------
    >>> import adjoint as ad
    >>> norm = ad.func.replace_all_batch_norm_modules_(ad.nn.BatchNorm1d(3))
    >>> norm.running_mean is None
    True
    """
    for module in root.modules():
        _forget_running_statistics(module)
    return root
