"""A function of tensors for SciPy's solvers, which know vectors only.

The other direction of an external: SciPy calls a function written with adjoint, and gets its exact
derivatives. Read next: ``adjoint.autograd.grad``, which computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._tensor import creation as _creation

from ._arguments import name_of

__all__ = ["ScipyCallback", "scipy_callback"]


class _Vector:
    """A composite as one vector of its floating tensors; everything else in it stays."""

    def __init__(self, tree: Any, what: str) -> None:
        if isinstance(tree, (np.ndarray, np.generic, float)):
            tree = _creation.tensor(np.asarray(tree))
        self.leaves, self.spec = _tree.flatten(tree)
        self.places = [k for k, leaf in enumerate(self.leaves) if _is_variable(leaf)]
        if not self.places:
            raise TypeError(f"{what} holds no floating tensor, of which SciPy could be given one")
        wrong = [k for k in self.places if self.leaves[k].dtype.is_complex]
        if wrong:
            name = _tree.paths(self.spec, what)[wrong[0]]
            raise TypeError(f"{name} is complex; SciPy's solvers take real vectors")
        self.forms = [(self.leaves[k].shape, self.leaves[k].dtype) for k in self.places]
        self.size = sum(self.leaves[k].numel() for k in self.places)

    def split(self, vector: Any) -> list[Tensor]:
        """New tensors with the numbers of a vector."""
        vector = np.asarray(vector, float)
        if vector.size != self.size:
            raise ValueError(f"a vector of {self.size} numbers is needed, got {vector.size}")
        found, at = [], 0
        flat = vector.reshape(-1)
        for shape, dtype in self.forms:
            count = int(np.prod(shape))
            part = _creation.tensor(flat[at : at + count]).to(dtype).reshape(shape)
            found.append(part)
            at += count
        return found

    def rebuild(self, tensors: Sequence[Tensor]) -> Any:
        leaves = list(self.leaves)
        for k, tensor in zip(self.places, tensors, strict=True):
            leaves[k] = tensor
        return _tree.unflatten(self.spec, leaves)


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or bool(leaf.dtype.is_complex))


def _joined(tensors: Sequence[Any], like: Sequence[Tensor]) -> Any:
    """Tensors as one vector of doubles; None as zeros."""
    parts = [
        np.zeros(x.numel()) if t is None else t.numpy(force=True).reshape(-1)
        for t, x in zip(tensors, like, strict=True)
    ]
    return np.concatenate(parts).astype(float, copy=False) if parts else np.zeros(0)


class ScipyCallback:
    """What `scipy_callback` returns; every method takes vectors, as SciPy calls it."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], argnum: int) -> None:
        if not callable(function):
            raise TypeError(f"scipy_callback() needs a function, got {type(function).__name__}")
        if not -len(args) <= argnum < len(args):
            raise ValueError(
                f"argnum={argnum}, but {len(args)} arguments were given after the function"
            )
        self.function = function
        self.args = args
        self.argnum = argnum % len(args)
        self.name = name_of(function)
        self.variable = _Vector(args[self.argnum], f"argument {self.argnum}")
        self.last: Any = None  # the arguments and the graph of the last evaluation

    def __repr__(self) -> str:
        return f"<scipy_callback {self.name}: {self.variable.size} variables>"

    @property
    def x0(self) -> Any:
        """The variable argument as a vector: where a solver starts."""
        return self.pack(self.args[self.argnum])

    def pack(self, tree: Any) -> Any:
        """A composite built like the variable argument, as a vector."""
        other = _Vector(tree, f"argument {self.argnum}")
        if [f[0] for f in other.forms] != [f[0] for f in self.variable.forms]:
            raise ValueError(f"{self.name} was given another composite than it was made with")
        tensors = [other.leaves[k] for k in other.places]
        return _joined(tensors, tensors)

    def unpack(self, vector: Any) -> Any:
        """A vector, such as a solver's result, as a composite like the variable argument."""
        return self.variable.rebuild(self.variable.split(vector))

    # --- what SciPy calls -----------------------------------------------------------------------

    def fun(self, *given: Any) -> Any:
        """The value: a float for a function of one number, else a vector."""
        _, outputs = self._evaluated(given)
        return outputs.item() if outputs.ndim == 0 else outputs.numpy(force=True).astype(float)

    def jac(self, *given: Any) -> Any:
        """The gradient of a function of one number, else the Jacobian matrix."""
        inputs, outputs = self._evaluated(given)
        if outputs.ndim == 0:
            return _joined(_grad(outputs, inputs, None), inputs)
        rows = [_joined(_grad(outputs, inputs, row), inputs) for row in _rows(outputs)]
        return np.stack(rows) if rows else np.zeros((0, self.variable.size))

    def fun_and_jac(self, *given: Any) -> Any:
        """Both, for ``minimize(..., jac=True)``."""
        return self.fun(*given), self.jac(*given)

    def hess(self, *given: Any) -> Any:
        """The Hessian of a function of one number."""
        inputs, slope = self._slope(given, "hess")
        if not slope.requires_grad:
            return np.zeros((self.variable.size,) * 2)
        return np.stack([_joined(_grad(slope, inputs, row), inputs) for row in _rows(slope)])

    def hessp(self, *given: Any) -> Any:
        """The product of the Hessian and a vector, which SciPy gives after the variable."""
        at = self.argnum + 1
        if len(given) <= at:
            raise TypeError(f"hessp() is given a point and a vector; got {len(given)} arguments")
        inputs, slope = self._slope((*given[:at], *given[at + 1 :]), "hessp")
        if not slope.requires_grad:
            return np.zeros(self.variable.size)
        direction = _creation.tensor(np.asarray(given[at], float)).to(slope.dtype)
        return _joined(_grad(slope, inputs, direction), inputs)

    # --- how ------------------------------------------------------------------------------------

    def _evaluated(self, given: tuple[Any, ...]) -> tuple[list[Tensor], Tensor]:
        """Inputs and the flat output with its graph, kept for the derivative at the same point."""
        if len(given) <= self.argnum or len(given) > len(self.args):
            raise TypeError(
                f"{self.name} was made with {len(self.args)} arguments, the variable at "
                f"{self.argnum}; SciPy gave {len(given)}"
            )
        if self.last is not None and _same(self.last[0], given):
            found: tuple[list[Tensor], Tensor] = self.last[1]
            return found
        inputs = [t.requires_grad_() for t in self.variable.split(given[self.argnum])]
        args = [*given, *self.args[len(given) :]]
        args[self.argnum] = self.variable.rebuild(inputs)
        recording = _core.is_grad_enabled()
        _core._set_grad_enabled(True)
        try:
            outputs = _flat(self.function(*args), self.name)
        finally:
            _core._set_grad_enabled(recording)
        kept = tuple(np.array(g) if isinstance(g, np.ndarray) else g for g in given)
        self.last = (kept, (inputs, outputs))
        return inputs, outputs

    def _slope(self, given: tuple[Any, ...], what: str) -> tuple[list[Tensor], Tensor]:
        inputs, outputs = self._evaluated(given)
        if outputs.ndim:
            raise ValueError(
                f"{what}: {self.name} returns {outputs.numel()} numbers; only a function of one "
                "number has a Hessian"
            )
        grads = _grad(outputs, inputs, None, True)
        parts = [
            (_core.zeros_like(x) if g is None else g).reshape(-1)
            for g, x in zip(grads, inputs, strict=True)
        ]
        return inputs, _core.cat(parts)


def _flat(result: Any, name: str) -> Tensor:
    if isinstance(result, Tensor):
        return result.reshape(-1) if result.ndim else result
    leaves = [leaf for leaf in _tree.flatten(result)[0] if isinstance(leaf, Tensor)]
    if not leaves:
        raise TypeError(
            f"{name} must return a tensor or a composite of tensors, got {type(result).__name__}"
        )
    return _core.cat([leaf.reshape(-1) for leaf in leaves])


def _rows(outputs: Tensor) -> Any:
    unit = _core.zeros_like(outputs)
    for i in range(outputs.numel()):
        row = unit.clone()
        row[i] = 1
        yield row


def _grad(outputs: Tensor, inputs: list[Tensor], along: Any, create_graph: bool = False) -> Any:
    from adjoint.autograd import grad

    if not outputs.requires_grad:
        return [None] * len(inputs)
    return grad(
        outputs, inputs, along, retain_graph=True, create_graph=create_graph, allow_unused=True
    )


def _same(kept: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    return len(kept) == len(given) and all(
        a is b or (type(a) is type(b) and bool(np.array_equal(a, b)))
        if isinstance(a, (np.ndarray, float, int, np.generic))
        else a is b
        for a, b in zip(kept, given, strict=True)
    )


def scipy_callback(function: Callable[..., Any], *args: Any, argnum: int = 0) -> ScipyCallback:
    """Give SciPy's solvers a function of tensors or composites, with its exact derivatives.

    Parameters
    ----------
    function
        A function of tensors or composites, such as a loss, the residuals of a fit, or the right
        hand side of an ordinary differential equation. It may use externals.
    *args
        Its arguments. The one at ``argnum`` is the variable: its floating tensors, one after the
        other, are the vector that SciPy sees. The others are handed on unless SciPy gives them.
    argnum
        Which argument that is: 1 for ``solve_ivp``, which calls ``fun(t, y)``.

    Returns
    -------
    ScipyCallback
        With ``x0`` and the methods ``fun``, ``jac``, ``fun_and_jac``, ``hess`` and ``hessp`` for
        SciPy, and ``unpack(result.x)`` for the composite of the result. A value and its derivative
        at the same point share one evaluation.

    Examples
    --------
    >>> import adjoint as ad
    >>> from scipy.optimize import minimize
    >>> def loss(p):
    ...     return (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
    >>> start = {"x": ad.tensor(-1.0).double(), "y": ad.tensor(2.0).double()}
    >>> f = ad.scipy_callback(loss, start)
    >>> found = minimize(f.fun, f.x0, jac=f.jac, hess=f.hess, method="trust-exact")
    >>> f.unpack(found.x)
    {'x': tensor(1.0000, dtype=torch.float64), 'y': tensor(1.0000, dtype=torch.float64)}
    """
    return ScipyCallback(function, args, argnum)
