"""Every public solver as a function of a vector of two numbers: what `test_every_solver.py` runs.

A line says how the solver is called, how with a structure of tensors (or with what words it refuses
one), and what it refuses besides. A solver that is added needs a line here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import integrate, interpolate, linalg, optimize, signal

DOUBLE = {"dtype": ad.float64}
sparse = ad.sparse.linalg


@dataclasses.dataclass
class Solver:
    """A solver, called.

    Attributes
    ----------
    of
        Its answer for a vector of two numbers.
    structured
        The same answer with structures of tensors for unknowns or states. Or a pair, a call with a
        structure and the words that refuse it.
    refused
        By kind of use, the words that refuse it: "vmap", "compile", "scan", "jvp", "second".
    close
        How far samples of a `vmap` may be from single calls, relative to their size.
    rounding
        How far programs and steps of loops may be from eager calls; zero: the same bits.
    """

    of: Callable[[Any], Any]
    structured: Any
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    close: float = 1e-12
    rounding: float = 0.0


def vector(*values: float) -> Any:
    return ad.tensor(values, **DOUBLE)


def one(a: Any) -> Any:
    return {"p": a[:1], "q": a[1]}


def row(s: Any) -> Any:
    return ad.cat([s["p"], s["q"][None]])


def refusing(call: Callable[[Any], Any], words: str) -> tuple[Callable[[Any], Any], str]:
    return lambda a: call({"p": a}), words


START, TREE = vector(1.0, 1.0), {"p": vector(1.0), "q": ad.tensor(1.0, **DOUBLE)}
PLACES = ad.linspace(0, 1, 7, **DOUBLE)
LONG = ad.sin(ad.arange(12, **DOUBLE)) + 2


# -- optimize --------------------------------------------------------------------------------------


def cubic(x: Any, a: Any) -> Any:
    return x**3 + x + 0.2 * x.sum() - a


def valley(x: Any, a: Any) -> Any:
    return ((x - a) ** 4).sum() + (x * x).sum() + x[0] * x[1]


def decay(p: Any, a: Any) -> Any:
    return p[0] * ad.exp(-p[1] * PLACES) - a[0] * ad.exp(-a[1] * PLACES * PLACES)


@optimize.implicit(lambda x, a: cubic(x, a))
def by_hand(a: Any) -> Any:
    x = 0 * a
    for _ in range(20):
        x = x - ad.linalg.solve(ad.diag(3 * x * x + 1) + 0.2, cubic(x, a))
    return x


@optimize.implicit(lambda x, a: one(cubic(row(x), a)))
def by_hand_of_trees(a: Any) -> Any:
    return one(by_hand(a.detach()))


def of_matrix(a: Any) -> Any:
    return ad.stack([PLACES * a[0] + 1, PLACES**2 + 0.1 * a[1]], 1)


OPTIMIZE = {
    "root": Solver(
        lambda a: optimize.root(cubic, START, a).x,
        lambda a: row(optimize.root(lambda x: one(cubic(row(x), a)), TREE).x),
    ),
    "fixed_point": Solver(
        lambda a: optimize.fixed_point(lambda x: ad.cos(x) * a / 2, START),
        lambda a: row(
            optimize.fixed_point(lambda x: one(ad.cos(row(x)) * a / 2), TREE),
        ),
    ),
    "minimize": Solver(
        lambda a: optimize.minimize(valley, START, a).x,
        lambda a: row(optimize.minimize(lambda x: valley(row(x), a), TREE).x),
        close=1e-9,
    ),
    "least_squares": Solver(
        lambda a: optimize.least_squares(decay, START, args=(a,)).x,
        lambda a: row(optimize.least_squares(lambda p: decay(row(p), a), TREE).x),
        close=1e-9,
        rounding=1e-11,
    ),
    "curve_fit": Solver(
        lambda a: optimize.curve_fit(
            lambda x, p, q: p * ad.exp(-q * x),
            PLACES,
            a[0] * ad.exp(-a[1] * PLACES * PLACES),
            [1.0, 0.3],
        )[0],
        refusing(lambda s: optimize.curve_fit(lambda x, p: p * x, PLACES, PLACES, s), "got dict"),
        close=1e-9,
        rounding=1e-11,
    ),
    "root_scalar": Solver(
        lambda a: optimize.root_scalar(lambda x: x**3 + a[0] * x - a[1], bracket=(0, 3)).root,
        refusing(lambda s: optimize.root_scalar(lambda x: x, x0=s), "got dict"),
    ),
    "fsolve": Solver(
        lambda a: optimize.fsolve(cubic, START, a),
        refusing(lambda s: optimize.fsolve(lambda x: x, s), "got dict"),
    ),
    "newton": Solver(
        lambda a: optimize.newton(lambda x: x**3 + a[0] * x - a[1], 1.0),
        refusing(lambda s: optimize.newton(lambda x: x, s), "got dict"),
    ),
    "newton, several": Solver(
        lambda a: optimize.newton(lambda x: x**3 + a[0] * x - a, START),
        refusing(lambda s: optimize.newton(lambda x: x, s), "got dict"),
    ),
    **{
        name: Solver(
            lambda a, name=name: getattr(optimize, name)(
                lambda x: x**3 + a[0] * x - a[1], 0.0, 3.0
            ),
            refusing(lambda s, name=name: getattr(optimize, name)(ad.sin, s, 1.0), "got dict"),
        )
        for name in ("bisect", "brentq", "brenth", "ridder", "toms748")
    },
    "minimize_scalar": Solver(
        lambda a: optimize.minimize_scalar(lambda x: (x - a[0]) ** 2 + a[1] * x**4).x,
        refusing(lambda s: optimize.minimize_scalar(lambda x: x * x, bracket=s), "got dict"),
        close=1e-9,
    ),
    "nnls": Solver(
        lambda a: optimize.nnls(of_matrix(a), ad.cos(PLACES))[0],
        refusing(lambda s: optimize.nnls(s, PLACES), "got dict"),
    ),
    "lsq_linear": Solver(
        lambda a: optimize.lsq_linear(of_matrix(a), ad.cos(PLACES), (0.0, 0.8)).x,
        refusing(lambda s: optimize.lsq_linear(s, PLACES), "got dict"),
    ),
    "implicit": Solver(by_hand, lambda a: row(by_hand_of_trees(a))),
}


# -- integrate -------------------------------------------------------------------------------------

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def turning(t: Any, y: Any, a: Any) -> Any:
    return ad.stack([y[1], -a[0] * y[0] - 0.1 * a[1] * y[1]])


def of_turning(**options: Any) -> Callable[[Any], Any]:
    return lambda a: (
        integrate.solve_ivp(
            turning, (0, 1.5), START, t_eval=[0.5, 1.5], args=(a,), **{**EXACT, **options}
        ).y
    )


def tree_of_turning(a: Any) -> Any:
    found = integrate.solve_ivp(
        lambda t, y: one(turning(t, row(y), a)), (0, 1.5), TREE, t_eval=[0.5, 1.5], **EXACT
    ).y
    return ad.cat([found["p"], found["q"][None]])


def passes(t: Any, y: Any, *rest: Any) -> Any:
    return y[0] - 1.2


def turns(t: Any, y: Any, *rest: Any) -> Any:
    return y[1]


turns.terminal = True  # type: ignore[attr-defined]


def of_passing(a: Any) -> Any:
    found = integrate.solve_ivp(
        turning, (0, 4.0), START, events=[turns, passes], max_events=1, args=(a,), **EXACT
    )
    return ad.cat([*found.y_events[0], *found.y_events[1]])


def tree_of_passing(a: Any) -> Any:
    def event(f: Any) -> Any:
        def of_tree(t: Any, s: Any) -> Any:
            return f(t, row(s))

        of_tree.terminal = getattr(f, "terminal", False)  # type: ignore[attr-defined]
        return of_tree

    found = integrate.solve_ivp(
        lambda t, y: one(turning(t, row(y), a)),
        (0, 4.0),
        TREE,
        events=[event(turns), event(passes)],
        max_events=1,
        **EXACT,
    )
    return ad.cat([row(s) for states in found.y_events for s in states])


def tree_of_dense(a: Any) -> Any:
    found = integrate.solve_ivp(
        lambda t, y: one(turning(t, row(y), a)), (0, 1.5), TREE, dense_output=True, **EXACT
    ).sol([0.4, 1.5])
    return ad.cat([found["p"], found["q"][None]])


def bending(x: Any, y: Any, a: Any) -> Any:
    return ad.stack([y[1], a[0] * y[0] + 0.2 * y[0] ** 3])


def of_bending(a: Any, **options: Any) -> Any:
    mesh = ad.linspace(0, 1, 9, **DOUBLE)
    return integrate.solve_bvp(
        lambda x, y: bending(x, y, a),
        lambda left, right: ad.stack([left[0] - 1, right[0] - a[1]]),
        mesh,
        ad.zeros(2, 9, **DOUBLE),
        tol=1e-3,
        **options,
    ).sol(PLACES)


def tree_of_bending(a: Any) -> Any:
    mesh = ad.linspace(0, 1, 9, **DOUBLE)

    def slope(x: Any, s: Any) -> Any:
        made = bending(x, [s["u"], s["v"]], a)
        return {"u": made[0], "v": made[1]}

    found = integrate.solve_bvp(
        slope,
        lambda left, right: ad.stack([left["u"] - 1, right["u"] - a[1]]),
        mesh,
        {"u": ad.zeros(9, **DOUBLE), "v": ad.zeros(9, **DOUBLE)},
        tol=1e-3,
    ).sol(PLACES)
    return ad.stack([found["u"], found["v"]])


def of_noise(solve: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda a: solve(lambda t, y: a * y, lambda t, y: 0.3 * y, START)


def by_sde(drift: Any, noise: Any, y: Any) -> Any:
    return integrate.solve_sde(drift, noise, (0, 1), y, "milstein", steps=8, seed=3).y


INTEGRATE = {
    "solve_ivp": Solver(of_turning(), tree_of_turning, close=1e-8, rounding=1e-13),
    "solve_ivp, events": Solver(of_passing, tree_of_passing, close=1e-7),
    "solve_ivp, dense output": Solver(
        lambda a: integrate.solve_ivp(
            turning, (0, 1.5), START, dense_output=True, args=(a,), **EXACT
        ).sol([0.4, 1.5]),
        tree_of_dense,
        close=1e-7,
        rounding=1e-13,
    ),
    "odeint": Solver(
        lambda a: integrate.odeint(lambda y, t, a: turning(t, y, a), START, [0.0, 0.5, 1.5], a),
        lambda a: integrate.odeint(
            lambda y, t: {"p": turning(t, y["p"], a)}, {"p": START}, [0.0, 0.5, 1.5]
        )["p"],
        close=1e-6,
        rounding=1e-13,
    ),
    "solve_bvp": Solver(
        of_bending,
        tree_of_bending,
        dict.fromkeys(("compile", "scan"), r"how many nodes solve_bvp\(\) adds depends on values"),
        close=1e-3,
    ),
    "solve_bvp, max_nodes": Solver(
        lambda a: of_bending(a, max_nodes=9), tree_of_bending, close=1e-11
    ),
    "solve_sde": Solver(
        of_noise(by_sde),
        lambda a: of_noise(
            lambda drift, noise, y: by_sde(
                lambda t, s: {"p": drift(t, s["p"])}, lambda t, s: {"p": noise(t, s["p"])}, {"p": y}
            )["p"]
        )(a),
    ),
    "sdeint": Solver(
        lambda a: integrate.sdeint(
            lambda t, y: a * y, lambda t, y: 0.3 * y, START, [0.0, 0.5, 1.0], seed=3
        ),
        lambda a: integrate.sdeint(
            lambda t, y: {"p": a * y["p"]},
            lambda t, y: {"p": 0.3 * y["p"]},
            {"p": START},
            [0.0, 0.5, 1.0],
            seed=3,
        )["p"],
    ),
    "quad": Solver(
        lambda a: integrate.quad(lambda x: ad.exp(-a[0] * x) * ad.cos(x), 0, a[1])[0],
        refusing(lambda s: integrate.quad(lambda x: s, 0, 1), "got dict"),
    ),
    "trapezoid": Solver(
        lambda a: integrate.trapezoid(ad.exp(a[0] * PLACES), a[1] * PLACES),
        refusing(integrate.trapezoid, "got dict"),
    ),
    "simpson": Solver(
        lambda a: integrate.simpson(ad.exp(a[0] * PLACES), x=a[1] * PLACES),
        refusing(integrate.simpson, "got dict"),
    ),
    "cumulative_trapezoid": Solver(
        lambda a: integrate.cumulative_trapezoid(ad.exp(a[0] * PLACES), a[1] * PLACES),
        refusing(integrate.cumulative_trapezoid, "got dict"),
    ),
    "cumulative_simpson": Solver(
        lambda a: integrate.cumulative_simpson(ad.exp(a[0] * PLACES), x=a[1] * PLACES),
        refusing(integrate.cumulative_simpson, "got dict"),
    ),
}


# -- linear algebra --------------------------------------------------------------------------------

WIDTH = 5


def diagonals(a: Any) -> Any:
    side = ad.ones(WIDTH, **DOUBLE)
    return ad.stack([-a[0] * side, (4 + a[1]) * side, -a[0] * side])


def dense(a: Any) -> Any:
    near = ad.ones(WIDTH - 1, **DOUBLE)
    middle = ad.arange(4, 4 + WIDTH, **DOUBLE)
    return ad.diag(middle + a[1]) - a[0] * (ad.diag(near, 1) + ad.diag(near, -1))


def tall(a: Any) -> Any:
    return ad.cat([dense(a), a[0] * ad.ones(2, WIDTH, **DOUBLE)])


RIGHT = ad.cos(ad.arange(WIDTH, **DOUBLE))
PATTERN = ad.sparse.diags_array(
    [
        -ad.ones(WIDTH - 1, **DOUBLE),
        ad.arange(4, 4 + WIDTH, **DOUBLE),
        -ad.ones(WIDTH - 1, **DOUBLE),
    ],
    offsets=[-1, 0, 1],
)


def scattered(a: Any) -> Any:
    return PATTERN * a[0] + ad.sparse.eye_array(WIDTH, **DOUBLE) * a[1]


def by_matrix(solve: Callable[[Any], Any], **options: Any) -> Solver:
    words = "must be Tensor|not dict|got .dict"
    return Solver(lambda a: solve(dense(a)), refusing(solve, words), **options)


def by_sparse(solve: Callable[[Any], Any], words: str = "got dict", **options: Any) -> Solver:
    return Solver(lambda a: solve(scattered(a)), refusing(solve, words), **options)


LINALG = {
    "solve_banded": Solver(
        lambda a: linalg.solve_banded((1, 1), diagonals(a), RIGHT),
        refusing(lambda s: linalg.solve_banded((1, 1), s, RIGHT), "got dict"),
    ),
    "solveh_banded": Solver(
        lambda a: linalg.solveh_banded(diagonals(a)[:2], RIGHT),
        refusing(lambda s: linalg.solveh_banded(s, RIGHT), "got dict"),
    ),
    "solve": by_matrix(lambda m: linalg.solve(m, RIGHT)),
    "solve_ex": by_matrix(lambda m: linalg.solve_ex(m, RIGHT)[0]),
    "solve_triangular": by_matrix(lambda m: linalg.solve_triangular(m, RIGHT[:, None], upper=True)),
    "lstsq": Solver(
        lambda a: linalg.lstsq(tall(a), LONG[: WIDTH + 2, None]).solution,
        refusing(lambda s: linalg.lstsq(s, LONG), "must be Tensor|not dict|got .dict"),
    ),
    "lu_solve": by_matrix(
        lambda m: (
            linalg.lu_solve(*linalg.lu_factor(m), RIGHT[:, None])
            if not isinstance(m, dict)
            else linalg.lu_solve(m, m, RIGHT)
        )
    ),
    "tensorsolve": by_matrix(lambda m: linalg.tensorsolve(m, RIGHT)),
    "inv": by_matrix(linalg.inv),
    "inv_ex": by_matrix(lambda m: linalg.inv_ex(m)[0]),
    "pinv": by_matrix(linalg.pinv),
    "tensorinv": by_matrix(lambda m: linalg.tensorinv(m, ind=1)),
    "eigh": by_matrix(lambda m: linalg.eigh(m)[0]),
    "eigvalsh": by_matrix(linalg.eigvalsh),
    "svdvals": by_matrix(linalg.svdvals, rounding=1e-13),
    "cholesky": by_matrix(linalg.cholesky),
    "cholesky_ex": by_matrix(lambda m: linalg.cholesky_ex(m)[0]),
    "matrix_exp": by_matrix(linalg.matrix_exp),
}

COLUMN = ad.eye(WIDTH, 1, **DOUBLE)

TO_SCIPY = dict.fromkeys(("compile", "scan"), "the values of a tensor go to NumPy")
BY_NORM = dict.fromkeys(("compile", "scan"), "a tensor is made into a number")

SPARSE = {
    "spsolve": by_sparse(lambda m: sparse.spsolve(m, RIGHT)),
    "splu": by_sparse(lambda m: sparse.splu(m).solve(RIGHT)),
    "factorized": by_sparse(lambda m: sparse.factorized(m)(RIGHT)),
    "cg": by_sparse(lambda m: sparse.cg(m, RIGHT, rtol=1e-13)[0]),
    "minres": by_sparse(lambda m: sparse.minres(m, RIGHT, rtol=1e-13)[0]),
    "gmres": by_sparse(lambda m: sparse.gmres(m, RIGHT, rtol=1e-13)[0]),
    "bicgstab": by_sparse(lambda m: sparse.bicgstab(m, RIGHT, rtol=1e-13)[0]),
    "lsqr": by_sparse(lambda m: sparse.lsqr(m, RIGHT, atol=1e-14, btol=1e-14)[0], rounding=1e-13),
    "eigsh": by_sparse(lambda m: sparse.eigsh(m, k=2)[0], rounding=1e-13),
    "eigs": by_sparse(lambda m: ad.real(sparse.eigs(m, k=2)[0]), rounding=1e-13),
    "lobpcg": by_sparse(lambda m: sparse.lobpcg(m, COLUMN)[0], refused=TO_SCIPY),
    "svds": by_sparse(lambda m: sparse.svds(m, k=2)[1], rounding=1e-13),
    "expm_multiply": by_sparse(lambda m: sparse.expm_multiply(m, RIGHT), refused=BY_NORM),
}


# -- interpolate -----------------------------------------------------------------------------------

NODES = vector(0.0, 0.3, 0.7, 1.0)


def heights(a: Any) -> Any:
    return ad.sin(3 * NODES * a[0]) + a[1] * NODES


def on_grid(a: Any) -> Any:
    return heights(a)[:, None] * ad.cos(NODES)


SPOTS = ad.stack([PLACES, PLACES**2], -1)

INTERPOLATE = {
    "CubicSpline": Solver(
        lambda a: interpolate.CubicSpline(NODES, heights(a))(PLACES),
        refusing(lambda s: interpolate.CubicSpline(NODES, s), "got dict"),
    ),
    "PchipInterpolator": Solver(
        lambda a: interpolate.PchipInterpolator(NODES, heights(a))(PLACES),
        refusing(lambda s: interpolate.PchipInterpolator(NODES, s), "got dict"),
    ),
    "interp1d": Solver(
        lambda a: interpolate.interp1d(NODES, heights(a), kind="cubic")(PLACES),
        refusing(lambda s: interpolate.interp1d(NODES, s), "got dict"),
    ),
    "interp": Solver(
        lambda a: interpolate.interp(PLACES * 0.9 + 0.01 * a[0], NODES, heights(a)),
        refusing(lambda s: interpolate.interp(PLACES, NODES, s), "got dict"),
    ),
    "RegularGridInterpolator": Solver(
        lambda a: interpolate.RegularGridInterpolator((NODES, NODES), on_grid(a), "cubic")(SPOTS),
        refusing(
            lambda s: interpolate.RegularGridInterpolator((NODES, NODES), s)(SPOTS), "got dict"
        ),
    ),
    "interpn": Solver(
        lambda a: interpolate.interpn((NODES, NODES), on_grid(a), SPOTS),
        refusing(lambda s: interpolate.interpn((NODES, NODES), s, SPOTS), "got dict"),
    ),
}


# -- signal ----------------------------------------------------------------------------------------


def tones(a: Any) -> Any:
    return ad.sin(a[0] * ad.arange(32, **DOUBLE)) + a[1]


def sections(a: Any) -> Any:
    return ad.cat([a, a[:1], vector(1.0), 0.2 * a])[None]


def taps(a: Any) -> Any:
    return ad.cat([vector(1.0), 0.3 * a])


def of_tones(f: Callable[[Any], Any]) -> Solver:
    return Solver(lambda a: f(tones(a)), refusing(f, "got dict"))


SIGNAL = {
    "convolve": of_tones(lambda x: signal.convolve(x, LONG)),
    "fftconvolve": of_tones(lambda x: signal.fftconvolve(x, LONG)),
    "correlate": of_tones(lambda x: signal.correlate(x, LONG)),
    "lfilter": Solver(
        lambda a: signal.lfilter(a, taps(a), LONG),
        refusing(lambda s: signal.lfilter([1.0], [1.0], s), "got dict"),
    ),
    "lfilter_zi": Solver(
        lambda a: signal.lfilter_zi(ad.cat([a, a[:1]]), taps(a)),
        refusing(lambda s: signal.lfilter_zi(s, [1.0]), "got dict"),
    ),
    "filtfilt": Solver(
        lambda a: signal.filtfilt(a, taps(a), LONG),
        refusing(lambda s: signal.filtfilt([1.0], [1.0], s), "got dict"),
    ),
    "sosfilt": Solver(
        lambda a: signal.sosfilt(sections(a), LONG),
        refusing(lambda s: signal.sosfilt(s, LONG), "got dict"),
    ),
    "sosfilt_zi": Solver(
        lambda a: signal.sosfilt_zi(sections(a)), refusing(signal.sosfilt_zi, "got dict")
    ),
    "sosfiltfilt": Solver(
        lambda a: signal.sosfiltfilt(sections(a), LONG, padlen=6),
        refusing(lambda s: signal.sosfiltfilt(s, LONG), "got dict"),
    ),
    "savgol_filter": of_tones(lambda x: signal.savgol_filter(x, 5, 2)),
    "detrend": of_tones(signal.detrend),
    "hilbert": of_tones(lambda x: ad.view_as_real(signal.hilbert(x))),
    "resample": of_tones(lambda x: signal.resample(x, 20)),
    "stft": of_tones(lambda x: ad.view_as_real(signal.stft(x, nperseg=8)[2])),
    "istft": of_tones(
        lambda x: signal.istft(
            x if isinstance(x, dict) else signal.stft(x, nperseg=8)[2] * x.mean(), nperseg=8
        )[1]
    ),
    "welch": of_tones(lambda x: signal.welch(x, nperseg=8)[1]),
    "periodogram": of_tones(lambda x: signal.periodogram(x)[1]),
}

ROOMS = {
    optimize: OPTIMIZE,
    integrate: INTEGRATE,
    linalg: LINALG,
    sparse: SPARSE,
    interpolate: INTERPOLATE,
    signal: SIGNAL,
}

# Public names that solve nothing, with the reason.
OTHERS = {
    optimize: {
        "ConvergenceError": "an error",
        "OptimizeResult": "a result",
        **dict.fromkeys(("Bounds", "LinearConstraint", "NonlinearConstraint"), "for minimize"),
        "linprog": "refused: test_what_has_no_derivative_is_refused",
        "milp": "refused: test_what_has_no_derivative_is_refused",
    },
    integrate: {"BrownianPath": "a path", "OdeResult": "a result"},
    sparse: {"LinearOperator": "a matrix", "aslinearoperator": "a matrix"},
    interpolate: {},
    signal: {
        "windows": "a module",
        "get_window": "constants",
        "savgol_coeffs": "constants",
    },
}

SOLVERS = {
    f"{room.__name__.removeprefix('adjoint.')}.{name}": solver
    for room, table in ROOMS.items()
    for name, solver in table.items()
}

__all__ = ["OTHERS", "ROOMS", "SOLVERS", "Solver"]
