"""adjoint: gradients through any computation, on CPUs.

PyTorch's way of working: a ``Tensor`` records the operations done to it, ``backward()`` applies the
chain rule, ``.grad`` holds the result. ``import adjoint as ad`` and use PyTorch's names.
"""

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._openblas import load as _load

_load()

from . import _core  # noqa: E402
from ._core import *  # noqa: E402, F403
from ._core import Tensor as Tensor  # noqa: E402

_core._set_package_folder(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)

from . import autograd as autograd  # noqa: E402
from ._core import _dirichlet_grad as _dirichlet_grad  # noqa: E402
from ._core import _fft_c2c as _fft_c2c  # noqa: E402
from ._core import _fft_c2r as _fft_c2r  # noqa: E402
from ._core import _fft_r2c as _fft_r2c  # noqa: E402
from ._core import _sample_dirichlet as _sample_dirichlet  # noqa: E402
from ._core import _standard_gamma as _standard_gamma  # noqa: E402
from ._core import _standard_gamma_grad as _standard_gamma_grad  # noqa: E402
from ._missing import missing as _missing_name  # noqa: E402
from ._missing import watch as _watch  # noqa: E402
from ._tensor import absent as _absent  # noqa: E402
from ._tensor import composite_forms as _composite_forms  # noqa: E402
from ._tensor import inplace_methods as _inplace_methods  # noqa: E402
from ._tensor import interop as _interop  # noqa: E402
from ._tensor import methods as _tensor_methods  # noqa: E402
from ._tensor import sparse as _sparse_methods  # noqa: E402
from ._tensor.constants import e as e  # noqa: E402
from ._tensor.constants import inf as inf  # noqa: E402
from ._tensor.constants import nan as nan  # noqa: E402
from ._tensor.constants import newaxis as newaxis  # noqa: E402
from ._tensor.constants import pi as pi  # noqa: E402
from ._tensor.creation import as_tensor as as_tensor  # noqa: E402
from ._tensor.creation import asarray as asarray  # noqa: E402
from ._tensor.creation import cartesian_prod as cartesian_prod  # noqa: E402
from ._tensor.creation import from_dlpack as from_dlpack  # noqa: E402
from ._tensor.creation import from_numpy as from_numpy  # noqa: E402
from ._tensor.creation import frombuffer as frombuffer  # noqa: E402
from ._tensor.creation import meshgrid as meshgrid  # noqa: E402
from ._tensor.creation import tensor as tensor  # noqa: E402
from ._tensor.device import device as device  # noqa: E402
from ._tensor.formats import channels_last as channels_last  # noqa: E402
from ._tensor.formats import channels_last_3d as channels_last_3d  # noqa: E402
from ._tensor.formats import contiguous_format as contiguous_format  # noqa: E402
from ._tensor.formats import layout as layout  # noqa: E402
from ._tensor.formats import memory_format as memory_format  # noqa: E402
from ._tensor.formats import preserve_format as preserve_format  # noqa: E402
from ._tensor.formats import sparse_coo as sparse_coo  # noqa: E402
from ._tensor.formats import sparse_csc as sparse_csc  # noqa: E402
from ._tensor.formats import sparse_csr as sparse_csr  # noqa: E402
from ._tensor.formats import strided as strided  # noqa: E402
from ._tensor.printing import set_printoptions as set_printoptions  # noqa: E402
from ._tensor.queries import broadcast_shapes as broadcast_shapes  # noqa: E402
from ._tensor.queries import is_complex as is_complex  # noqa: E402
from ._tensor.queries import is_conj as is_conj  # noqa: E402
from ._tensor.queries import is_floating_point as is_floating_point  # noqa: E402
from ._tensor.queries import is_neg as is_neg  # noqa: E402
from ._tensor.queries import is_nonzero as is_nonzero  # noqa: E402
from ._tensor.queries import is_tensor as is_tensor  # noqa: E402
from ._tensor.queries import numel as numel  # noqa: E402
from ._tensor.typeinfo import finfo as finfo  # noqa: E402
from ._tensor.typeinfo import iinfo as iinfo  # noqa: E402
from .autograd import backward as backward  # noqa: E402
from .autograd import enable_grad as enable_grad  # noqa: E402
from .autograd import inference_mode as inference_mode  # noqa: E402
from .autograd import no_grad as no_grad  # noqa: E402
from .autograd import set_grad_enabled as set_grad_enabled  # noqa: E402
from .random import get_rng_state as get_rng_state  # noqa: E402
from .random import initial_seed as initial_seed  # noqa: E402
from .random import manual_seed as manual_seed  # noqa: E402
from .random import seed as seed  # noqa: E402
from .random import set_rng_state as set_rng_state  # noqa: E402

if _TYPE_CHECKING:
    from . import accelerator as accelerator
    from . import amp as amp
    from . import backends as backends
    from . import compiler as compiler
    from . import cpu as cpu
    from . import cuda as cuda
    from . import differences as differences
    from . import distributed as distributed
    from . import distributions as distributions
    from . import export as export
    from . import fft as fft
    from . import func as func
    from . import functional as functional
    from . import futures as futures
    from . import fx as fx
    from . import hub as hub
    from . import integrate as integrate
    from . import interpolate as interpolate
    from . import library as library
    from . import linalg as linalg
    from . import loops as loops
    from . import masked as masked
    from . import mps as mps
    from . import mtia as mtia
    from . import multiprocessing as multiprocessing
    from . import nn as nn
    from . import notebook as notebook
    from . import onnx as onnx
    from . import optim as optim
    from . import optimize as optimize
    from . import overrides as overrides
    from . import package as package
    from . import plot as plot
    from . import profiler as profiler
    from . import quasirandom as quasirandom
    from . import return_types as return_types
    from . import serialization as serialization
    from . import signal as signal
    from . import sparse as sparse
    from . import special as special
    from . import storage as storage
    from . import testing as testing
    from . import torch_version as torch_version
    from . import types as types
    from . import utils as utils
    from . import version as version
    from . import xpu as xpu
    from ._array_api import __array_namespace_info__ as __array_namespace_info__
    from ._array_api import astype as astype
    from ._array_api import bitwise_invert as bitwise_invert
    from ._array_api import broadcast_arrays as broadcast_arrays
    from ._array_api import cumulative_prod as cumulative_prod
    from ._array_api import cumulative_sum as cumulative_sum
    from ._array_api import expand_dims as expand_dims
    from ._array_api import isdtype as isdtype
    from ._array_api import matrix_transpose as matrix_transpose
    from ._array_api import permute_dims as permute_dims
    from ._array_api import repeat as repeat
    from ._array_api import take_along_axis as take_along_axis
    from ._array_api import unique_all as unique_all
    from ._array_api import unique_counts as unique_counts
    from ._array_api import unique_inverse as unique_inverse
    from ._array_api import unique_values as unique_values
    from ._array_api import unstack as unstack
    from ._array_api import vecdot as vecdot
    from ._autocast import autocast_decrement_nesting as autocast_decrement_nesting
    from ._autocast import autocast_increment_nesting as autocast_increment_nesting
    from ._autocast import get_autocast_cpu_dtype as get_autocast_cpu_dtype
    from ._autocast import get_autocast_dtype as get_autocast_dtype
    from ._autocast import get_autocast_gpu_dtype as get_autocast_gpu_dtype
    from ._autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
    from ._autocast import is_autocast_cpu_enabled as is_autocast_cpu_enabled
    from ._autocast import is_autocast_enabled as is_autocast_enabled
    from ._autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
    from ._autocast import set_autocast_cpu_dtype as set_autocast_cpu_dtype
    from ._autocast import set_autocast_cpu_enabled as set_autocast_cpu_enabled
    from ._autocast import set_autocast_dtype as set_autocast_dtype
    from ._autocast import set_autocast_enabled as set_autocast_enabled
    from ._autocast import set_autocast_gpu_dtype as set_autocast_gpu_dtype
    from ._compat.alias import install_as_torch as install_as_torch
    from ._compat.assertions import _assert as _assert
    from ._compat.assertions import _check as _check
    from ._compat.assertions import _check_index as _check_index
    from ._compat.assertions import _check_is_size as _check_is_size
    from ._compat.assertions import _check_not_implemented as _check_not_implemented
    from ._compat.assertions import _check_tensor_all as _check_tensor_all
    from ._compat.assertions import _check_tensor_all_with as _check_tensor_all_with
    from ._compat.assertions import _check_type as _check_type
    from ._compat.assertions import _check_value as _check_value
    from ._compat.assertions import _check_with as _check_with
    from ._compat.choices import (
        are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    )
    from ._compat.choices import get_default_device as get_default_device
    from ._compat.choices import get_deterministic_debug_mode as get_deterministic_debug_mode
    from ._compat.choices import get_float32_matmul_precision as get_float32_matmul_precision
    from ._compat.choices import (
        is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,  # noqa: E501
    )
    from ._compat.choices import set_default_device as set_default_device
    from ._compat.choices import set_deterministic_debug_mode as set_deterministic_debug_mode
    from ._compat.choices import set_float32_matmul_precision as set_float32_matmul_precision
    from ._compat.choices import use_deterministic_algorithms as use_deterministic_algorithms
    from ._compat.layer_names import alpha_dropout as alpha_dropout
    from ._compat.layer_names import alpha_dropout_ as alpha_dropout_
    from ._compat.layer_names import batch_norm as batch_norm
    from ._compat.layer_names import cosine_embedding_loss as cosine_embedding_loss
    from ._compat.layer_names import ctc_loss as ctc_loss
    from ._compat.layer_names import feature_alpha_dropout as feature_alpha_dropout
    from ._compat.layer_names import feature_alpha_dropout_ as feature_alpha_dropout_
    from ._compat.layer_names import feature_dropout as feature_dropout
    from ._compat.layer_names import feature_dropout_ as feature_dropout_
    from ._compat.layer_names import grid_sampler as grid_sampler
    from ._compat.layer_names import grid_sampler_2d as grid_sampler_2d
    from ._compat.layer_names import grid_sampler_3d as grid_sampler_3d
    from ._compat.layer_names import group_norm as group_norm
    from ._compat.layer_names import hinge_embedding_loss as hinge_embedding_loss
    from ._compat.layer_names import instance_norm as instance_norm
    from ._compat.layer_names import kl_div as kl_div
    from ._compat.layer_names import margin_ranking_loss as margin_ranking_loss
    from ._compat.layer_names import poisson_nll_loss as poisson_nll_loss
    from ._compat.layer_names import rrelu as rrelu
    from ._compat.layer_names import triplet_margin_loss as triplet_margin_loss
    from ._compat.native_norms import native_batch_norm as native_batch_norm
    from ._compat.native_norms import native_group_norm as native_group_norm
    from ._compat.native_norms import native_layer_norm as native_layer_norm
    from ._compat.small_names import AcceleratorError as AcceleratorError
    from ._compat.small_names import DisableTorchFunction as DisableTorchFunction
    from ._compat.small_names import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
    from ._compat.small_names import OutOfMemoryError as OutOfMemoryError
    from ._compat.small_names import compiled_with_cxx11_abi as compiled_with_cxx11_abi
    from ._compat.small_names import cond as cond
    from ._compat.small_names import dsmm as dsmm
    from ._compat.small_names import frobenius_norm as frobenius_norm
    from ._compat.small_names import get_device_module as get_device_module
    from ._compat.small_names import get_num_interop_threads as get_num_interop_threads
    from ._compat.small_names import has_cuda as has_cuda
    from ._compat.small_names import has_cudnn as has_cudnn
    from ._compat.small_names import has_lapack as has_lapack
    from ._compat.small_names import has_mkl as has_mkl
    from ._compat.small_names import has_mkldnn as has_mkldnn
    from ._compat.small_names import has_mps as has_mps
    from ._compat.small_names import has_openmp as has_openmp
    from ._compat.small_names import has_spectral as has_spectral
    from ._compat.small_names import is_distributed as is_distributed
    from ._compat.small_names import is_vulkan_available as is_vulkan_available
    from ._compat.small_names import is_warn_always_enabled as is_warn_always_enabled
    from ._compat.small_names import legacy_contiguous_format as legacy_contiguous_format
    from ._compat.small_names import norm_except_dim as norm_except_dim
    from ._compat.small_names import range as range
    from ._compat.small_names import set_flush_denormal as set_flush_denormal
    from ._compat.small_names import set_num_interop_threads as set_num_interop_threads
    from ._compat.small_names import set_warn_always as set_warn_always
    from ._compat.small_names import spmm as spmm
    from ._compat.small_names import sym_float as sym_float
    from ._compat.small_names import sym_int as sym_int
    from ._compat.small_names import sym_ite as sym_ite
    from ._compat.small_names import sym_max as sym_max
    from ._compat.small_names import sym_min as sym_min
    from ._compat.small_names import sym_not as sym_not
    from ._compat.small_names import sym_sqrt as sym_sqrt
    from ._compat.small_names import sym_sum as sym_sum
    from ._compat.small_names import typename as typename
    from ._compat.symbols import Event as Event
    from ._compat.symbols import Stream as Stream
    from ._compat.symbols import SymBool as SymBool
    from ._compat.symbols import SymFloat as SymFloat
    from ._compat.symbols import SymInt as SymInt
    from ._tensor.contraction import einsum as einsum
    from ._tensor.contraction import tensordot as tensordot
    from ._tensor.functions import as_strided_ as as_strided_
    from ._tensor.functions import detach_ as detach_
    from ._tensor.functions import empty_permuted as empty_permuted
    from ._tensor.functions import get_device as get_device
    from ._tensor.functions import is_same_size as is_same_size
    from ._tensor.functions import is_signed as is_signed
    from ._tensor.functions import nonzero_static as nonzero_static
    from ._tensor.functions import resize_as_ as resize_as_
    from ._tensor.functions import zero_ as zero_
    from ._tensor.gradient import gradient as gradient
    from ._tensor.histograms import histogram as histogram
    from ._tensor.histograms import histogramdd as histogramdd
    from ._tensor.mapped_files import from_file as from_file
    from ._tensor.segments import segment_reduce as segment_reduce
    from ._tensor.sparse import sparse_compressed_tensor as sparse_compressed_tensor
    from ._tensor.sparse import sparse_coo_tensor as sparse_coo_tensor
    from ._tensor.sparse import sparse_csc_tensor as sparse_csc_tensor
    from ._tensor.sparse import sparse_csr_tensor as sparse_csr_tensor
    from ._tensor.storage_types import BFloat16Storage as BFloat16Storage
    from ._tensor.storage_types import BoolStorage as BoolStorage
    from ._tensor.storage_types import ByteStorage as ByteStorage
    from ._tensor.storage_types import CharStorage as CharStorage
    from ._tensor.storage_types import ComplexDoubleStorage as ComplexDoubleStorage
    from ._tensor.storage_types import ComplexFloatStorage as ComplexFloatStorage
    from ._tensor.storage_types import DoubleStorage as DoubleStorage
    from ._tensor.storage_types import FloatStorage as FloatStorage
    from ._tensor.storage_types import HalfStorage as HalfStorage
    from ._tensor.storage_types import IntStorage as IntStorage
    from ._tensor.storage_types import LongStorage as LongStorage
    from ._tensor.storage_types import ShortStorage as ShortStorage
    from .amp import GradScaler as GradScaler
    from .amp import autocast as autocast
    from .autograd.anomaly_mode import (
        is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    )
    from .autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
    from .autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
    from .check import check as check
    from .compiler import compile as compile
    from .composite import composite as composite
    from .composite import describe as describe
    from .composite import detach as detach
    from .composite import grads as grads
    from .composite import map as map
    from .composite import nbytes as nbytes
    from .composite import requires_grad as requires_grad
    from .composite import to as to
    from .composite import zero_grad as zero_grad
    from .external import Evaluation as Evaluation
    from .external import command as command
    from .external import ctypes_function as ctypes_function
    from .external import external as external
    from .external import numpy_function as numpy_function
    from .external import scipy_callback as scipy_callback
    from .func import vmap as vmap
    from .graph import explain_grad as explain_grad
    from .graph import graph as graph
    from .graph import graph_report as graph_report
    from .graph import step as step
    from .jit import fork as fork
    from .jit import wait as wait
    from .linalg._lobpcg import lobpcg as lobpcg
    from .linalg._lowrank import pca_lowrank as pca_lowrank
    from .linalg._lowrank import svd_lowrank as svd_lowrank
    from .linalg._old_names import lu as lu
    from .loops import checkpoint_loop as checkpoint_loop
    from .loops import scan as scan
    from .loops import while_loop as while_loop
    from .nn._recurrent import gru as gru
    from .nn._recurrent import gru_cell as gru_cell
    from .nn._recurrent import lstm as lstm
    from .nn._recurrent import lstm_cell as lstm_cell
    from .nn._recurrent import rnn_relu as rnn_relu
    from .nn._recurrent import rnn_relu_cell as rnn_relu_cell
    from .nn._recurrent import rnn_tanh as rnn_tanh
    from .nn._recurrent import rnn_tanh_cell as rnn_tanh_cell
    from .nn.functional import bilinear as bilinear
    from .nn.functional import celu_ as celu_
    from .nn.functional import prelu as prelu
    from .nn.functional import rrelu_ as rrelu_
    from .nn.functional import selu_ as selu_
    from .profiler._by_line import profile as profile
    from .serialization import load as load
    from .serialization import save as save
    from .utils.dlpack import to_dlpack as to_dlpack

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

_core._extend_tensor(
    _tensor_methods.METHODS
    | _interop.METHODS
    | _inplace_methods.METHODS
    | _sparse_methods.METHODS
    | _absent.METHODS
)
_core._set_composite_forms(_composite_forms.FORMS)

# Loaded at their first use, so that importing adjoint costs little.
_LAZY_MODULES = frozenset(
    {
        "_C",
        "__config__",
        "_dynamo",
        "_functorch",
        "_utils",
        "_vmap_internals",
        "accelerator",
        "amp",
        "backends",
        "check",
        "cli",
        "compiler",
        "composite",
        "cpu",
        "cuda",
        "differences",
        "distributed",
        "export",
        "distributions",
        "external",
        "fft",
        "func",
        "functional",
        "functorch",
        "futures",
        "fx",
        "graph",
        "hub",
        "integrate",
        "interpolate",
        "jit",
        "library",
        "linalg",
        "loops",
        "masked",
        "mps",
        "mtia",
        "multiprocessing",
        "nn",
        "notebook",
        "onnx",
        "optim",
        "optimize",
        "overrides",
        "package",
        "parallel",
        "plot",
        "profiler",
        "quasirandom",
        "return_types",
        "serialization",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "torch_version",
        "types",
        "utils",
        "version",
        "xpu",
    }
)
_LAZY_NAMES = {
    **dict.fromkeys(
        ("Evaluation", "command", "ctypes_function", "numpy_function", "scipy_callback"), "external"
    ),
    "GradScaler": "amp",
    "autocast": "amp",
    **dict.fromkeys(
        (
            "autocast_decrement_nesting",
            "autocast_increment_nesting",
            "get_autocast_cpu_dtype",
            "get_autocast_dtype",
            "get_autocast_gpu_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled",
            "is_autocast_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_cpu_dtype",
            "set_autocast_cpu_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
            "set_autocast_gpu_dtype",
        ),
        "_autocast",
    ),
    "compile": "compiler",
    "einsum": "_tensor.contraction",
    "explain_grad": "graph",
    "profile": "profiler._by_line",
    "from_file": "_tensor.mapped_files",
    "gradient": "_tensor.gradient",
    "graph_report": "graph",
    "histogram": "_tensor.histograms",
    "histogramdd": "_tensor.histograms",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode",
    "is_anomaly_enabled": "autograd.anomaly_mode",
    "install_as_torch": "_compat.alias",
    "is_storage": "_tensor.storage",
    "lobpcg": "linalg._lobpcg",
    "lu": "linalg._old_names",
    "pca_lowrank": "linalg._lowrank",
    "load": "serialization",
    "save": "serialization",
    "checkpoint_loop": "loops",
    "scan": "loops",
    "step": "graph",
    "set_anomaly_enabled": "autograd.anomaly_mode",
    "set_default_tensor_type": "_tensor.legacy",
    "svd_lowrank": "linalg._lowrank",
    "tensordot": "_tensor.contraction",
    "TypedStorage": "_tensor.storage",
    "UntypedStorage": "_tensor.storage",
    "vmap": "func",
    "while_loop": "loops",
    **dict.fromkeys(
        (
            "gru",
            "gru_cell",
            "lstm",
            "lstm_cell",
            "rnn_relu",
            "rnn_relu_cell",
            "rnn_tanh",
            "rnn_tanh_cell",
        ),
        "nn._recurrent",
    ),
    **dict.fromkeys(
        (
            "are_deterministic_algorithms_enabled",
            "get_default_device",
            "get_deterministic_debug_mode",
            "get_float32_matmul_precision",
            "is_deterministic_algorithms_warn_only_enabled",
            "set_default_device",
            "set_deterministic_debug_mode",
            "set_float32_matmul_precision",
            "use_deterministic_algorithms",
        ),
        "_compat.choices",
    ),
    **dict.fromkeys(
        (
            "alias_copy",
            "as_strided_copy",
            "detach_copy",
            "diagonal_copy",
            "expand_copy",
            "narrow_copy",
            "permute_copy",
            "select_copy",
            "split_copy",
            "split_with_sizes_copy",
            "squeeze_copy",
            "t_copy",
            "transpose_copy",
            "unbind_copy",
            "unfold_copy",
            "unsafe_chunk",
            "unsafe_split",
            "unsafe_split_with_sizes",
            "unsqueeze_copy",
            "view_as_complex_copy",
            "view_as_real_copy",
            "view_copy",
        ),
        "_tensor.view_copies",
    ),
    **dict.fromkeys(
        (
            "sparse_compressed_tensor",
            "sparse_coo_tensor",
            "sparse_csc_tensor",
            "sparse_csr_tensor",
        ),
        "_tensor.sparse",
    ),
    **dict.fromkeys(
        (
            "__array_namespace_info__",
            "astype",
            "bitwise_invert",
            "broadcast_arrays",
            "cumulative_prod",
            "cumulative_sum",
            "expand_dims",
            "isdtype",
            "matrix_transpose",
            "permute_dims",
            "repeat",
            "take_along_axis",
            "unique_all",
            "unique_counts",
            "unique_inverse",
            "unique_values",
            "unstack",
            "vecdot",
        ),
        "_array_api",
    ),
    **dict.fromkeys(
        ("empty_permuted", "get_device", "is_same_size", "is_signed", "nonzero_static"),
        "_tensor.functions",
    ),
    **dict.fromkeys(
        (
            "AcceleratorError",
            "DisableTorchFunction",
            "DisableTorchFunctionSubclass",
            "OutOfMemoryError",
            "compiled_with_cxx11_abi",
            "cond",
            "dsmm",
            "frobenius_norm",
            "get_device_module",
            "get_num_interop_threads",
            "has_cuda",
            "has_cudnn",
            "has_lapack",
            "has_mkl",
            "has_mkldnn",
            "has_mps",
            "has_openmp",
            "has_spectral",
            "is_distributed",
            "is_vulkan_available",
            "is_warn_always_enabled",
            "legacy_contiguous_format",
            "norm_except_dim",
            "range",
            "set_flush_denormal",
            "set_num_interop_threads",
            "set_warn_always",
            "spmm",
            "sym_float",
            "sym_int",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_not",
            "sym_sqrt",
            "sym_sum",
            "typename",
        ),
        "_compat.small_names",
    ),
    **dict.fromkeys(
        ("native_batch_norm", "native_group_norm", "native_layer_norm"), "_compat.native_norms"
    ),
    **dict.fromkeys(("as_strided_", "detach_", "resize_as_", "zero_"), "_tensor.functions"),
    **dict.fromkeys(
        (
            "bilinear",
            "celu_",
            "prelu",
            "rrelu_",
            "selu_",
        ),
        "nn.functional",
    ),
    **dict.fromkeys(
        (
            "alpha_dropout",
            "alpha_dropout_",
            "batch_norm",
            "cosine_embedding_loss",
            "ctc_loss",
            "feature_alpha_dropout",
            "feature_alpha_dropout_",
            "feature_dropout",
            "feature_dropout_",
            "grid_sampler",
            "grid_sampler_2d",
            "grid_sampler_3d",
            "group_norm",
            "hinge_embedding_loss",
            "instance_norm",
            "kl_div",
            "margin_ranking_loss",
            "poisson_nll_loss",
            "rrelu",
            "triplet_margin_loss",
        ),
        "_compat.layer_names",
    ),
    **dict.fromkeys(
        (
            "describe",
            "detach",
            "grads",
            "map",
            "nbytes",
            "requires_grad",
            "to",
            "zero_grad",
        ),
        "composite",
    ),
    **dict.fromkeys(
        (
            "BFloat16Tensor",
            "BoolTensor",
            "ByteTensor",
            "CharTensor",
            "DoubleTensor",
            "FloatTensor",
            "HalfTensor",
            "IntTensor",
            "LongTensor",
            "ShortTensor",
        ),
        "_tensor.legacy",
    ),
    **dict.fromkeys(
        (
            "_assert",
            "_check",
            "_check_index",
            "_check_is_size",
            "_check_not_implemented",
            "_check_tensor_all",
            "_check_tensor_all_with",
            "_check_type",
            "_check_value",
            "_check_with",
        ),
        "_compat.assertions",
    ),
    **dict.fromkeys(("Event", "Stream", "SymBool", "SymFloat", "SymInt"), "_compat.symbols"),
    **dict.fromkeys(("fork", "wait"), "jit"),
    "_segment_reduce": "_tensor.segments",
    "segment_reduce": "_tensor.segments",
    "to_dlpack": "utils.dlpack",
    **dict.fromkeys(
        (
            "BFloat16Storage",
            "BoolStorage",
            "ByteStorage",
            "CharStorage",
            "ComplexDoubleStorage",
            "ComplexFloatStorage",
            "DoubleStorage",
            "FloatStorage",
            "HalfStorage",
            "IntStorage",
            "LongStorage",
            "ShortStorage",
        ),
        "_tensor.storage_types",
    ),
}


def __getattr__(name: str) -> _Any:
    if name in _LAZY_MODULES:
        module = _importlib.import_module(f"{__name__}.{name}")
        _watch(f"{__name__}.{name}")
        return module
    if name in _LAZY_NAMES:
        value = getattr(_importlib.import_module(f"{__name__}.{_LAZY_NAMES[name]}"), name)
        globals()[name] = value
        return value
    if name.startswith("_foreach_"):
        from ._tensor.foreach import foreach_function

        if (function := foreach_function(name)) is not None:
            globals()[name] = function
            return function
    raise _missing_name(__name__, name)


def __dir__() -> list[str]:
    """Everything, also what is loaded at its first use."""
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})


_watch(__name__)
