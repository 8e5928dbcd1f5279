"""What loaders are made of, under the addresses PyTorch has for it."""

from __future__ import annotations

from adjoint.utils.data._utils import collate as collate
from adjoint.utils.data._utils import fetch as fetch
from adjoint.utils.data._utils import worker as worker

# Seconds after which a process that waits for another looks whether that is still there.
MP_STATUS_CHECK_INTERVAL = 5.0
