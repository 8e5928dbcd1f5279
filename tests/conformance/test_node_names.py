"""`grad_fn` prints as in PyTorch: the name of the last node of every op and sample."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import Sample, outputs, to_library

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# Made of other steps here than in PyTorch: the last one has another name.
OTHER_STEPS = {
    *("adaptive_avg_pool1d", "adaptive_max_pool1d", "avg_pool1d", "chain_matmul"),
    *("cholesky_solve", "linalg_cond", "linalg_cross", "linalg_ldl_factor"),
    *("linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_lstsq", "linalg_lu"),
    *("linalg_matrix_power", "linalg_multi_dot", "linalg_solve", "linalg_solve_ex"),
    *("linalg_tensorinv", "linalg_vecdot", "lu_unpack", "max_pool1d"),
    *("max_pool1d_with_indices", "nuclear_norm", "triangular_solve"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "broadcast_tensors", "celu"),
    *("combinations", "conj_physical", "cross", "cross_entropy", "cumulative_trapezoid", "diag"),
    *("diff", "dist", "einsum", "fill", "glu", "hardshrink", "inner", "kron", "nanquantile"),
    *("nll_loss", "polar", "quantile", "renorm", "renorm_largest", "smooth_l1_loss", "softshrink"),
    *("fft_fft2", "fft_fftn", "fft_ifft", "fft_ifft2", "fft_ifftn", "fft_ihfft2", "fft_ihfftn"),
    *("affine_grid", "stft"),
    *("channel_shuffle", "conv_tbc", "multi_margin_loss", "multilabel_margin_loss"),
    *("native_channel_shuffle", "pad_circular", "pairwise_distance", "pdist", "pixel_shuffle"),
    *("pixel_unshuffle", "scaled_dot_product_attention", "soft_margin_loss"),
    *("sort", "std_mean", "sum_to_size", "tensordot", "trapezoid", "vander", "var_mean", "vdot"),
}
# Without a derivative in PyTorch, or with one that is refused at backward.
WITHOUT = {
    "special_spherical_bessel_j0",
    *("special_airy_ai", "special_bessel_j0", "special_bessel_j1", "special_bessel_y0"),
    *("special_bessel_y1", "special_chebyshev_polynomial_t", "special_chebyshev_polynomial_u"),
    *("special_chebyshev_polynomial_v", "special_chebyshev_polynomial_w"),
    *("special_hermite_polynomial_h", "special_hermite_polynomial_he"),
    *("special_laguerre_polynomial_l", "special_legendre_polynomial_p"),
    *("special_modified_bessel_k0", "special_modified_bessel_k1", "special_ndtr"),
    *("special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"),
    *("special_shifted_chebyshev_polynomial_t", "special_shifted_chebyshev_polynomial_u"),
    *("special_shifted_chebyshev_polynomial_v", "special_shifted_chebyshev_polynomial_w"),
    *("floor_divide", "heaviside", "nextafter", "scatter_scalar"),
    *("allclose", "equal", "unique", "unique_consecutive", "unique_rows"),
}


def names(library: Any, function: Any, sample: Sample, dtype: str) -> Any:
    def leaf(value: Any) -> Any:
        tensor = to_library(value, library, dtype)
        real = isinstance(tensor, library.Tensor) and tensor.is_floating_point()
        return tensor.requires_grad_() if real else tensor

    given = sample.map(leaf)
    found = [t.grad_fn for t in outputs(function(*given.args, **given.kwargs))]
    return [node and node.name() for node in found]


@pytest.mark.parametrize("name", [n for n in OPS if n not in OTHER_STEPS | WITHOUT])
def test_last_node_has_the_name_it_has_in_torch(name: str) -> None:
    op = OPS[name]
    if "f" not in op.dtypes:
        pytest.skip("no gradients")
    for sample in op.samples:
        drawn = sample.draw("float32", name)
        want, got = (names(m, op.function(m), drawn, "float32") for m in (torch, ad))
        assert got == want, f"{name}({sample})"


PRODUCTS = [
    ((4,), (4,)), ((4,), (4, 5)), ((4,), (2, 4, 5)), ((3, 4), (4,)), ((3, 4), (4, 5)),
    ((2, 3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((3, 1, 3, 4), (2, 4, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
def test_products_end_in_the_same_step(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    ends = [(m.rand(left, requires_grad=True) @ m.rand(right)).grad_fn.name() for m in (torch, ad)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("bias", [False, True])
def test_layers_end_in_the_same_step(shape: tuple[int, ...], bias: bool) -> None:
    ends = [m.nn.Linear(4, 5, bias=bias)(m.rand(shape)).grad_fn.name() for m in (torch, ad)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    "index",
    [
        (None, -2, slice(None, 9)), (slice(None, 4, 1), ...), (..., slice(None, 9)), slice(None, 9),
        (slice(0, 9), ...), (slice(None, 1),), (0, slice(None, 2)),
    ],
)  # fmt: skip
def test_slices_of_a_whole_axis_are_no_step_of_their_own(index: Any) -> None:
    ends = [m.ones(2, 4, requires_grad=True)[index].grad_fn.name() for m in (torch, ad)]
    assert ends[0] == ends[1]
