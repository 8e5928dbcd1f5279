"""Where we differ from torch on its own samples, each with its reason. What is not listed agrees.

`test_torchs_samples.py` and `python -m tools.opinfo_report` read these lists; the report names the
lines that nothing needs any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.conformance.replay import Difference


@dataclass(frozen=True)
class Known:
    """A difference and its reason. Patterns are those of file names; `part` is of the message."""

    entry: str
    reason: str
    dtype: str = "*"
    aspect: str = "*"
    part: str = ""

    def covers(self, found: Difference) -> bool:
        return (
            any(fnmatchcase(found.entry, name) for name in self.entry.split())
            and any(fnmatchcase(found.dtype, name) for name in self.dtype.split())
            and fnmatchcase(found.aspect, self.aspect)
            and self.part in found.message
        )


KNOWN: list[Known] = [
    Known(
        "linalg.norm.subgradients_at_zero",
        "at zero we have the second derivative 0 of vectors, and refuse that of matrices",
        aspect="second gradient",
    ),
    Known(
        "linalg.norm.subgradients_at_zero",
        "the tangent of singular vectors that are a choice is refused",
        aspect="forward mode",
    ),
    # --- wrong in torch ---
    Known(
        "as_strided_scatter",
        "torch keeps the gradient of what was overwritten",
        aspect="*gradient",
    ),
    Known(
        "logcumsumexp cov corrcoef",
        "torch's forward mode is off by 1e-6: it adds an epsilon, or goes through float32",
        aspect="forward mode",
    ),
    Known("fmax", "torch's forward mode takes the other tangent at ties", aspect="forward mode"),
    Known(
        "clamp", "at a limit torch's forward mode and its gradient differ", aspect="forward mode"
    ),
    Known(
        "pow float_power",
        "torch has NaN where the base is 0",
        aspect="second gradient",
        part="where torch has np.float32(nan)",
    ),
    Known(
        "sparse.sampled_addmm",
        "a sparse tensor has no gradient where it has no entries; torch's is dense there",
        aspect="*gradient",
    ),
    Known(
        "narrow_copy nn.functional.avg_pool3d",
        "torch ignores the strides of out=",
        aspect="out",
        part="strided out",
    ),
    Known(
        "masked.logaddexp",
        "torch has NaN where an element is masked on one side",
        aspect="second gradient",
    ),
    Known(
        "special.bessel_j0 special.bessel_j1 special.bessel_y1",
        "torch has six to nine digits of them in float64; ours are mpmath's",
        dtype="float64",
    ),
    Known("renorm frexp", "torch's tangent is float32", dtype="bfloat16", aspect="forward mode"),
    Known(
        "native_batch_norm",
        "torch has no tangents of the statistics",
        aspect="forward mode",
        part="not zero",
    ),
    Known(
        "nn.functional.linear_cross_entropy.chunked",
        "torch has no second derivatives of pieces; ours are those of the whole",
        aspect="second gradient",
        part="where torch has none",
    ),
    # --- rounding ---
    Known(
        "cov corrcoef nn.functional.normalize nn.functional.layer_norm nn.functional.batch_norm "
        "nn.functional.group_norm nn.functional.instance_norm native_layer_norm native_batch_norm "
        "native_group_norm",
        "numbers that cancel: of one element, or of equal ones, only the rounding is left",
        dtype="float32 bfloat16",
    ),
    # --- out= ---
    Known(
        "nonzero",
        "a tuple is taken for the tuple of as_tuple=True, which torch refuses",
        aspect="out",
        part="argument 'out' must be Tensor, not tuple",
    ),
    Known(
        "*",
        "torch drops the imaginary part of a sum into a real out=; that is refused here",
        dtype="complex128",
        aspect="out",
        part="can't be cast to the desired output type float64",
    ),
    Known(
        "cumsum cumprod diff",
        "torch's out= must have the exact dtype for some shapes, and any for the others",
        aspect="out",
        part="where torch has RuntimeError",
    ),
    Known("std var", "torch has no such kernel, and says so by a RuntimeError", "bfloat16", "out"),
    Known(
        "normal normal.number_mean",
        "torch draws in another order into a strided out=, and does not resize an empty one",
        aspect="out",
    ),
    # --- which of equal elements ---
    Known(
        "sort argsort msort topk kthvalue mode",
        "equal elements keep their order here; in torch it is not promised",
        dtype="int64 bool bfloat16",
    ),
    # --- neural functions ---
    Known(
        "nn.functional.scaled_dot_product_attention",
        "torch rounds scores and weights to 16 bits; ours are float32 until the end",
        dtype="bfloat16",
    ),
    Known(
        "nn.functional.scaled_dot_product_attention",
        "a gradient that is the rounding of equal numbers: one weight is 1, the others are 0",
        dtype="float32",
        aspect="gradient",
    ),
    # --- wrong in torch, continued: linear algebra, powers ---
    Known(
        "cholesky_inverse cholesky_solve",
        "torch gives a gradient to the triangle that is not read",
        aspect="*gradient",
    ),
    Known(
        "cholesky_inverse cholesky_solve triangular_solve",
        "torch's tangent takes part of the triangle that is not read",
        aspect="forward mode",
    ),
    Known(
        "pow float_power",
        "torch has NaN for 0 times an overflow to infinity in 16 bits",
        dtype="bfloat16",
        aspect="second gradient",
    ),
    Known(
        "index_reduce.prod",
        "torch rounds each factor to 16 bits; ours are float32 until the end",
        dtype="bfloat16",
        aspect="second gradient",
    ),
    Known("fft.ihfft2 fft.ihfftn", "torch does not write some out= at all", aspect="out"),
    Known(
        "nn.functional.softplus linalg.matrix_power",
        "torch refuses an out= of a wider dtype, which other functions take",
        aspect="out",
    ),
    Known(
        "matrix_exp", "torch has NaN in 16 bits where the exponential is finite", dtype="bfloat16"
    ),
    Known(
        "nn.functional.poisson_nll_loss",
        "torch has NaN for a target of 0: 0 times the infinite slope of Stirling's term",
        dtype="bfloat16",
        aspect="*gradient",
    ),
    Known(
        "linalg.norm linalg.norm.subgradients_at_zero",
        "torch has NaN for the second derivative of a norm at zero; ours is zero, as the first is",
        aspect="second gradient",
    ),
    Known(
        "svd linalg.svd",
        "torch has zeros for tangents of the further vectors of full matrices; we refuse them",
        aspect="forward mode",
        part="full_matrices=False",
    ),
    Known(
        "svd_lowrank pca_lowrank",
        "singular values are close: the quotients by their gaps keep seven digits in both",
        dtype="float64 complex128",
        aspect="second gradient",
    ),
]


def known(found: Difference) -> Known | None:
    """Return the reason for a difference, if there is one."""
    return next((k for k in KNOWN if k.covers(found)), None)
