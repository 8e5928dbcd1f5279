"""PyTorch's older names: ``torch.cpu.amp``."""

from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
