"""`kl_divergence`, under its address in ``torch.distributions``."""

from . import _kl_normals, _kl_pairs, _kl_same
from ._kl_registry import _KL_MEMOIZE, _KL_REGISTRY, _dispatch_kl, kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]

_rules = (_kl_same, _kl_normals, _kl_pairs)  # which fill the registry
_private = (_KL_MEMOIZE, _KL_REGISTRY, _dispatch_kl)
