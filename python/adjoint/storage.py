"""`torch.storage`: the memory behind tensors, at PyTorch's address."""

from adjoint._tensor.storage import TypedStorage as TypedStorage
from adjoint._tensor.storage import UntypedStorage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
