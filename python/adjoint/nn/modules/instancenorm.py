"""Normalisation of each sample and channel, at PyTorch's address."""

from adjoint.nn.modules._lazy_norms import LazyInstanceNorm1d as LazyInstanceNorm1d
from adjoint.nn.modules._lazy_norms import LazyInstanceNorm2d as LazyInstanceNorm2d
from adjoint.nn.modules._lazy_norms import LazyInstanceNorm3d as LazyInstanceNorm3d
from adjoint.nn.modules.batchnorm import InstanceNorm1d as InstanceNorm1d
from adjoint.nn.modules.batchnorm import InstanceNorm2d as InstanceNorm2d
from adjoint.nn.modules.batchnorm import InstanceNorm3d as InstanceNorm3d

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]
