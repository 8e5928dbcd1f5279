"""Entries of torch's operator database that are not here. The list may only become shorter."""

ABSENT = set(
    """
    chalf cholesky cholesky_inverse cholesky_solve constant_pad_nd fft.fft fft.fft2 fft.fftn
    fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft
    fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn frexp geqrf
    grid_sampler_2d grid_sampler_3d hash_tensor histogram histogramdd igamma igammac istft
    linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross linalg.det linalg.diagonal
    linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product linalg.inv
    linalg.inv_ex linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq
    linalg.lstsq.grad_oriented linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve
    linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_rank.hermitian
    linalg.multi_dot linalg.norm linalg.norm.subgradients_at_zero linalg.pinv linalg.pinv.hermitian
    linalg.pinv.singular linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
    linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve
    linalg.vander linalg.vecdot linalg.vector_norm logdet lu lu_solve lu_unpack matrix_exp
    max_pool2d_with_indices_backward mvlgamma.mvlgamma_p_1 mvlgamma.mvlgamma_p_3
    mvlgamma.mvlgamma_p_5 native_batch_norm native_group_norm native_layer_norm
    nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
    nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
    nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d nn.functional.avg_pool1d
    nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.channel_shuffle
    nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d
    nn.functional.cosine_embedding_loss nn.functional.ctc_loss nn.functional.embedding_bag
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.gaussian_nll_loss nn.functional.grid_sample nn.functional.hinge_embedding_loss
    nn.functional.interpolate.area nn.functional.interpolate.bicubic
    nn.functional.interpolate.bilinear nn.functional.interpolate.linear
    nn.functional.interpolate.nearest nn.functional.interpolate.nearest-exact
    nn.functional.interpolate.trilinear nn.functional.linear_cross_entropy
    nn.functional.linear_cross_entropy.chunked nn.functional.linear_cross_entropy.chunked_none
    nn.functional.local_response_norm nn.functional.margin_ranking_loss nn.functional.max_unpool1d
    nn.functional.max_unpool1d.grad nn.functional.max_unpool2d nn.functional.max_unpool2d.grad
    nn.functional.max_unpool3d nn.functional.max_unpool3d.grad
    nn.functional.multi_head_attention_forward nn.functional.multi_margin_loss
    nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss
    nn.functional.pairwise_distance nn.functional.pdist nn.functional.pixel_shuffle
    nn.functional.pixel_unshuffle nn.functional.poisson_nll_loss nn.functional.rrelu
    nn.functional.scaled_dot_product_attention nn.functional.soft_margin_loss
    nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss
    nn.functional.unfold nn.functional.upsample_bilinear nn.functional.upsample_nearest ormqr
    pca_lowrank pinverse qr signal.windows.bartlett signal.windows.blackman signal.windows.cosine
    signal.windows.exponential signal.windows.gaussian signal.windows.general_cosine
    signal.windows.general_hamming signal.windows.hamming signal.windows.hann signal.windows.kaiser
    signal.windows.nuttall sparse.mm.reduce sparse.sampled_addmm special.airy_ai special.bessel_j0
    special.bessel_j1 special.bessel_y0 special.bessel_y1 special.chebyshev_polynomial_t
    special.chebyshev_polynomial_u special.chebyshev_polynomial_v special.chebyshev_polynomial_w
    special.entr special.erfcx special.hermite_polynomial_h special.hermite_polynomial_he
    special.laguerre_polynomial_l special.legendre_polynomial_p special.log_ndtr
    special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0
    special.modified_bessel_k1 special.ndtr special.ndtri special.scaled_modified_bessel_k0
    special.scaled_modified_bessel_k1 special.shifted_chebyshev_polynomial_t
    special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
    special.shifted_chebyshev_polynomial_w special.spherical_bessel_j0 special.xlog1py special.zeta
    stft svd svd_lowrank to_sparse triangular_solve
    """.split()  # noqa: SIM905
)
