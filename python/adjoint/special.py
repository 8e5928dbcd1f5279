"""Special functions under the names of ``torch.special``.

Most are ops of `adjoint` itself with another name; the Bessel functions that have no short name are
here alone (src/ops/elementwise/bessel.cpp).
"""

from __future__ import annotations

from typing import Any as _Any

from adjoint import _core
from adjoint._missing import missing as _missing

digamma = psi = _core.digamma
erf = _core.erf
erfc = _core.erfc
erfinv = _core.erfinv
exp2 = _core.exp2
expit = _core.sigmoid
expm1 = _core.expm1
gammaln = _core.lgamma
i0 = _core.i0
i0e = _core.special_i0e
i1 = _core.special_i1
i1e = _core.special_i1e
log1p = _core.log1p
log_softmax = _core.log_softmax
logit = _core.logit
logsumexp = _core.logsumexp
polygamma = _core.polygamma
round = _core.round
sinc = _core.sinc
softmax = _core.softmax
xlogy = _core.xlogy

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlogy",
]


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name)
