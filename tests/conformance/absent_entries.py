"""Entries of torch's operator database that are not here. The list may only become shorter."""

ABSENT = set(
    """
    chalf geqrf hash_tensor linalg.cond linalg.cross linalg.diagonal linalg.householder_product
    linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq linalg.lstsq.grad_oriented
    linalg.matrix_norm linalg.matrix_power linalg.matrix_rank linalg.matrix_rank.hermitian
    linalg.multi_dot linalg.norm linalg.norm.subgradients_at_zero linalg.pinv linalg.pinv.hermitian
    linalg.pinv.singular linalg.qr linalg.tensorinv linalg.tensorsolve linalg.vander linalg.vecdot
    linalg.vector_norm lu matrix_exp max_pool2d_with_indices_backward ormqr pca_lowrank pinverse qr
    sparse.mm.reduce sparse.sampled_addmm svd_lowrank to_sparse
    """.split()  # noqa: SIM905
)
