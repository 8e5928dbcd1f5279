"""PyTorch's private addresses of the transforms, which programs still use: see `adjoint.func`."""

from __future__ import annotations
