"""What cannot be solved, for every solver: by kind of failure, a call that has to raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import integrate, interpolate, linalg, optimize, signal
from adjoint.sparse import linalg as sparse

Call = Callable[[], Any]
NAN = float("nan")
NO_ANSWER, SINGULAR, NOT_A_NUMBER, NEVER = "no answer", "singular", "not a number", "never"


def t(*values: Any) -> ad.Tensor:
    return ad.tensor(values, dtype=ad.float64)


def one(value: float = 2.0) -> ad.Tensor:
    return ad.tensor(value, dtype=ad.float64, requires_grad=True)


def nan(x: Any, *rest: Any) -> Any:
    """NaN of the form of what is given."""
    return x * NAN


def later(x: Any) -> Any:
    """Fine where solvers begin, and NaN where they go: the root of less than zero."""
    return ad.sqrt(x - 0.5) + 1


def apart(x: Any) -> Any:
    """No zero."""
    return x * x + 1


def back(value: Any) -> Any:
    """The derivative of what was found."""
    return value.sum().backward()


ZERO, TWO = one(0.0), one()
LINEAR = ad.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=ad.float64)
HALF = ad.sparse.matrix(ad.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]).double())
WIDE = ad.eye(40, dtype=ad.float64)
WIDE[0], WIDE[39, :] = 1.0, 1.0  # two rows say the same: beyond a band, for SuperLU
FULL = ad.sparse.matrix(WIDE)
BAD = ad.sparse.matrix(ad.tensor([[1.0, NAN, 0.0], [NAN, 1.0, 0.0], [0.0, 0.0, 2.0]]).double())
# Symmetric and positive definite, far from one: a step or two are not enough.
HARD = ad.sparse.matrix(ad.diag(ad.tensor([1.0, 7.0, 1e3, 1e5, 1e7]).double()) + 0.5)
THREE, FIVE = ad.ones(3, dtype=ad.float64), ad.ones(5, dtype=ad.float64)

ROOMS = ("optimize", "integrate", "sparse.linalg", "linalg", "interpolate", "signal")
FAILURES: dict[str, dict[str, dict[str, Call]]] = {room: {} for room in ROOMS}
# Sums of samples: what is not a number stays so, as in NumPy.
CANNOT_FAIL = {"cumulative_simpson", "cumulative_trapezoid", "simpson", "trapezoid"}
TABLE = FAILURES["optimize"]
ROOTS = (
    "newton",
    "broyden",
    "anderson",
    "hybr",
    "lm",
    "krylov",
    "broyden1",
    "broyden2",
    "linearmixing",
    "diagbroyden",
    "excitingmixing",
    "df-sane",
)
for method in ROOTS:
    TABLE[f"root {method}"] = {
        NO_ANSWER: lambda m=method: optimize.root(apart, 1.0, method=m),
        SINGULAR: lambda m=method: back(
            optimize.root(lambda x, a=ZERO: (x - a) ** 2, 0.0, method=m).x
        ),
        NOT_A_NUMBER: lambda m=method: optimize.root(nan, 1.0, method=m),
        "not a number on the way": lambda m=method: optimize.root(later, 0.6, method=m),
    }
for method in ("anderson", "newton", "broyden"):
    TABLE[f"fixed_point {method}"] = {
        NO_ANSWER: lambda m=method: optimize.fixed_point(lambda x: x + 1 + x * x, 1.0, method=m),
        SINGULAR: lambda m=method: back(
            optimize.fixed_point(lambda x, a=ZERO: x + (x - a) ** 2, 0.0, method=m)
        ),
        NOT_A_NUMBER: lambda m=method: optimize.fixed_point(nan, 1.0, method=m),
        "not a number on the way": lambda m=method: optimize.fixed_point(
            lambda x: x + later(x), 0.6, method=m
        ),
    }
for method in (
    "brentq",
    "brenth",
    "bisect",
    "ridder",
    "toms748",
    "newton",
    "halley",
    "secant",
    None,
):
    begin: dict[str, Any] = {"bracket": (-1.0, 2.0)}
    if method in ("newton", "halley"):
        begin = {"x0": 1.0}
    if method == "secant":
        begin = {"x0": 1.0, "x1": 2.0}
    TABLE[f"root_scalar {method}"] = {
        NO_ANSWER: lambda m=method, b=begin: optimize.root_scalar(apart, method=m, **b),
        SINGULAR: lambda m=method, b=begin: back(
            optimize.root_scalar(lambda x, a=ZERO: (x - a) ** 3, method=m, **b).root
        ),
        NOT_A_NUMBER: lambda m=method, b=begin: optimize.root_scalar(nan, method=m, **b),
    }
for name in ("bisect", "brentq", "brenth", "ridder", "toms748", "newton", "fsolve"):
    solver = getattr(optimize, name)
    start: tuple[float, ...] = (1.0,) if name in ("newton", "fsolve") else (-1.0, 2.0)
    TABLE[name] = {
        NO_ANSWER: lambda f=solver, s=start: f(apart, *s),
        SINGULAR: lambda f=solver, s=start: back(f(lambda x, a=ZERO: (x - a) ** 3, *s)),
        NOT_A_NUMBER: lambda f=solver, s=start: f(nan, *s),
    }
MINIMA = (
    None,
    "BFGS",
    "L-BFGS-B",
    "Newton-CG",
    "trust-ncg",
    "trust-krylov",
    "trust-exact",
    "dogleg",
    "Nelder-Mead",
    "Powell",
    "CG",
    "TNC",
    "COBYLA",
    "COBYQA",
    "SLSQP",
    "trust-constr",
)
for method in MINIMA:
    TABLE[f"minimize {method}"] = {
        NO_ANSWER: lambda m=method: optimize.minimize(
            lambda x: x.sum(), t(1.0, 2.0), method=m, options={"maxiter": 30}
        ),
        SINGULAR: lambda m=method: back(
            optimize.minimize(lambda x, a=TWO: (x.sum() - a) ** 2, t(0.9, 1.2), method=m).x
        ),
        NOT_A_NUMBER: lambda m=method: optimize.minimize(
            lambda x: nan(x).sum(), t(1.0, 2.0), method=m, options={"maxiter": 30}
        ),
        "not a number on the way": lambda m=method: optimize.minimize(
            lambda x: ad.sqrt(x - 0.5).sum(), t(1.0, 2.0), method=m, options={"maxiter": 30}
        ),
    }
for method in ("brent", "golden", "bounded"):
    limits: dict[str, Any] = (
        {"bounds": (1.0, 2.0)} if method == "bounded" else {"bracket": (0.0, 1.0)}
    )
    TABLE[f"minimize_scalar {method}"] = {
        NOT_A_NUMBER: lambda m=method, b=limits: optimize.minimize_scalar(nan, method=m, **b),
    }
    if method != "bounded":
        TABLE[f"minimize_scalar {method}"][NO_ANSWER] = lambda m=method, b=limits: (
            optimize.minimize_scalar(lambda x: -x, method=m, **b)
        )
for method in ("trf", "dogbox", "lm"):
    TABLE[f"least_squares {method}"] = {
        NO_ANSWER: lambda m=method: optimize.least_squares(
            lambda x: ad.exp(-x), t(1.0), method=m, max_nfev=3
        ),
        SINGULAR: lambda m=method: back(
            optimize.least_squares(
                lambda x, a=TWO: ad.stack([x.sum() - a, 2 * x.sum() - a]), t(0.9, 1.2), method=m
            ).x
        ),
        NOT_A_NUMBER: lambda m=method: optimize.least_squares(nan, t(1.0, 2.0), method=m),
        "not a number on the way": lambda m=method: optimize.least_squares(
            later, t(0.6, 0.7), method=m
        ),
    }
TIMES = ad.linspace(0, 2, 5, dtype=ad.float64)
TABLE["curve_fit"] = {
    NO_ANSWER: lambda: optimize.curve_fit(
        lambda x, a: ad.exp(-a * x), TIMES, 0 * TIMES, maxfev=3, method="lm"
    ),
    SINGULAR: lambda: back(
        optimize.curve_fit(lambda x, a, b: (a + b) * x, TIMES, one() * TIMES)[0]
    ),
    NOT_A_NUMBER: lambda: optimize.curve_fit(lambda x, a: a * x * NAN, TIMES, TIMES),
    "not a number in the data": lambda: optimize.curve_fit(lambda x, a: a * x, TIMES, TIMES * NAN),
}
TABLE["nnls"] = {
    SINGULAR: lambda: back(optimize.nnls(LINEAR, one() * t(1.0, 2.0))[0]),
    NOT_A_NUMBER: lambda: optimize.nnls(LINEAR * NAN, t(1.0, 2.0)),
}
TABLE["lsq_linear"] = {
    SINGULAR: lambda: back(optimize.lsq_linear(LINEAR, one() * t(1.0, 2.0), bounds=(-9.0, 9.0)).x),
    NOT_A_NUMBER: lambda: optimize.lsq_linear(LINEAR * NAN, t(1.0, 2.0)),
}


def wrapped(answer: float, equation: Call) -> Any:
    return optimize.implicit(equation)(lambda a: ad.tensor(answer, dtype=ad.float64))(one())


TABLE["implicit"] = {
    NO_ANSWER: lambda: wrapped(5.0, lambda x, a: x * x - a),
    SINGULAR: lambda: back(
        optimize.implicit(lambda x, a: (x - a) ** 2)(lambda a: a.detach().clone())(one())
    ),
    NOT_A_NUMBER: lambda: wrapped(NAN, lambda x, a: x * x - a),
    "not a number on the way": lambda: wrapped(2.0, lambda x, a: (x - a) * NAN),
}

TABLE = FAILURES["integrate"]
for method in ("RK45", "RK23", "DOP853", "Radau", "BDF", "Rodas5P", "Rodas3"):
    TABLE[f"solve_ivp {method}"] = {
        NO_ANSWER: lambda m=method: integrate.solve_ivp(lambda t, y: y * y, (0, 3), [1.0], m),
        NOT_A_NUMBER: lambda m=method: integrate.solve_ivp(nan_slope, (0, 1), [1.0], m),
        "not a number on the way": lambda m=method: integrate.solve_ivp(
            lambda t, y: -ad.sqrt(y), (0, 5), [1.0], m
        ),
        "not a number at the start": lambda m=method: integrate.solve_ivp(
            lambda t, y: -y, (0, 1), [NAN], m
        ),
        NEVER: lambda m=method: integrate.solve_ivp(
            lambda t, y: -y, (0, 1), [1.0], m, events=lambda t, y: y[0] + 1
        ).event(0),
    }
for method in ("Rodas5P", "Rodas3", "Radau", "BDF"):
    TABLE[f"solve_ivp {method} mass"] = {
        "not a start": lambda m=method: integrate.solve_ivp(
            lambda t, y: ad.stack([y[1], y[1] - y[0]]),
            (0, 1),
            [1.0, 0.0],
            m,
            mass=ad.tensor([[1.0, 0.0], [0.0, 0.0]]).double(),
        ),
    }


def nan_slope(t: Any, y: Any) -> Any:
    return y * NAN


TABLE["odeint"] = {
    NO_ANSWER: lambda: integrate.odeint(lambda y, t: y * y, [1.0], [0.0, 3.0]),
    NOT_A_NUMBER: lambda: integrate.odeint(lambda y, t: nan(y), [1.0], [0.0, 1.0]),
}
TABLE["quad"] = {
    NO_ANSWER: lambda: integrate.quad(lambda x: 1 / x, 0.0, 1.0),
    NOT_A_NUMBER: lambda: integrate.quad(nan, 0.0, 1.0),
    "not a number on the way": lambda: integrate.quad(lambda x: ad.sqrt(x - 0.5), 0.0, 1.0),
    "infinite": lambda: integrate.quad(lambda x: ad.exp(x), 0.0, float("inf")),
}
MESH = ad.linspace(0, 1, 11, dtype=ad.float64)
FLAT = ad.zeros(2, 11, dtype=ad.float64)


def ends(a: Any, b: Any) -> Any:
    return ad.stack([a[0] - 1, b[0]])


TABLE["solve_bvp"] = {
    NO_ANSWER: lambda: integrate.solve_bvp(
        lambda x, y: ad.stack([y[1], 1e6 * y[0]]), ends, MESH, FLAT, tol=1e-9, max_nodes=20
    ),
    SINGULAR: lambda: integrate.solve_bvp(
        lambda x, y: ad.stack([y[1], 0 * y[0]]), lambda a, b: ad.stack([a[1], b[1]]), MESH, FLAT
    ),
    NOT_A_NUMBER: lambda: integrate.solve_bvp(lambda x, y: nan(y), ends, MESH, FLAT),
    "not a number on the way": lambda: integrate.solve_bvp(
        lambda x, y: ad.stack([y[1], ad.sqrt(y[0] - 0.5)]), ends, MESH, FLAT + 1
    ),
    "not a number at the ends": lambda: integrate.solve_bvp(
        lambda x, y: ad.stack([y[1], -y[0]]), lambda a, b: nan(ends(a, b)), MESH, FLAT
    ),
}
for name in ("solve_sde", "sdeint"):
    for method in ("euler", "milstein", "heun"):

        def walk(drift: Any, noise: Any, m: str = method, name: str = name) -> Any:
            if name == "sdeint":
                return integrate.sdeint(drift, noise, [1.0], [0.0, 1.0], method=m, steps=50, seed=1)
            return integrate.solve_sde(drift, noise, (0, 1), [1.0], m, steps=50, seed=1)

        TABLE[f"{name} {method}"] = {
            NO_ANSWER: lambda w=walk: w(lambda t, y: 50 * y**3, lambda t, y: 0.1 * y),
            NOT_A_NUMBER: lambda w=walk: w(nan_slope, lambda t, y: y),
            "not a number in the noise": lambda w=walk: w(lambda t, y: -y, nan_slope),
        }

TABLE = FAILURES["sparse.linalg"]
for name in ("spsolve", "splu", "factorized"):

    def direct(a: Any, name: str = name) -> Any:
        b = ad.ones(a.shape[0], dtype=ad.float64)
        if name == "spsolve":
            return sparse.spsolve(a, b)
        return sparse.splu(a).solve(b) if name == "splu" else sparse.factorized(a)(b)

    TABLE[name] = {
        SINGULAR: lambda d=direct: d(FULL),
        "singular band": lambda d=direct: d(HALF),
        NOT_A_NUMBER: lambda d=direct: d(BAD),
    }
for name in ("cg", "minres", "gmres", "bicgstab"):
    method = getattr(sparse, name)
    TABLE[name] = {
        NO_ANSWER: lambda m=method: m(
            HARD, FIVE, maxiter=1, **({"restart": 2} if m is sparse.gmres else {})
        ),
        SINGULAR: lambda m=method: m(HALF, THREE),
        NOT_A_NUMBER: lambda m=method: m(BAD, THREE),
        "not a number at the right": lambda m=method: m(HARD, FIVE * NAN),
    }
TABLE["lsqr"] = {
    NO_ANSWER: lambda: sparse.lsqr(HARD, FIVE, iter_lim=1),
    NOT_A_NUMBER: lambda: sparse.lsqr(BAD, THREE),
}
EYE = ad.sparse.eye_array(8, dtype=ad.float64)
CHAIN = ad.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(60, 60))
NANS = ad.sparse.matrix(ad.full((8, 8), NAN, dtype=ad.float64))
for name in ("eigsh", "eigs", "svds"):
    method = getattr(sparse, name)
    TABLE[name] = {
        NO_ANSWER: lambda m=method: m(CHAIN, 3, maxiter=1),
        SINGULAR: lambda m=method, k=2 if name == "svds" else 1: back(m(EYE * one(), 2)[k].real[0]),
        NOT_A_NUMBER: lambda m=method: m(NANS, 2),
    }
GUESS = ad.sin(ad.arange(60, dtype=ad.float64) ** 2)[:, None]
TABLE["lobpcg"] = {
    NO_ANSWER: lambda: sparse.lobpcg(CHAIN, GUESS, maxiter=1, largest=False),
    NOT_A_NUMBER: lambda: sparse.lobpcg(NANS, GUESS[:8]),
}
TABLE["expm_multiply"] = {
    NOT_A_NUMBER: lambda: sparse.expm_multiply(NANS, ad.ones(8, dtype=ad.float64))
}


def operator(product: Any) -> Any:
    return sparse.LinearOperator((3, 3), matvec=product, dtype=ad.float64)


TABLE["LinearOperator"] = {
    SINGULAR: lambda: sparse.gmres(operator(lambda v: v * t(1.0, 0.0, 1.0)), THREE),
    NOT_A_NUMBER: lambda: sparse.gmres(operator(nan), THREE),
}
TABLE["aslinearoperator"] = {
    SINGULAR: lambda: sparse.gmres(sparse.aslinearoperator(HALF), THREE),
    NOT_A_NUMBER: lambda: sparse.gmres(sparse.aslinearoperator(BAD), THREE),
}

# --- factors: PyTorch's words ---------------------------------------------------------------------
TABLE = FAILURES["linalg"]
for name in (
    "solve",
    "inv",
    "tensorsolve",
    "tensorinv",
    "solve_banded",
    "solveh_banded",
):
    TABLE[name] = {}
TABLE["solve"][SINGULAR] = lambda: linalg.solve(LINEAR, t(1.0, 2.0))
TABLE["inv"][SINGULAR] = lambda: linalg.inv(LINEAR)
TABLE["tensorsolve"][SINGULAR] = lambda: linalg.tensorsolve(LINEAR, t(1.0, 2.0))
TABLE["tensorinv"][SINGULAR] = lambda: linalg.tensorinv(LINEAR, ind=1)
TABLE["solve_banded"][SINGULAR] = lambda: linalg.solve_banded((0, 0), t([1.0, 0.0]), t(1.0, 2.0))
TABLE["solve_banded"][NOT_A_NUMBER] = lambda: linalg.solve_banded(
    (0, 0), t([1.0, NAN]), t(1.0, 2.0)
)
TABLE["solveh_banded"][SINGULAR] = lambda: linalg.solveh_banded(t([1.0, 0.0]), t(1.0, 2.0))
TABLE["cholesky"] = {SINGULAR: lambda: linalg.cholesky(LINEAR - 1)}
TABLE["eigh"] = {
    SINGULAR: lambda: back(linalg.eigh(ad.eye(2, dtype=ad.float64, requires_grad=True))[1][0]),
    NOT_A_NUMBER: lambda: linalg.eigh(LINEAR * NAN),
}
TABLE["svd"] = {
    SINGULAR: lambda: back(linalg.svd(ad.eye(2, dtype=ad.float64, requires_grad=True))[0][0]),
    NOT_A_NUMBER: lambda: linalg.svd(LINEAR * NAN),
}

TABLE = FAILURES["interpolate"]
BACK = t(0.0, 2.0, 1.0)
for kind in (interpolate.CubicSpline, interpolate.PchipInterpolator, interpolate.interp1d):
    TABLE[kind.__name__] = {
        SINGULAR: lambda k=kind: k(t(0.0, 1.0, 1.0), BACK),
        NO_ANSWER: lambda k=kind: k(BACK, BACK),
        NOT_A_NUMBER: lambda k=kind: k(t(0.0, NAN, 2.0), BACK),
    }
TABLE["interp"] = {
    NO_ANSWER: lambda: interpolate.interp(0.5, BACK, BACK),
    NOT_A_NUMBER: lambda: interpolate.interp(0.5, t(0.0, NAN, 2.0), BACK),
}
TABLE["RegularGridInterpolator"] = {
    NO_ANSWER: lambda: interpolate.RegularGridInterpolator((BACK,), BACK),
    NOT_A_NUMBER: lambda: interpolate.RegularGridInterpolator((t(0.0, NAN, 2.0),), BACK),
    "beyond": lambda: interpolate.RegularGridInterpolator((t(0.0, 1.0, 2.0),), BACK)(t([3.0])),
}
TABLE["interpn"] = {NO_ANSWER: lambda: interpolate.interpn((BACK,), BACK, t([0.5]))}

TABLE = FAILURES["signal"]
TABLE["lfilter"] = {SINGULAR: lambda: signal.lfilter([1.0], [0.0, 1.0], THREE)}
TABLE["lfilter_zi"] = {SINGULAR: lambda: signal.lfilter_zi(t(1.0, 1.0), t(1.0, -1.0))}
TABLE["filtfilt"] = {SINGULAR: lambda: signal.filtfilt(t(1.0, 1.0), t(1.0, -1.0), FIVE, padlen=1)}
TABLE["sosfilt_zi"] = {SINGULAR: lambda: signal.sosfilt_zi(t([1.0, 1.0, 0.0, 1.0, -1.0, 0.0]))}
