"""Norms of gradients, layer by layer, over the backward passes of a training."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from adjoint.autograd import Variable

from ._figure import blank, png, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from adjoint._core import Tensor
    from adjoint.nn import Module


class GradientNorms:
    """What `gradients` has seen so far; drawn where a notebook shows it.

    Attributes
    ----------
    norms : dict of str to list of float
        By the name of the parameter: the norm of its ``.grad`` after each backward pass; NaN for a
        pass that did not reach it.
    """

    def __init__(self, model: Module) -> None:
        if not hasattr(model, "named_parameters"):
            raise TypeError(f"plot.gradients(): expected a Module, got {type(model).__name__}")
        self.norms: dict[str, list[float]] = {}
        self._passes = 0
        self._in_pass = False
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._noting(name))
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]
        if not self._hooks:
            raise ValueError(
                f"{type(model).__name__} has no parameter that requires a gradient: there is "
                "nothing to plot"
            )

    def _noting(self, name: str) -> Any:
        seen = self.norms.setdefault(name, [])

        def note(parameter: Tensor) -> None:
            if not self._in_pass:
                self._in_pass = True
                Variable._execution_engine.queue_callback(self._end_pass)
            seen.extend([math.nan] * (self._passes - len(seen)))
            assert parameter.grad is not None
            seen.append(float(parameter.grad.detach().norm()))

        return note

    def _end_pass(self) -> None:
        self._passes += 1
        self._in_pass = False

    def stop(self) -> None:
        """Look no longer; what was seen stays."""
        for hook in self._hooks:
            hook.remove()

    def figure(self) -> Figure:
        """A curve for each parameter, on a logarithmic axis; zeros leave gaps."""
        figure = blank(1000, 520)
        axes = figure.subplots()
        axes.set_title("norm of the gradient")
        axes.set_xlabel("backward pass")
        axes.set_yscale("log", nonpositive="mask")
        axes.grid(color="0.9")
        from matplotlib import colormaps

        many = max(1, len(self.norms) - 1)
        for place, (name, norms) in enumerate(self.norms.items()):
            colour = colormaps["viridis"](0.95 * place / many)  # from the first layer to the last
            steps = range(1, len(norms) + 1)
            axes.plot(steps, norms, ".-", color=colour, label=name, linewidth=1.2, markersize=4)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small", frameon=False)
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: a PNG, or what the name ends in (.svg, .pdf)."""
        write(self.figure(), path)

    def _repr_png_(self) -> bytes:
        return png(self.figure())


def gradients(model: Module) -> GradientNorms:
    """Watch the gradients of a model: the norm of each, after each backward pass.

    Parameters
    ----------
    model : nn.Module
        Its parameters that require gradients are watched, until ``stop()``.

    Returns
    -------
    GradientNorms
        ``norms`` has the numbers, ``figure()`` and ``save(path)`` draw them. A layer whose curve
        lies decades below the others learns nothing; one that rises by decades explodes.

    Examples
    --------
    >>> import adjoint as ad
    >>> net = ad.nn.Sequential(ad.nn.Linear(2, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))
    >>> seen = ad.plot.gradients(net)
    >>> for _ in range(3):
    ...     net.zero_grad()
    ...     net(ad.ones(5, 2)).square().mean().backward()
    >>> {name: len(norms) for name, norms in seen.norms.items()}
    {'0.weight': 3, '0.bias': 3, '2.weight': 3, '2.bias': 3}
    """
    return GradientNorms(model)
