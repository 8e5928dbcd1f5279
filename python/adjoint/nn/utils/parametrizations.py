"""Ready parametrizations: orthogonal matrices, weight norm and spectral norm.

Read `parametrize.py` first.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn import modules as _modules
from adjoint.nn.modules.module import Module
from adjoint.nn.utils import _spectral, parametrize
from adjoint.nn.utils._norm_except import norm_except_dim, weight_norm_of

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# -- orthogonal ----------------------------------------------------------------------------------


def _is_orthogonal(Q: Tensor, eps: float | None = None) -> bool:
    n, k = Q.size(-2), Q.size(-1)
    identity = ad.eye(k, dtype=Q.dtype)
    # A reasonable bound on the error of the product of two orthogonal matrices.
    if eps is None:
        eps = 10.0 * n * ad.finfo(Q.dtype).eps
    return bool(ad.allclose(Q.mH @ Q, identity, atol=eps))


def _make_orthogonal(A: Tensor) -> Tensor:
    """Q of a QR decomposition whose R has a positive diagonal: for an orthogonal A, A itself."""
    reflectors: Tensor
    reflectors, tau = ad.geqrf(A)
    Q: Tensor = ad.linalg.householder_product(reflectors, tau)
    # The diagonal of R may be negative: its signs go to Q.
    return Q * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """Q, orthogonal (or unitary), as a function of an unconstrained matrix.

    ``matrix_exp`` and ``cayley`` map the skew part of the matrix; ``householder`` multiplies
    reflections. With ``use_trivialization`` (Lezcano-Casado, 2019) the maps start from the value
    that the weight had.
    """

    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        n, k = X.size(-2), X.size(-1)
        transposed = n < k
        if transposed:
            X, n, k = X.mT, k, n
        if self.orthogonal_map == _OrthMaps.householder:
            Q = self._reflected(X)
        else:
            Q = self._mapped(X, n, k)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def _mapped(self, X: Tensor, n: int, k: int) -> Tensor:
        X = X.tril()
        if n != k:  # embed into a square matrix
            X = ad.cat([X, X.new_zeros(*X.shape[:-1], n - k)], dim=-1)
        A = X - X.mH
        Q: Tensor
        if self.orthogonal_map == _OrthMaps.matrix_exp:
            Q = ad.matrix_exp(A)
        else:
            # The Cayley transform (I + A/2) (I - A/2)^-1.
            identity = ad.eye(n, dtype=A.dtype)
            Q = ad.linalg.solve(identity - A / 2, identity + A / 2)
        return Q[..., :k] if n != k else Q

    @staticmethod
    def _reflected(X: Tensor) -> Tensor:
        A = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
        Q: Tensor = ad.linalg.householder_product(A, tau)
        # The diagonal of X holds the signs, ±1: whole numbers, through which no gradient flows.
        return Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, Q: Tensor) -> Tensor:
        with ad.no_grad():
            if Q.shape != self.shape:
                raise ValueError(
                    f"Expected a matrix or batch of matrices of shape {self.shape}. "
                    f"Got a tensor of shape {Q.shape}."
                )
            given = Q
            n, k = Q.size(-2), Q.size(-1)
            transposed = n < k
            if transposed:
                Q, n, k = Q.mT, k, n
            if not hasattr(self, "base"):
                return self._without_base(Q, given, transposed)
            if n == k:
                Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
            else:  # complete to a square orthogonal matrix
                shape = (*Q.shape[:-1], n - k)
                Q = ad.cat([Q, ad.randn(*shape, dtype=Q.dtype)], dim=-1)
                Q = _make_orthogonal(Q)
            self.base = Q
            # Minus the identity is mapped to the identity, so the value is the base: its skew part
            # is zero, and reflections by zero turn every sign, which the diagonal turns back.
            start = ad.zeros_like(given)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start

    def _without_base(self, Q: Tensor, given: Tensor, transposed: bool) -> Tensor:
        if self.orthogonal_map != _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        A: Tensor
        A, tau = ad.geqrf(Q)
        # Signs: the diagonal of R, with the identity for reflections of tau 0.
        A.diagonal(dim1=-2, dim2=-1).sign_()
        A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
        return A.mT if transposed else A


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix of a module orthogonal: its columns, or its rows if there are fewer.

    Parameters
    ----------
    module : Module
        The module.
    name : str, default "weight"
        The name of the matrix (or batch of matrices).
    orthogonal_map : {"matrix_exp", "cayley", "householder"}, optional
        How it is computed; by default ``matrix_exp`` for square and complex ones, ``householder``
        else.
    use_trivialization : bool, default True
        Whether the map is applied around the value it has now.

    Returns
    -------
    Module
        The module.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    map_ = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, map_, unsafe=True)


# -- weight norm ---------------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_norm_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Train direction and lengths of a weight as two parameters (Salimans and Kingma, 2016).

    Parameters
    ----------
    module : Module
        The module.
    name : str, default "weight"
        The name of the weight; its parts are ``parametrizations.<name>.original0`` (the lengths)
        and ``original1`` (the direction).
    dim : int or None, default 0
        The axis along which each slice has a length of its own; None for one length in all.

    Returns
    -------
    Module
        The module.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old(
        state_dict: Any, prefix: str, *rest: Any
    ) -> None:  # what the old weight_norm saved
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old)
    return module


# -- spectral norm -------------------------------------------------------------------------------


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.dim()
        if dim >= ndim or dim < -ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but "
                f"got {dim})"
            )
        _spectral.check_iterations(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:  # a vector is its own singular value
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            rows, columns = matrix.shape
            u = matrix.new_empty(rows).normal_(0, 1)
            v = matrix.new_empty(columns).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            # Enough that the first forward is right, for a weight that stays near.
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return _spectral.as_matrix(weight, self.dim)

    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        _spectral.improve(weight_mat, self._u, self._v, n_power_iterations, self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: a second forward changes the vectors before the first one's backward.
        u, v = self._u.clone(), self._v.clone()
        return weight / ad.vdot(u, ad.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # the nearest to an inverse there is


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018).

    Parameters
    ----------
    module : Module
        The module.
    name : str, default "weight"
        The name of the weight.
    n_power_iterations : int, default 1
        The steps of the power iteration for each forward in training mode.
    eps : float, default 1e-12
        The smallest norm that vectors are divided by.
    dim : int, optional
        The axis of the outputs; by default 1 for transposed convolutions and 0 else.

    Returns
    -------
    Module
        The module.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = _output_axis(module)
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, norm)


def _output_axis(module: Module) -> int:
    names = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
    transposed = tuple(vars(_modules)[name] for name in names if name in vars(_modules))
    return 1 if isinstance(module, transposed) else 0
