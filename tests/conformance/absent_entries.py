"""Entries of torch's operator database that are not here. The list may only become shorter."""

ABSENT = set(
    """
    chalf geqrf hash_tensor linalg.cond linalg.cross
    linalg.diagonal linalg.householder_product linalg.ldl_factor linalg.ldl_factor_ex
    linalg.ldl_solve linalg.lstsq linalg.lstsq.grad_oriented linalg.matrix_norm
    linalg.matrix_power linalg.matrix_rank linalg.matrix_rank.hermitian linalg.multi_dot
    linalg.norm linalg.norm.subgradients_at_zero linalg.pinv linalg.pinv.hermitian
    linalg.pinv.singular linalg.qr linalg.tensorinv linalg.tensorsolve linalg.vander
    linalg.vecdot linalg.vector_norm lu matrix_exp max_pool2d_with_indices_backward
    nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
    nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
    nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d nn.functional.avg_pool1d
    nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d nn.functional.max_unpool1d
    nn.functional.max_unpool1d.grad nn.functional.max_unpool2d nn.functional.max_unpool2d.grad
    nn.functional.max_unpool3d nn.functional.max_unpool3d.grad nn.functional.unfold ormqr
    pca_lowrank pinverse qr svd_lowrank
    """.split()  # noqa: SIM905
)
