"""Special functions under the names of ``torch.special``.

Many are ops of `adjoint` itself with another name; those that have no short name are here alone
(`special_*.cpp` in src/ops/elementwise). docs/reference/accuracy.md has their errors.
"""

from __future__ import annotations

from typing import Any as _Any

from adjoint import _core
from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

airy_ai = _core.special_airy_ai
bessel_j0 = _core.special_bessel_j0
bessel_j1 = _core.special_bessel_j1
bessel_y0 = _core.special_bessel_y0
bessel_y1 = _core.special_bessel_y1
chebyshev_polynomial_t = _core.special_chebyshev_polynomial_t
chebyshev_polynomial_u = _core.special_chebyshev_polynomial_u
chebyshev_polynomial_v = _core.special_chebyshev_polynomial_v
chebyshev_polynomial_w = _core.special_chebyshev_polynomial_w
digamma = _core.digamma
entr = _core.special_entr
erf = _core.erf
erfc = _core.erfc
erfcx = _core.special_erfcx
erfinv = _core.erfinv
exp2 = _core.exp2
expit = _core.sigmoid
expm1 = _core.expm1
gammainc = _core.igamma
gammaincc = _core.igammac
gammaln = _core.lgamma
hermite_polynomial_h = _core.special_hermite_polynomial_h
hermite_polynomial_he = _core.special_hermite_polynomial_he
i0 = _core.i0
i0e = _core.special_i0e
i1 = _core.special_i1
i1e = _core.special_i1e
laguerre_polynomial_l = _core.special_laguerre_polynomial_l
legendre_polynomial_p = _core.special_legendre_polynomial_p
log1p = _core.log1p
log_ndtr = _core.special_log_ndtr
log_softmax = _core.log_softmax
logit = _core.logit
logsumexp = _core.logsumexp
modified_bessel_i0 = _core.i0
modified_bessel_i1 = _core.special_i1
modified_bessel_k0 = _core.special_modified_bessel_k0
modified_bessel_k1 = _core.special_modified_bessel_k1
multigammaln = _core.mvlgamma
ndtr = _core.special_ndtr
ndtri = _core.special_ndtri
polygamma = _core.polygamma
psi = _core.digamma
round = _core.round
scaled_modified_bessel_k0 = _core.special_scaled_modified_bessel_k0
scaled_modified_bessel_k1 = _core.special_scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t = _core.special_shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u = _core.special_shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v = _core.special_shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w = _core.special_shifted_chebyshev_polynomial_w
sinc = _core.sinc
softmax = _core.softmax
spherical_bessel_j0 = _core.special_spherical_bessel_j0
xlog1py = _core.special_xlog1py
xlogy = _core.xlogy
zeta = _core.special_zeta

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name)


_watch(__name__)
