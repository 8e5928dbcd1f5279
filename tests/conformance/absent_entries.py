"""Entries of torch's operator database that are not here. The list may only become shorter."""

ABSENT = set(
    """
    chalf hash_tensor max_pool2d_with_indices_backward nn.functional.adaptive_avg_pool1d
    nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
    nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d
    nn.functional.adaptive_max_pool3d nn.functional.avg_pool1d nn.functional.avg_pool2d
    nn.functional.avg_pool3d nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.max_unpool1d nn.functional.max_unpool1d.grad nn.functional.max_unpool2d
    nn.functional.max_unpool2d.grad nn.functional.max_unpool3d nn.functional.max_unpool3d.grad
    nn.functional.unfold
    """.split()  # noqa: SIM905
)
