"""
The conductivity of a plate
===========================

An inverse problem: the conductivity of a plate from temperatures, through a SciPy sparse solver.

The heat equation -div(k grad u) = f is solved by SciPy, which autograd cannot see. Its derivative
is written by hand: one more solve with the same matrix (the adjoint equation) gives the gradient by
all cells at once. It plots in the terminal, and with ``--save FOLDER`` into a file (which needs
matplotlib).
"""

import sys

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import splu

import adjoint as ad

# --- the solver, in NumPy and SciPy ---------------------------------------------------------------


def faces(n):
    """The pairs of neighbouring cells of an n by n plate, and its cells along the cold edge."""
    cells = np.arange(n * n).reshape(n, n)
    first = np.concatenate([cells[:-1].ravel(), cells[:, :-1].ravel()])
    second = np.concatenate([cells[1:].ravel(), cells[:, 1:].ravel()])
    edge = np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
    return first, second, edge


def matrix(k):
    n = k.shape[0]
    a, b, edge = faces(n)
    k = k.ravel()
    through = 2 * k[a] * k[b] / (k[a] + k[b])  # two half cells, one after the other
    diagonal = np.bincount(a, through, n * n) + np.bincount(b, through, n * n)
    diagonal += np.bincount(edge, 2 * k[edge], n * n)  # half a cell to the edge, which is at 0
    rows, columns = np.concatenate([a, b]), np.concatenate([b, a])
    off = sparse.csc_matrix((np.tile(-through, 2), (rows, columns)), (n * n, n * n))
    return (off + sparse.diags(diagonal)).tocsc()


def temperatures(k, heat):
    """One temperature field for each field of heat."""
    return splu(matrix(k)).solve(heat.reshape(len(heat), -1).T).T.reshape(heat.shape)


def temperatures_vjp(grad, k, heat, output):
    """A(k) u = f gives dA u + A du = 0, so that g'du = -w'dA u with A w = g (A is symmetric)."""
    n = k.shape[0]
    a, b, edge = faces(n)
    u = output.reshape(len(output), -1)
    w = splu(matrix(k)).solve(grad.reshape(len(grad), -1).T).T
    k = k.ravel()
    by_face = -((w[:, a] - w[:, b]) * (u[:, a] - u[:, b])).sum(0)
    by_cell = np.bincount(a, by_face * 2 * k[b] ** 2 / (k[a] + k[b]) ** 2, n * n)
    by_cell += np.bincount(b, by_face * 2 * k[a] ** 2 / (k[a] + k[b]) ** 2, n * n)
    by_cell -= np.bincount(edge, 2 * (w * u).sum(0)[edge], n * n)
    return by_cell.reshape(n, n), None


solve = ad.external(temperatures, vjp=temperatures_vjp, static="heat")

# --- is the adjoint right? ------------------------------------------------------------------------


def all_adjoint(k, heat):
    """The same temperatures with adjoint's operations alone, by conjugate gradients."""
    n = k.shape[0]
    a, b, edge = (ad.tensor(i) for i in faces(n))
    k = k.reshape(-1)
    through = 2 * k[a] * k[b] / (k[a] + k[b])

    def apply(u):
        flow = through * (u[a] - u[b])
        zero = ad.zeros(n * n, dtype=ad.float64)
        inside = zero.index_add(0, a, flow).index_add(0, b, -flow)
        return inside.index_add(0, edge, 2 * k[edge] * u[edge])

    fields = []
    for f in ad.tensor(heat.reshape(len(heat), -1)):
        u, r = ad.zeros_like(f), f
        p = r
        for _ in range(2 * n * n):
            if (r @ r).item() < 1e-26:
                break
            q = apply(p)
            step = (r @ r) / (p @ q)
            u, new = u + step * p, r - step * q
            p, r = new + (new @ new) / (r @ r) * p, new
        fields.append(u.reshape(n, n))
    return ad.stack(fields)


rng = np.random.default_rng(0)
small = ad.tensor(np.exp(rng.normal(size=(5, 5))), requires_grad=True)
small_heat = rng.random((2, 5, 5))
ours, exact = (
    ad.autograd.grad((run(small, small_heat) ** 2).sum(), small)[0] for run in (solve, all_adjoint)
)
print("gradient is right:", ad.allclose(ours, exact, rtol=1e-8))

# --- a plate with two inclusions, heated in four ways, measured with an error ---------------------

N = 20
y, x = (np.indices((N, N)) + 0.5) / N
truth = 1.0 * np.ones((N, N))
truth += 2.0 * np.exp(-((x - 0.3) ** 2 + (y - 0.35) ** 2) / 0.02)  # conducts well
truth -= 0.7 * np.exp(-((x - 0.7) ** 2 + (y - 0.65) ** 2) / 0.02)  # conducts badly
shapes = [np.ones_like(x), np.sin(np.pi * x) * y, np.cos(np.pi * y) * x, x * y]
heat = np.stack(shapes)
clean = temperatures(truth, heat)
measured = ad.tensor(clean * (1 + 0.001 * rng.normal(size=clean.shape)))
size = float(np.mean(clean**2))


def loss(log_k):
    misfit = ((solve(log_k.exp(), heat) - measured) ** 2).mean() / size
    rough = (log_k[1:] - log_k[:-1]).square().mean() + (
        log_k[:, 1:] - log_k[:, :-1]
    ).square().mean()
    return misfit + 1e-5 * rough


problem = ad.scipy_callback(loss, ad.zeros(N, N, dtype=ad.float64))
history = [problem.fun(problem.x0)]
result = minimize(
    problem.fun,
    problem.x0,
    jac=problem.jac,
    method="L-BFGS-B",
    callback=lambda v: history.append(problem.fun(v)),
    options={"maxiter": 60, "ftol": 1e-12, "gtol": 1e-9},
)
found = problem.unpack(result.x).exp().numpy()

# --- what came out --------------------------------------------------------------------------------


def in_terminal(left, right, names):
    """Two fields side by side, dark where they are small."""
    low, high = min(left.min(), right.min()), max(left.max(), right.max())
    print(f"{names[0]:{2 * N + 4}}{names[1]}")
    for rows in zip(left, right, strict=True):
        shades = [np.clip((row - low) / (high - low) * 9.99, 0, 9).astype(int) for row in rows]
        print("    ".join("".join(2 * " .:-=+*#%@"[s] for s in row) for row in shades))


def into_file(path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
    low, high = truth.min(), truth.max()
    for axis, field, name in ((axes[0, 0], truth, "true"), (axes[0, 1], found, "recovered")):
        image = axis.imshow(field, vmin=low, vmax=high, origin="lower", extent=(0, 1, 0, 1))
        axis.set_title(f"conductivity, {name}")
        figure.colorbar(image, ax=axis)
    image = axes[1, 0].imshow(
        measured[0].numpy(), origin="lower", extent=(0, 1, 0, 1), cmap="inferno"
    )
    axes[1, 0].set_title("measured temperature, first heating")
    figure.colorbar(image, ax=axes[1, 0])
    axes[1, 1].semilogy(history)
    axes[1, 1].set(title="loss", xlabel="iteration of L-BFGS")
    axes[1, 1].grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


in_terminal(truth, found, ("true conductivity", "recovered"))
if "--save" in sys.argv:  # followed by a folder
    into_file(f"{sys.argv[-1]}/conductivity.png")
error = np.linalg.norm(found - truth) / np.linalg.norm(truth - 1)
print(f"{N * N} cells, loss {history[0]:.2g} to {history[-1]:.2g} in {len(history) - 1} iterations")
print(f"error {100 * error:.0f} % of the inclusions")
print("field recovered:", bool(error < 0.25))
