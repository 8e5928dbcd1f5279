"""The functions behind the modules: activations, losses and layers without state.

Where the core has an op the function calls it; the others are written from ops, so that their
derivatives of any order follow. Read next: `_activations.py`, `_losses.py`, `_layers.py`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from adjoint._core import adaptive_avg_pool1d as adaptive_avg_pool1d
from adjoint._core import avg_pool1d as avg_pool1d
from adjoint._core import avg_pool2d as avg_pool2d
from adjoint._core import avg_pool3d as avg_pool3d
from adjoint._core import channel_shuffle as channel_shuffle
from adjoint._core import conv1d as conv1d
from adjoint._core import conv2d as conv2d
from adjoint._core import conv3d as conv3d
from adjoint._core import conv_tbc as conv_tbc
from adjoint._core import conv_transpose1d as conv_transpose1d
from adjoint._core import conv_transpose2d as conv_transpose2d
from adjoint._core import conv_transpose3d as conv_transpose3d
from adjoint._core import cosine_similarity as cosine_similarity
from adjoint._core import elu_ as elu_
from adjoint._core import hardtanh_ as hardtanh_
from adjoint._core import leaky_relu_ as leaky_relu_
from adjoint._core import max_pool1d_with_indices as max_pool1d_with_indices
from adjoint._core import max_pool2d_with_indices as max_pool2d_with_indices
from adjoint._core import max_pool3d_with_indices as max_pool3d_with_indices
from adjoint._core import native_channel_shuffle as native_channel_shuffle
from adjoint._core import pairwise_distance as pairwise_distance
from adjoint._core import pdist as pdist
from adjoint._core import pixel_shuffle as pixel_shuffle
from adjoint._core import pixel_unshuffle as pixel_unshuffle
from adjoint._core import relu_ as relu_
from adjoint._core import scaled_dot_product_attention as scaled_dot_product_attention
from adjoint._core import threshold_ as threshold_
from adjoint._missing import missing as _missing
from adjoint.nn._activations import _rrelu as _rrelu
from adjoint.nn._activations import celu as celu
from adjoint.nn._activations import celu_ as celu_
from adjoint.nn._activations import elu as elu
from adjoint.nn._activations import gelu as gelu
from adjoint.nn._activations import glu as glu
from adjoint.nn._activations import gumbel_softmax as gumbel_softmax
from adjoint.nn._activations import hardshrink as hardshrink
from adjoint.nn._activations import hardsigmoid as hardsigmoid
from adjoint.nn._activations import hardswish as hardswish
from adjoint.nn._activations import hardtanh as hardtanh
from adjoint.nn._activations import leaky_relu as leaky_relu
from adjoint.nn._activations import log_softmax as log_softmax
from adjoint.nn._activations import logsigmoid as logsigmoid
from adjoint.nn._activations import mish as mish
from adjoint.nn._activations import prelu as prelu
from adjoint.nn._activations import relu as relu
from adjoint.nn._activations import relu6 as relu6
from adjoint.nn._activations import rrelu as rrelu
from adjoint.nn._activations import rrelu_ as rrelu_
from adjoint.nn._activations import selu as selu
from adjoint.nn._activations import selu_ as selu_
from adjoint.nn._activations import sigmoid as sigmoid
from adjoint.nn._activations import silu as silu
from adjoint.nn._activations import softmax as softmax
from adjoint.nn._activations import softmin as softmin
from adjoint.nn._activations import softplus as softplus
from adjoint.nn._activations import softshrink as softshrink
from adjoint.nn._activations import softsign as softsign
from adjoint.nn._activations import tanh as tanh
from adjoint.nn._activations import tanhshrink as tanhshrink
from adjoint.nn._activations import threshold as threshold
from adjoint.nn._attention import _canonical_mask as _canonical_mask
from adjoint.nn._attention import _in_projection as _in_projection
from adjoint.nn._attention import _in_projection_packed as _in_projection_packed
from adjoint.nn._attention import _mha_shape_check as _mha_shape_check
from adjoint.nn._attention import multi_head_attention_forward as multi_head_attention_forward
from adjoint.nn._dropout import _feature_dropout as _feature_dropout
from adjoint.nn._dropout import alpha_dropout as alpha_dropout
from adjoint.nn._dropout import dropout as dropout
from adjoint.nn._dropout import dropout1d as dropout1d
from adjoint.nn._dropout import dropout2d as dropout2d
from adjoint.nn._dropout import dropout3d as dropout3d
from adjoint.nn._dropout import feature_alpha_dropout as feature_alpha_dropout
from adjoint.nn._embedding import _no_grad_embedding_renorm_ as _no_grad_embedding_renorm_
from adjoint.nn._embedding import embedding as embedding
from adjoint.nn._embedding import embedding_bag as embedding_bag
from adjoint.nn._grids import affine_grid as affine_grid
from adjoint.nn._grids import grid_sample as grid_sample
from adjoint.nn._layers import bilinear as bilinear
from adjoint.nn._layers import layer_norm as layer_norm
from adjoint.nn._layers import linear as linear
from adjoint.nn._layers import local_response_norm as local_response_norm
from adjoint.nn._layers import normalize as normalize
from adjoint.nn._layers import one_hot as one_hot
from adjoint.nn._layers import rms_norm as rms_norm
from adjoint.nn._likelihoods import ctc_loss as ctc_loss
from adjoint.nn._likelihoods import gaussian_nll_loss as gaussian_nll_loss
from adjoint.nn._likelihoods import poisson_nll_loss as poisson_nll_loss
from adjoint.nn._linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from adjoint.nn._losses import _REDUCTIONS as _REDUCTIONS
from adjoint.nn._losses import _legacy_reduction as _legacy_reduction
from adjoint.nn._losses import binary_cross_entropy as binary_cross_entropy
from adjoint.nn._losses import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from adjoint.nn._losses import cross_entropy as cross_entropy
from adjoint.nn._losses import huber_loss as huber_loss
from adjoint.nn._losses import kl_div as kl_div
from adjoint.nn._losses import l1_loss as l1_loss
from adjoint.nn._losses import mse_loss as mse_loss
from adjoint.nn._losses import nll_loss as nll_loss
from adjoint.nn._losses import smooth_l1_loss as smooth_l1_loss
from adjoint.nn._margin_losses import cosine_embedding_loss as cosine_embedding_loss
from adjoint.nn._margin_losses import hinge_embedding_loss as hinge_embedding_loss
from adjoint.nn._margin_losses import margin_ranking_loss as margin_ranking_loss
from adjoint.nn._margin_losses import multi_margin_loss as multi_margin_loss
from adjoint.nn._margin_losses import multilabel_margin_loss as multilabel_margin_loss
from adjoint.nn._margin_losses import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from adjoint.nn._margin_losses import soft_margin_loss as soft_margin_loss
from adjoint.nn._margin_losses import triplet_margin_loss as triplet_margin_loss
from adjoint.nn._margin_losses import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from adjoint.nn._padding import pad as pad
from adjoint.nn._pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from adjoint.nn._pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from adjoint.nn._pooling import adaptive_max_pool1d as adaptive_max_pool1d
from adjoint.nn._pooling import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from adjoint.nn._pooling import adaptive_max_pool2d as adaptive_max_pool2d
from adjoint.nn._pooling import adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices
from adjoint.nn._pooling import adaptive_max_pool3d as adaptive_max_pool3d
from adjoint.nn._pooling import adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices
from adjoint.nn._pooling import fractional_max_pool2d as fractional_max_pool2d
from adjoint.nn._pooling import (
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
)
from adjoint.nn._pooling import fractional_max_pool3d as fractional_max_pool3d
from adjoint.nn._pooling import (
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
)
from adjoint.nn._pooling import lp_pool1d as lp_pool1d
from adjoint.nn._pooling import lp_pool2d as lp_pool2d
from adjoint.nn._pooling import lp_pool3d as lp_pool3d
from adjoint.nn._pooling import max_pool1d as max_pool1d
from adjoint.nn._pooling import max_pool2d as max_pool2d
from adjoint.nn._pooling import max_pool3d as max_pool3d
from adjoint.nn._pooling import max_unpool1d as max_unpool1d
from adjoint.nn._pooling import max_unpool2d as max_unpool2d
from adjoint.nn._pooling import max_unpool3d as max_unpool3d
from adjoint.nn._resizing import interpolate as interpolate
from adjoint.nn._resizing import upsample as upsample
from adjoint.nn._resizing import upsample_bilinear as upsample_bilinear
from adjoint.nn._resizing import upsample_nearest as upsample_nearest
from adjoint.nn._statistics import batch_norm as batch_norm
from adjoint.nn._statistics import group_norm as group_norm
from adjoint.nn._statistics import instance_norm as instance_norm
from adjoint.nn._windows import fold as fold
from adjoint.nn._windows import unfold as unfold

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _Any:
        if name == "grad":  # PyTorch's functions reach its module of gradients too
            from adjoint.nn import grad

            return grad
        if name in ("Tensor", "handle_torch_function") or name.startswith("has_torch_function"):
            from adjoint import Tensor, overrides

            return Tensor if name == "Tensor" else getattr(overrides, name)
        raise _missing(__name__, name)
