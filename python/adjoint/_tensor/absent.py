"""What PyTorch's tensors have and adjoint's do not: reading it says so.

An unknown attribute gets Python's own error. These names are PyTorch's, so that a program may well
ask for them; `hasattr` is False for each.
"""

from __future__ import annotations

from typing import Any

from adjoint._missing import absent

NAMES = (
    "chalf",
    "const_data_ptr",
    "dequantize",
    "eig",
    "int_repr",
    "ipu",
    "lstsq",
    "mtia",
    "q_per_channel_axis",
    "q_per_channel_scales",
    "q_per_channel_zero_points",
    "q_scale",
    "q_zero_point",
    "qscheme",
    "record_stream",
    "reinforce",
    "resize",
    "resize_as",
    "resize_as_sparse_",
    "slice_inverse",
    "smm",
    "solve",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "sspaddmm",
    "symeig",
    "to_mkldnn",
    "to_padded_tensor",
    "to_sparse_bsc",
    "to_sparse_bsr",
    "volatile",
    "xpu",
)


def _dir(self: Any) -> list[str]:
    return sorted({*object.__dir__(self)} - _ABSENT)


_ABSENT = frozenset(NAMES)
_PLACES = ("is_ipu", "is_maia", "is_mps", "is_mtia", "is_vulkan", "is_xla", "is_xpu")
_ELSEWHERE = property(lambda self: False, doc="False: tensors are on the CPU.")

METHODS: dict[str, Any] = {
    **{name: absent("Tensor", name) for name in NAMES},
    **dict.fromkeys(
        ["is_ipu", "is_maia", "is_mps", "is_mtia", "is_vulkan", "is_xla", "is_xpu"], _ELSEWHERE
    ),
    "__dir__": _dir,
}
