"""``gradcheck`` and ``gradgradcheck``: is a derivative what differences say it is?

This module holds what people call; the work is in ``_gradcheck``, loaded at the first call. As in
PyTorch, ``autograd.gradcheck`` is the function and ``from adjoint.autograd.gradcheck import …``
reads this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from adjoint._core import Tensor

if TYPE_CHECKING:
    from ._gradcheck.checks import Options

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """A gradient check failed; the message says where, by how much and probably why."""


class _Default(float):
    """A default that can be told from the same number given by the caller.

    Note [Step and tolerance] in ``_gradcheck/tolerance.py`` says what becomes of it.
    """


_EPS, _ATOL, _RTOL = _Default(1e-6), _Default(1e-5), _Default(1e-3)


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = _EPS,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of ``func`` with central differences.

    Parameters
    ----------
    func
        A function of ``inputs`` that returns a tensor or several (in a tuple, a list, a dict,
        nested).
    inputs
        Its arguments. Those that require grad are checked, also inside lists and dicts.
    eps, atol, rtol
        The step, and the error allowed for each entry: ``atol + rtol·|numerical|``. The defaults
        suit float64 and complex128; left out, they are fitted to coarser dtypes (see Notes).
    raise_exception
        False: return False instead of raising `GradcheckError`.
    nondet_tol
        How much two backward passes with the same arguments may differ.
    check_undefined_grad
        Check that an output that gets no gradient counts as one that gets zeros.
    check_grad_dtypes
        Check that gradients have the dtype of their inputs.
    check_batched_grad
        Check ``grad(..., is_grads_batched=True)`` against single gradients.
    check_batched_forward_grad
        Check ``vmap`` over forward mode against single tangents.
    check_forward_ad, check_backward_ad
        Which modes to check.
    fast_mode
        Compare vᵀJu for one pair of random vectors u, v per input and output instead of every entry
        of the Jacobian J. Where the two numbers differ, the whole Jacobian decides.
    masked
        Accepted for PyTorch's sake: it concerns sparse tensors, which adjoint does not have.

    Returns
    -------
    bool
        True if all derivatives agree.

    Raises
    ------
    GradcheckError
        They do not. The message names the output, the input, the worst entry with both numbers, and
        a likely cause.

    Notes
    -----
    In a dtype with spacing u near 1 (1.2e-7 for float32), what is left out becomes: ``eps`` the
    power of two nearest u^⅓, times the power of two above abs(x) for entries beyond 1; ``atol``
    8·u^⅔ times the largest value of the output divided by abs(x), each at least 1; ``rtol`` 8·u^⅔
    or 1e-3, whichever is larger. The coarsest dtype among inputs and outputs decides. For float32
    that is a step of 0.0039 and an absolute error of 0.0002.

    For complex numbers, PyTorch's convention is checked: the gradient of a real L is ∂L/∂(real
    part) + i ∂L/∂(imaginary part), and a complex output is two real ones.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, 2.0], dtype=ad.float64, requires_grad=True)
    >>> ad.autograd.gradcheck(lambda x: x.sin() * x, (x,))
    True
    >>> ad.autograd.gradcheck(lambda x: x * x.detach(), (x,), raise_exception=False)
    False
    """
    from ._gradcheck.checks import Options

    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True: there "
            "is nothing to check otherwise"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    options = Options(
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
        check_backward_ad=check_backward_ad,
        fast_mode=fast_mode,
    )
    return _run(func, inputs, (eps, atol, rtol), raise_exception, options)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = _EPS,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of ``func`` with central differences of the first.

    The function that is checked takes ``inputs`` followed by ``grad_outputs`` and returns the
    gradients of the inputs that require grad; messages count its arguments and results.

    Parameters
    ----------
    func, inputs
        As for `gradcheck`.
    grad_outputs
        Weights of the outputs that require grad. Default: random ones between -1 and 1 that require
        grad, drawn from the random stream as PyTorch draws them.
    gen_non_contig_grad_outputs
        Draw them so that they are not contiguous in memory.
    check_fwd_over_rev, check_rev_over_rev
        Differentiate the gradients by forward mode, by backward.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes
        As for `gradcheck`.
    check_batched_grad, fast_mode, masked
        As for `gradcheck`.

    Returns
    -------
    bool
        True if all second derivatives agree.

    Raises
    ------
    GradcheckError
        They do not.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([0.5, 2.0], dtype=ad.float64, requires_grad=True)
    >>> ad.autograd.gradgradcheck(lambda x: x.sin() * x, (x,))
    True
    """
    from ._gradcheck.checks import Options
    from ._gradcheck.problem import as_arguments
    from ._gradcheck.second import gradient_function

    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True: there "
            "is nothing to check otherwise"
        )
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_rev_over_rev to be True"
        )
    arguments = as_arguments(inputs)
    gradients, weights = gradient_function(
        func, arguments, grad_outputs, gen_non_contig_grad_outputs
    )
    options = Options(
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=False,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )
    note = (
        "\n  in gradgradcheck, output i is the gradient of the i-th input that requires grad, and "
        f"inputs from {len(arguments)} on are grad_outputs"
    )
    return _run(
        gradients, (*arguments, *weights), (eps, atol, rtol), raise_exception, options, note
    )


def _run(
    func: Callable[..., Any],
    inputs: Any,
    tolerances: tuple[float, float, float],
    raise_exception: bool,
    options: Options,
    note: str = "",
) -> bool:
    from ._gradcheck.checks import run
    from ._gradcheck.problem import Problem, as_arguments

    try:
        return run(Problem(func, as_arguments(inputs)), *tolerances, options)
    except GradcheckError as error:
        if not raise_exception:
            return False
        if not note:
            raise
        raise GradcheckError(f"{error}{note}") from error.__cause__


def _private(name: str) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed; it is here for "
        "programs that use it. Use `adjoint.autograd.gradcheck`.",
        FutureWarning,
        stacklevel=3,
    )


def _only_one(grad_out: float) -> None:
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0, got {grad_out}")


def get_numerical_jacobian(
    fn: Callable[[Any], Any],
    inputs: Tensor | Sequence[Any],
    target: Tensor | Sequence[Tensor] | None = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> list[Tensor]:
    """The Jacobian of the first output of ``fn(inputs)`` by differences.

    Parameters
    ----------
    fn
        Takes ``inputs`` as one argument.
    inputs
        One tensor or a sequence.
    target
        The inputs to differentiate by. Default: all that require grad.
    eps
        The step.
    grad_out
        Must be 1.0.

    Returns
    -------
    list of Tensor
        For each target a matrix with a row per element of it and a column per element of the
        output, which must be real.
    """
    from ._gradcheck.matrices import numerical_jacobians

    _private("get_numerical_jacobian")
    _only_one(grad_out)
    return numerical_jacobians(fn, inputs, target, eps)


def get_analytical_jacobian(
    inputs: Tensor | Sequence[Any],
    output: Tensor,
    nondet_tol: float = 0.0,
    grad_out: float = 1.0,
) -> tuple[list[Tensor], bool, bool, bool]:
    """The Jacobian of ``output`` by backward, and what was seen on the way.

    Parameters
    ----------
    inputs
        One tensor or a sequence; those that require grad count.
    output
        A tensor computed from them.
    nondet_tol
        How much two backward passes may differ.
    grad_out
        Must be 1.0.

    Returns
    -------
    jacobians : list of Tensor
        For each input a matrix with a row per element of it and a column per element of the output.
    reentrant : bool
        Two passes gave the same.
    correct_grad_sizes, correct_grad_types : bool
        Gradients have the shapes and dtypes of their inputs.
    """
    from ._gradcheck.matrices import analytical_jacobians

    _private("get_analytical_jacobian")
    _only_one(grad_out)
    return analytical_jacobians(inputs, output, nondet_tol)
