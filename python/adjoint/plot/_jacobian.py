"""Where a Jacobian has entries, in the colours in which its columns are computed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint._colouring import Pattern

from ._figure import blank, png, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class JacobianPattern:
    """The entries of a Jacobian and the colours of its columns; drawn where a notebook shows it.

    Attributes
    ----------
    rows, columns : numpy.ndarray
        The places of the entries.
    colours : numpy.ndarray
        A number for each column; columns with the same number are computed by one pass. -1: empty.
    count : int
        How many passes all columns take.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.shape = pattern.shape
        self.rows, self.columns = pattern.rows, pattern.columns
        self.colours = np.asarray(pattern.column_colours)
        self.count = int(self.colours.max(initial=-1)) + 1

    def figure(self) -> Figure:
        """A square for each entry, with the colour of its column."""
        from matplotlib import colormaps

        figure = blank(760, 760)
        axes = figure.subplots()
        n_rows, n_columns = self.shape
        of_entries = self.colours[self.columns]
        side = max(1.0, min(30.0, 380.0 / max(n_rows, n_columns, 1)))
        palette = colormaps["turbo"](np.linspace(0.05, 0.95, max(1, self.count)))
        axes.scatter(
            self.columns, self.rows, s=side**2, c=palette[of_entries], marker="s", linewidths=0
        )
        axes.set_xlim(-0.5, n_columns - 0.5)
        axes.set_ylim(n_rows - 0.5, -0.5)
        axes.set_aspect("equal")
        axes.set_xlabel("inputs")
        axes.set_ylabel("outputs")
        entries = len(self.columns)
        axes.set_title(
            f"{n_rows} × {n_columns}, {entries} entries: {self.count} passes instead of {n_columns}"
        )
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: a PNG, or what the name ends in (.svg, .pdf)."""
        write(self.figure(), path)

    def _repr_png_(self) -> bytes:
        return png(self.figure())


def jacobian(J: Any) -> JacobianPattern:
    """Show where a Jacobian has entries, in the colours of its columns.

    Columns that share no row are one colour, and one pass computes them together.

    Parameters
    ----------
    J : matrix
        A SciPy sparse matrix (that of `func.jacobian` or `func.sparsity`), a sparse tensor, or a
        tensor or an array, whose nonzero elements count.

    Returns
    -------
    JacobianPattern
        ``colours`` and their ``count``; ``figure()`` and ``save(path)`` draw them.

    Examples
    --------
    >>> import adjoint as ad
    >>> seen = ad.plot.jacobian(ad.eye(6) + ad.eye(6).roll(1, 0))
    >>> seen.count, seen.shape
    (2, (6, 6))
    """
    if hasattr(J, "is_sparse") and (
        J.is_sparse or str(getattr(J, "layout", "")) != "torch.strided"
    ):
        J = J.to_dense()
    return JacobianPattern(Pattern.of(J, "J"))
