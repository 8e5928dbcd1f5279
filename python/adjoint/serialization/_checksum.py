"""CRC-32, the checksum of archives: the core's where the processor is fit for it, or zlib's."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from adjoint import _core

__all__ = ["crc32"]

crc32: Callable[[Any, int], int] = getattr(_core, "_crc32", zlib.crc32)
