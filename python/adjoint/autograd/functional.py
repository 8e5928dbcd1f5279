"""Derivatives of functions at a point: ``jacobian``, ``hessian``, and products with them.

PyTorch's older interface: arguments are a tensor or a tuple of tensors, and results are numbers
unless ``create_graph`` asks for their history. `adjoint.func` has the composable forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any
from typing import NoReturn as _NoReturn

from adjoint import _core
from adjoint._core import Tensor
from adjoint._missing import missing as _missing
from adjoint._transforming import depth_of_now, refuse_functional
from adjoint.autograd._functional_helpers import (
    _construct_standard_basis_for as _construct_standard_basis_for,
)
from adjoint.autograd._functional_helpers import _grad_postprocess as _grad_postprocess
from adjoint.autograd._functional_helpers import _grad_preprocess as _grad_preprocess
from adjoint.autograd._functional_helpers import _tuple_postprocess as _tuple_postprocess

from . import forward_ad
from ._backward import grad
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
Tuple = tuple[Tensor, ...]


# --- arguments and results ----------------------------------------------------------------------
def _as_tuple(given: Any, what: str, name: str) -> tuple[bool, Tuple]:
    """(whether it was a tuple, the tensors)."""
    several = isinstance(given, tuple)
    items = given if several else (given,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = f"the value at index {i} has type" if several else f"the given {what} has type"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but "
                f"{where} {type(item)}."
            )
    return several, items


def _outputs(output: Any, name: str) -> tuple[bool, Tuple]:
    return _as_tuple(output, "outputs of the user-provided function", name)


def _variables(inputs: Tuple, create_graph: bool) -> Tuple:
    """What to differentiate by: continued histories with ``create_graph``, leaves without."""
    if create_graph:
        return tuple(
            x.view_as(x) if x.requires_grad else x.detach().requires_grad_(_differentiable(x))
            for x in inputs
        )
    return tuple(x.detach().requires_grad_(_differentiable(x)) for x in inputs)


def _differentiable(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _packed(several: bool, parts: Sequence[Any]) -> Any:
    return tuple(parts) if several else parts[0]


def _result(several: bool, tensors: Sequence[Any], create_graph: bool) -> Any:
    """What is returned: without a history unless it was asked for."""
    return _packed(several, tensors if create_graph else [_core._detached(t) for t in tensors])


def _check_vector(v: Tuple, like: Tuple, several: bool) -> None:
    if several and len(v) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}."
        )
    if not several and len(v) != 1:
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if a.shape != b.shape:
            entry = f"Entry {i} in " if several else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be torch.Size({list(b.shape)}) but got "
                f"torch.Size({list(a.shape)})."
            )


# --- strict mode --------------------------------------------------------------------------------
def _check_outputs(outputs: Tuple, strict: bool) -> None:
    for i, y in enumerate(outputs if strict else ()):
        if not y.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs "
                "must be computed in a differentiable manner from the input when running in strict "
                "mode."
            )


def _filled(
    grads: Sequence[Tensor | None],
    like: Tuple,
    strict: bool = False,
    create_graph: bool = False,
    of: str = "The output",
) -> Tuple:
    """Zeros for what is missing; in strict mode an error that names the input."""
    found = []
    for i, (g, x) in enumerate(zip(grads, like, strict=True)):
        if g is None and strict:
            raise RuntimeError(
                f"{of} of the user-provided function is independent of input {i}. This is not "
                "allowed in strict mode."
            )
        if g is not None and strict and create_graph and not g.requires_grad:
            higher = "hessian" if of == "The jacobian" else "jacobian"
            raise RuntimeError(
                f"The {higher} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode when create_graph=True."
            )
        found.append(_core.zeros_like(x) if g is None else g)
    return tuple(found)


def _check_gradient(grads: Tuple, strict: bool) -> None:
    for i, g in enumerate(grads if strict else ()):
        if not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function with respect to input {i} is "
                "independent of the input. This is not allowed in strict mode."
            )


def _gradients(outputs: Tuple, inputs: Tuple, v: Any, create_graph: bool) -> Any:
    used = [i for i, y in enumerate(outputs) if y.requires_grad]
    wanted = [x for x in inputs if x.requires_grad]
    if not used or not wanted:
        return (None,) * len(inputs)
    found = iter(
        grad(
            [outputs[i] for i in used],
            wanted,
            None if v is None else [v[i] for i in used],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    )
    return tuple(next(found) if x.requires_grad else None for x in inputs)


# --- products with the Jacobian -----------------------------------------------------------------
def vjp(
    func: Function,
    inputs: Tensor | Tuple,
    v: Tensor | Tuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of ``func`` and the product of ``v`` with its Jacobian.

    Parameters
    ----------
    func
        A function of tensors that returns a tensor or a tuple of tensors.
    inputs
        Its arguments: a tensor or a tuple of them.
    v
        One tensor per output; may be omitted for a single output of one element.
    create_graph
        Whether the results can be differentiated.
    strict
        Raise where an output does not depend on an input, instead of returning zeros.

    Returns
    -------
    tuple
        ``(output, product)``; the product is like ``inputs``.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0])
    >>> ad.autograd.functional.vjp(lambda x: x**2, x, ad.tensor([1.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    refuse_functional("vjp")
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vjp")
        xs = _variables(given, create_graph)
        many, outputs = _outputs(func(*xs), "vjp")
        _check_outputs(outputs, strict)
        weights = None
        if v is not None:
            _, weights = _as_tuple(v, "v", "vjp")
            _check_vector(weights, outputs, many)
        elif len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single "
                "Tensor with a single element."
            )
    recorded = _core.is_grad_enabled() and create_graph
    with enable_grad():
        found = _gradients(outputs, xs, weights, create_graph)
        products = _filled(found, xs, strict, recorded)
    return _result(many, outputs, create_graph), _result(several, products, create_graph)


def jvp(
    func: Function,
    inputs: Tensor | Tuple,
    v: Tensor | Tuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of ``func`` and the product of its Jacobian with ``v``, by forward mode.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    v
        One tensor per input; may be omitted for a single input of one element.

    Returns
    -------
    tuple
        ``(output, product)``; the product is like the output.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0])
    >>> ad.autograd.functional.jvp(lambda x: x**2, x, ad.tensor([1.0, 0.0]))
    (tensor([1., 4.]), tensor([2., 0.]))
    """
    refuse_functional("jvp")
    with enable_grad():
        _, xs, directions = _point(inputs, v, create_graph, "jvp")
        many, outputs, products = _push(func, xs, directions, strict, "jvp")
        if strict:
            ones = [_core.ones_like(y) for y in outputs]
            probe = _gradients(outputs, xs, ones, create_graph)
            _filled(probe, xs, strict, create_graph)
    return _result(many, outputs, create_graph), _result(many, products, create_graph)


def _push(
    func: Function, xs: Tuple, directions: Tuple, strict: bool, name: str
) -> tuple[bool, Tuple, Tuple]:
    """(whether there are several outputs, the outputs, their derivatives)."""
    with forward_ad.dual_level(nested=True) as level:
        duals = [
            forward_ad.make_dual(x, d, level=level) if _differentiable(x) else x
            for x, d in zip(xs, directions, strict=True)
        ]
        many, ys = _outputs(func(*duals), name)
        _check_outputs(ys, strict)
        pairs = [forward_ad.unpack_dual(y, level=level) for y in ys]
    outputs = tuple(p.primal for p in pairs)
    products = tuple(_core.zeros_like(p.primal) if p.tangent is None else p.tangent for p in pairs)
    return many, outputs, products


# --- the Jacobian -------------------------------------------------------------------------------
def jacobian(
    func: Function,
    inputs: Tensor | Tuple,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func``.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    vectorize
        Compute all rows (or columns) together.
    strategy
        ``"reverse-mode"`` goes by rows, ``"forward-mode"`` by columns: best for functions with more
        outputs than inputs.

    Returns
    -------
    Tensor or tuple
        For each output, for each input, a tensor of shape ``(*output.shape, *input.shape)``; in
        tuples where there are several.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.autograd.functional.jacobian(lambda x: x**2, ad.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            f'Otherwise, prefer to use "reverse-mode". Got {strategy!r}.'
        )
    if strict and vectorize:
        raise RuntimeError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together; please "
            "either set `strict=False` or `vectorize=False`."
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "jacobian: `create_graph=True` and `strategy='forward-mode'` are not supported "
                "together (yet). Please either set `create_graph=False` or "
                "`strategy='reverse-mode'`."
            )
        return _jacobian_by_columns(func, inputs)
    refuse_functional("jacobian")
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jacobian")
        xs = _variables(given, create_graph)
        many, outputs = _outputs(func(*xs), "jacobian")
        _check_outputs(outputs, strict)
        rows = [_rows(y, k, xs, create_graph, strict, vectorize) for k, y in enumerate(outputs)]
    return _packed(many, [_result(several, row, create_graph) for row in rows])


def _rows(
    y: Tensor, k: int, xs: Tuple, create_graph: bool, strict: bool, vectorize: bool
) -> list[Tensor]:
    """The derivatives of one output by each input."""
    n = y.numel()
    basis = _core.eye(n, dtype=y.dtype).view((n, *y.shape))
    found: Sequence[Tensor | None] = (None,) * len(xs)
    if vectorize and n and y.requires_grad:
        found = grad(
            y,
            xs,
            basis,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=True,
        )
    elif n:
        table = [
            _filled(
                _gradients((y,), xs, (row,), create_graph), xs, strict, create_graph, f"Output {k}"
            )
            for row in basis
        ]
        found = [_core.stack(column) for column in zip(*table, strict=True)]
    return [
        _core.zeros((*y.shape, *x.shape), dtype=x.dtype)
        if g is None
        else g.reshape((*y.shape, *x.shape))
        for g, x in zip(found, xs, strict=True)
    ]


def _jacobian_by_columns(func: Function, inputs: Tensor | Tuple) -> Any:
    from adjoint import func as transforms

    several, given = _as_tuple(inputs, "inputs", "jacobian")

    around = depth_of_now()  # that this uses a transform is no concern of func's

    def checked(*xs: Tensor) -> Any:
        with around:
            return _outputs(func(*xs), "jacobian")[1]

    xs = tuple(x.detach() for x in given)
    many, _ = _outputs(func(*xs), "jacobian")
    blocks = transforms.jacfwd(checked, argnums=tuple(range(len(xs))))(*xs)
    return _packed(many, [_result(several, row, False) for row in blocks])


# --- second derivatives -------------------------------------------------------------------------
def _scalar(output: Any, name: str) -> Tensor:
    many, outputs = _outputs(output, name)
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    return outputs[0].squeeze()


def hessian(
    func: Function,
    inputs: Tensor | Tuple,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of ``func``, which returns a single tensor of one element.

    Parameters
    ----------
    func, inputs, create_graph, strict, vectorize
        As for `jacobian`.
    outer_jacobian_strategy
        How the gradient is differentiated: ``"forward-mode"`` is forward over reverse.

    Returns
    -------
    Tensor or tuple
        For each input, for each input, a tensor of shape ``(*input.shape, *input.shape)``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.autograd.functional.hessian(lambda x: (x**3).sum(), ad.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    refuse_functional("hessian")
    several, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(
            'Expected strategy to be either "forward-mode" or "reverse-mode", got '
            f"{outer_jacobian_strategy!r}"
        )

    def gradient(*xs: Tensor) -> Tuple:
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(_core._variable(x, False) for x in xs)
        with enable_grad():
            y = _scalar(func(*xs), "hessian")
            _check_outputs((y,), strict)
            grads = _filled(_gradients((y,), xs, None, True), xs)
            _check_gradient(grads, strict)
        return grads

    blocks = jacobian(
        gradient,
        given,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return blocks if several else blocks[0][0]


def vhp(
    func: Function,
    inputs: Tensor | Tuple,
    v: Tensor | Tuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of ``func`` and the product of ``v`` with its Hessian, reverse over reverse.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `hessian`.
    v
        One tensor per input; may be omitted for a single input of one element.

    Returns
    -------
    tuple
        ``(output, product)``; the product is like ``inputs``.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0])
    >>> ad.autograd.functional.vhp(lambda x: (x**3).sum(), x, ad.tensor([1.0, 1.0]))
    (tensor(9.), tensor([ 6., 12.]))
    """
    refuse_functional("vhp")
    with enable_grad():
        several, xs, vector = _point(inputs, v, create_graph, "vhp")
        output = func(*xs)
        y = _scalar(output, "vhp")
        _check_outputs((y,), strict)
        first = _filled(_gradients((y,), xs, None, True), xs, strict)
        _check_gradient(first, strict)
        second = _gradients(first, xs, vector, create_graph)
        products = _filled(second, xs, strict, create_graph, "The jacobian")
    return _result(False, (output,), create_graph), _result(several, products, create_graph)


def hvp(
    func: Function,
    inputs: Tensor | Tuple,
    v: Tensor | Tuple | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of ``func`` and the product of its Hessian with ``v``, forward over reverse.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        As for `vhp`, whose numbers it returns at a lower price.

    Returns
    -------
    tuple
        ``(output, product)``; the product is like ``inputs``.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0])
    >>> ad.autograd.functional.hvp(lambda x: (x**3).sum(), x, ad.tensor([1.0, 0.0]))
    (tensor(9.), tensor([6., 0.]))
    """
    refuse_functional("hvp")
    if strict:  # its errors speak of gradients
        return vhp(func, inputs, v, create_graph, strict)
    with enable_grad():
        several, xs, vector = _point(inputs, v, create_graph, "hvp")
        values: list[Any] = []

        def gradient(*duals: Tensor) -> Tuple:
            output = func(*duals)
            y = _scalar(output, "hvp")
            values.append(output)
            return _filled(_gradients((y,), duals, None, create_graph), duals)

        _, _, products = _push(gradient, xs, vector, False, "hvp")
    return _result(False, values, create_graph), _result(several, products, create_graph)


def _point(inputs: Any, v: Any, create_graph: bool, name: str) -> tuple[bool, Tuple, Tuple]:
    """(whether there are several inputs, the variables, the vector)."""
    several, given = _as_tuple(inputs, "inputs", name)
    xs = _variables(given, create_graph)
    if v is not None:
        _, vector = _as_tuple(v, "v", name)
        _check_vector(vector, given, several)
        return several, xs, vector
    if len(given) != 1 or given[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single "
            "Tensor with a single element."
        )
    return several, xs, (_core.ones_like(given[0]),)


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
