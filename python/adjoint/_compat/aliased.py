"""To import this makes `torch` mean adjoint, in a fork server, which imports what it is told."""

from __future__ import annotations

from adjoint import install_as_torch

install_as_torch()
