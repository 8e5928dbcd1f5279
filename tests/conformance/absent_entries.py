"""Entries of torch's operator database that are not here. The list may only become shorter."""

ABSENT = set(
    """
    chalf hash_tensor max_pool2d_with_indices_backward
    """.split()  # noqa: SIM905
)
