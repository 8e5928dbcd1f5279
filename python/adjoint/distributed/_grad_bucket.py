"""What `DistributedDataParallel` hands to a communication hook."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor

__all__ = ["GradBucket"]


class GradBucket:
    """What a communication hook gets: gradients that are reduced together."""

    def __init__(self, bucket: Any, flat: Tensor, is_last: bool) -> None:
        self._bucket = bucket
        self._flat = flat
        self._is_last = is_last

    def index(self) -> int:
        """Its number."""
        return int(self._bucket.index)

    def buffer(self) -> Tensor:
        """All gradients in one row."""
        return self._flat.view(-1)

    def set_buffer(self, buffer: Tensor) -> None:
        """Put another row in its place."""
        self._flat = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients, with their shapes."""
        return [self._flat] if self._bucket.is_alone else self._bucket.views()

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last of this pass."""
        return self._is_last
