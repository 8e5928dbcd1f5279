"""
The shape of a wing
===================

Spline-parametrised geometry: the shape of a wing section from the pressure that it should have.

The outline is a cubic spline through a few control points. Vortices on its panels, of a strength
that is linear along each, carry an ideal flow, and the solution of one linear system gives the
pressure. The control points are moved until the pressure is the wanted one, by gradients through
the spline, the geometry and the solve.

.. code-block:: console

    $ python examples/science/spline_geometry.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad


def outline(controls, panels):
    """Corners of the panels, from the trailing edge below the section round to above it."""
    nodes = ad.linspace(0, 1, len(controls), dtype=ad.float64)
    at = ad.linspace(0, 1, panels + 1, dtype=ad.float64)
    return ad.interpolate.CubicSpline(nodes, controls)(at)


def speeds(corners, angle):
    """Speeds along the panels of a section in a flow of speed 1, by a linear vortex sheet."""
    a, b = corners[:-1], corners[1:]
    middle, along = (a + b) / 2, b - a
    length = along.square().sum(1).sqrt()
    tangent = along / length[:, None]
    normal = ad.stack([-tangent[:, 1], tangent[:, 0]], 1)
    # Middles as seen from each panel: row is the middle, column the panel.
    apart = middle[:, None] - a
    x = (apart * tangent).sum(2)
    y = (apart * normal).sum(2)
    own = ad.eye(len(a), dtype=ad.bool)
    y = ad.where(own, 0.0, y)
    near, far = x * x + y * y, (x - length) ** 2 + y * y
    log = ad.log(far / near) / 2
    turn = ad.where(own, ad.pi, ad.atan2(y * length, y * y + x * (x - length)))
    # Velocities by strengths 1 at the first and at the second corner, in the panel's own axes.
    second = (x * turn + y * log) / length, (x * log + length - y * turn) / length
    first = turn - second[0], log - second[1]
    by_x = ad.stack([first[0], second[0]]) / (2 * ad.pi)
    by_y = ad.stack([first[1], second[1]]) / (2 * ad.pi)
    flow = by_x[..., None] * tangent + by_y[..., None] * normal

    def on(direction):
        """Of all velocities at a middle the part along a direction, by the strengths of corners."""
        part = (flow * direction[:, None]).sum(3)
        none = ad.zeros(len(a), 1, dtype=ad.float64)
        return ad.cat([part[0], none], 1) + ad.cat([none, part[1]], 1)

    wind = ad.stack([ad.cos(angle), ad.sin(angle)])
    kutta = ad.zeros(1, len(a) + 1, dtype=ad.float64)
    kutta[0, 0] = kutta[0, -1] = 1  # the flow leaves smoothly at the trailing edge
    matrix = ad.cat([on(normal), kutta])
    right = -ad.cat([normal @ wind, ad.zeros(1, dtype=ad.float64)])
    strength = ad.linalg.solve(matrix, right)
    return tangent @ wind + on(tangent) @ strength


def pressure(controls, panels, angle):
    return 1 - speeds(outline(controls, panels), angle) ** 2


def section(controls, thickness=0.12, camber=0.0):
    """Control points of a four-digit NACA section, from the trailing edge below it to above."""
    turn = ad.linspace(0, 2, controls, dtype=ad.float64) * ad.pi
    x = (1 + ad.cos(turn)) / 2
    half = (
        5
        * thickness
        * (
            0.2969 * x.clamp(min=0).sqrt()
            - 0.126 * x
            - 0.3516 * x**2
            + 0.2843 * x**3
            - 0.1036 * x**4
        )
    )
    line = camber * 4 * x * (1 - x)
    return ad.stack([x, ad.where(turn <= ad.pi, line - half, line + half)], 1)


def with_heights(start, heights):
    """The control points with other heights, but for those at the trailing edge."""
    inner = ad.stack([start[1:-1, 0], heights], 1)
    return ad.cat([start[:1], inner, start[-1:]])


def design(start, wanted, panels, angle):
    """The control points that give the wanted pressure."""

    def misfit(heights):
        return pressure(with_heights(start, heights), panels, angle) - wanted

    found = ad.optimize.least_squares(misfit, start[1:-1, 1])
    print(f"misfit of the pressure {2 * found.cost / panels:.1e} after {found.nfev} evaluations")
    return with_heights(start, found.x.detach())


def draw(folder, shapes, panels, angle):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(8, 6), layout="constrained")
    for name, controls, style in shapes:
        corners = outline(controls, panels)
        top.plot(*corners.T, style, label=name)
        middle = (corners[1:, 0] + corners[:-1, 0]) / 2
        bottom.plot(middle, -pressure(controls, panels, angle), style, label=name)
    top.plot(*shapes[-1][1].T, "o", color="C0", markersize=5, label="control points")
    top.set(title="the section", aspect="equal", ylim=(-0.09, 0.25))
    bottom.set(title="suction along it", xlabel="along the chord", ylabel="-pressure")
    for ax in (top, bottom):
        ax.legend(loc="upper right", ncols=2)
        ax.grid(alpha=0.3)
    figure.savefig(Path(folder) / "spline_geometry.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--controls", type=int, default=17)
    options.add_argument("--panels", type=int, default=80)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    angle = ad.tensor(0.05, dtype=ad.float64)
    target = section(given.controls, 0.15, 0.04)
    start = section(given.controls, 0.10)
    wanted = pressure(target, given.panels, angle)
    found = design(start, wanted, given.panels, angle)
    print(f"largest error of the shape {(found - target).abs().max():.1e}")
    if given.save:
        shapes = [("start", start, "C3:"), ("wanted", target, "k"), ("found", found, "C0--")]
        draw(given.save, shapes, given.panels, angle)


if __name__ == "__main__":
    main()
