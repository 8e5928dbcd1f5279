"""`torch.functional`: functions of the top level, at PyTorch's second address for them."""

from adjoint import atleast_1d as atleast_1d
from adjoint import atleast_2d as atleast_2d
from adjoint import atleast_3d as atleast_3d
from adjoint import block_diag as block_diag
from adjoint import broadcast_shapes as broadcast_shapes
from adjoint import broadcast_tensors as broadcast_tensors
from adjoint import cartesian_prod as cartesian_prod
from adjoint import cdist as cdist
from adjoint import chain_matmul as chain_matmul
from adjoint import einsum as einsum
from adjoint import istft as istft
from adjoint import lu as lu
from adjoint import meshgrid as meshgrid
from adjoint import norm as norm
from adjoint import pca_lowrank as pca_lowrank
from adjoint import split as split
from adjoint import stft as stft
from adjoint import svd_lowrank as svd_lowrank
from adjoint import tensordot as tensordot
from adjoint import unique as unique
from adjoint import unique_consecutive as unique_consecutive
from adjoint import unravel_index as unravel_index
