"""`torch.storage`: the memory behind tensors, at PyTorch's address."""

from typing import Any as _Any

from adjoint._tensor.storage import TypedStorage as TypedStorage
from adjoint._tensor.storage import UntypedStorage as UntypedStorage
from adjoint._tensor.storage_types import DTYPES as _DTYPES

__all__ = ["TypedStorage", "UntypedStorage"]


def _dtype_to_storage_type_map() -> dict[_Any, str]:
    """The names of storages by their dtypes, which published libraries ask for."""
    return {dtype: name for name, dtype in _DTYPES.items()}
