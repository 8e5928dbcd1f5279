"""`torch.utils.tensorboard`: logs for TensorBoard, through its own package.

- ``writer.py`` - `SummaryWriter`, what a program holds
- ``_summaries.py`` - values as the records that TensorBoard reads
"""

try:
    import tensorboard as _tensorboard  # noqa: F401
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard writes its files through the package tensorboard, which is not "
        "installed.\n  fix: pip install tensorboard",
        name="tensorboard",
    ) from error

from adjoint.utils.tensorboard.writer import FileWriter as FileWriter
from adjoint.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
