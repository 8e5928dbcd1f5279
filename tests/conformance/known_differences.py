"""Where we differ from torch on its own samples, each with its reason. What is not listed agrees.

`test_torchs_samples.py` and `python -m tools.opinfo_report` read these lists; the report names the
lines that nothing needs any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.conformance.replay import Difference


@dataclass(frozen=True)
class Known:
    """A difference and its reason. Patterns are those of file names; `part` is of the message."""

    entry: str
    reason: str
    dtype: str = "*"
    aspect: str = "*"
    part: str = ""

    def covers(self, found: Difference) -> bool:
        return (
            any(fnmatchcase(found.entry, name) for name in self.entry.split())
            and any(fnmatchcase(found.dtype, name) for name in self.dtype.split())
            and fnmatchcase(found.aspect, self.aspect)
            and self.part in found.message
        )


KNOWN: list[Known] = [
    Known(
        "as_strided_scatter",
        "torch keeps the gradient of what was overwritten",
        aspect="*gradient",
    ),
    Known(
        "logcumsumexp cov corrcoef",
        "torch's forward mode is off by 1e-6: it adds an epsilon, or goes through float32",
        aspect="forward mode",
    ),
    Known(
        "nn.functional.scaled_dot_product_attention",
        "torch rounds scores and weights to 16 bits; ours are float32 until the end",
        dtype="bfloat16",
    ),
    Known(
        "nn.functional.scaled_dot_product_attention",
        "a gradient that is the rounding of equal numbers: one weight is 1, the others are 0",
        dtype="float32",
        aspect="gradient",
    ),
    Known(
        "nn.functional.triplet_margin_with_distance_loss",
        "the distance in torch's samples is a function of torch's own",
    ),
]


def known(found: Difference) -> Known | None:
    """Return the reason for a difference, if there is one."""
    return next((k for k in KNOWN if k.covers(found)), None)
