"""Maps between regions, with inverses and determinants: `torch.distributions.transforms`."""

from __future__ import annotations

from adjoint.distributions._joined_transforms import CatTransform as CatTransform
from adjoint.distributions._joined_transforms import (
    CumulativeDistributionTransform as CumulativeDistributionTransform,
)
from adjoint.distributions._joined_transforms import StackTransform as StackTransform
from adjoint.distributions._pointwise_transforms import AbsTransform as AbsTransform
from adjoint.distributions._pointwise_transforms import AffineTransform as AffineTransform
from adjoint.distributions._pointwise_transforms import ExpTransform as ExpTransform
from adjoint.distributions._pointwise_transforms import PowerTransform as PowerTransform
from adjoint.distributions._pointwise_transforms import SigmoidTransform as SigmoidTransform
from adjoint.distributions._pointwise_transforms import SoftplusTransform as SoftplusTransform
from adjoint.distributions._pointwise_transforms import TanhTransform as TanhTransform
from adjoint.distributions._transform import ComposeTransform as ComposeTransform
from adjoint.distributions._transform import IndependentTransform as IndependentTransform
from adjoint.distributions._transform import Transform as Transform
from adjoint.distributions._transform import _InverseTransform as _InverseTransform
from adjoint.distributions._transform import identity_transform as identity_transform
from adjoint.distributions._vector_transforms import CorrCholeskyTransform as CorrCholeskyTransform
from adjoint.distributions._vector_transforms import (
    LowerCholeskyTransform as LowerCholeskyTransform,
)
from adjoint.distributions._vector_transforms import (
    PositiveDefiniteTransform as PositiveDefiniteTransform,
)
from adjoint.distributions._vector_transforms import ReshapeTransform as ReshapeTransform
from adjoint.distributions._vector_transforms import SoftmaxTransform as SoftmaxTransform
from adjoint.distributions._vector_transforms import (
    StickBreakingTransform as StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
