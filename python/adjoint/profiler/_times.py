"""Times and sizes as people read them."""

from __future__ import annotations

from typing import Any


def format_time(us: float, unit: str | None = None) -> str:
    """``"1.234ms"``: in seconds, milliseconds or microseconds, as it suits the size."""
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    if unit not in ("s", "ms", "us"):
        raise ValueError(f"time_unit is 's', 'ms' or 'us', got {unit!r}")
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def format_share(part: float, whole: float) -> str:
    """``"12.34%"``."""
    if whole == 0:
        return "NaN"
    return f"{part * 100.0 / whole:.2f}%"


def format_memory(nbytes: int) -> str:
    """``"1.50 KB"``."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class FormattedTimes:
    """Times of an event, or of several, as text and per call."""

    count: int
    cpu_time_total: Any  # microseconds
    self_cpu_time_total: Any
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """Microseconds per call."""
        return float(self.cpu_time_total) / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """0: there is no GPU."""
        return 0.0

    cuda_time = device_time

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return format_time(self.self_cpu_time_total)

    @property
    def device_time_str(self) -> str:
        """`device_time` with its unit."""
        return format_time(self.device_time)

    @property
    def device_time_total_str(self) -> str:
        """`device_time_total` with its unit."""
        return format_time(self.device_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """`self_device_time_total` with its unit."""
        return format_time(self.self_device_time_total)
