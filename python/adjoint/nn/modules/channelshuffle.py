"""Channels mixed between groups."""

from __future__ import annotations

from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """The channels of [N, C, ...], taken from each of `groups` groups in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
