"""A switch: zero gradients stay zero."""

from __future__ import annotations

from adjoint import _core

from .grad_mode import _Mode


class strong_zeros(_Mode):
    """A zero gradient stays zero in backward passes, whatever it is multiplied with.

    The gradient of ``where(x > 0, sqrt(x), 0)`` at 0 is NaN in plain IEEE arithmetic: the zero that
    `where` sends to the side that was not taken meets the infinite derivative of the square root,
    and ``0 * inf`` is NaN. What was not used has no influence, so the gradient is 0.

    A context manager and a decorator, around the backward pass.

    Notes
    -----
    Elementwise ops and reductions along an axis: element by element, where the gradient that
    arrives is 0 and the result is not finite. Other ops, custom functions among them: where all of
    the gradient that arrives is 0. What is finite is left alone.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([4.0, 0.0], requires_grad=True)
    >>> y = ad.where(x > 0, x.sqrt(), 0.0).sum()
    >>> ad.autograd.grad(y, x, retain_graph=True)
    (tensor([0.2500,    nan]),)
    >>> with ad.autograd.strong_zeros():
    ...     print(ad.autograd.grad(y, x))
    (tensor([0.2500, 0.0000]),)
    """

    def __enter__(self) -> None:
        self._before.append(_core._strong_zeros())
        _core._set_strong_zeros(True)

    def __exit__(self, *exc: object) -> None:
        _core._set_strong_zeros(self._before.pop())
