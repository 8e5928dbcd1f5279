"""Marks for NVIDIA's profiler, which is not there; `torch.profiler` has marks of its own."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(*_: Any, **__: Any) -> NoReturn:
    """Raise: there is no such profiler."""
    raise RuntimeError(
        "NVTX functions not installed. Are you sure you have a CUDA build?\n"
        "  fix: use torch.profiler.record_function, which marks a part of a program on the CPU"
    )


mark = range_end = range_pop = range_start = range_push


class range:
    """A ``with`` block with a mark; raises when it is entered."""

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self.msg = msg

    def __enter__(self) -> None:
        range_push(self.msg)

    def __exit__(self, *_: Any) -> None:
        pass
