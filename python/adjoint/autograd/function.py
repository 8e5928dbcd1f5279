"""Custom functions: a forward and a backward of one's own.

The call itself is native (``src/bindings/function/function_apply.cpp``); this module holds the
classes people derive from. As in PyTorch the ``ctx`` that forward and backward see is the node of
the graph.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from adjoint import _core
from adjoint._core import Tensor

if TYPE_CHECKING:
    from ._function_check import CheckReport

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "once_differentiable",
    "set_check_mode",
]

F = TypeVar("F", bound=Callable[..., Any])


class FunctionCtx:
    """What forward and backward get as ``ctx``.

    The object itself is the node of the graph, whose native methods come first; this class is what
    ``isinstance(ctx, FunctionCtx)`` asks for, and a context of its own for rules that are called
    outside a graph.
    """

    to_save: Any
    saved_for_forward: Any
    dirty_tensors: Any
    non_differentiable: Any
    materialize_grads: bool

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs and outputs for ``backward``; call it at most once."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``."""
        for tensor in tensors:
            if not (isinstance(tensor, Tensor) or tensor is None):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; you should save "
                    "non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Name the inputs that forward changed in place; they must be returned."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing; kept for old programs."""
        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically "
            "tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Name outputs that have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros or None where no gradient arrived; default True."""
        self.materialize_grads = value


_ContextMethodMixin = FunctionCtx


class _HookMixin:
    """Hooks in a dict that their handle can take them out of."""

    @staticmethod
    def _register_hook(backward_hooks: Any, hook: Callable[..., Any]) -> tuple[Any, Any]:
        from adjoint.autograd._register_hooks import add

        hooks = OrderedDict() if backward_hooks is None else backward_hooks
        return hooks, add(hooks, hook)


class BackwardCFunction(_core._FunctionNode, FunctionCtx, _HookMixin):
    """The node of a custom function; each `Function` has a subclass of its own."""

    _forward_cls: type[Function]

    def apply(self, *args: Any) -> Any:
        """Run the function's ``backward`` (or ``vjp``) on gradients of its outputs."""
        cls = self._forward_cls
        if cls.vjp is not Function.vjp:
            if cls.backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                    f"You should only implement one of them (class {cls.__name__})."
                )
            return cls.vjp(self, *args)
        return cls.backward(self, *args)

    def apply_jvp(self, *args: Any) -> Any:
        """Run the function's ``jvp`` on tangents of its inputs."""
        return self._forward_cls.jvp(self, *args)


class FunctionMeta(type):
    """Gives each `Function` the class of its nodes: ``MyFn._backward_cls`` is ``MyFnBackward``."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        space = {"_forward_cls": cls, "__module__": cls.__module__}
        cls._backward_cls = _core._backward_class(name + "Backward", BackwardCFunction, space)
        super().__init__(name, bases, attrs)


class Function(metaclass=FunctionMeta):
    """A function with a derivative of its own.

    Derive from it, define ``forward`` and ``backward`` as static methods, and call ``apply``.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Exp(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = ad.tensor(0.0, requires_grad=True)
    >>> Exp.apply(x).backward()
    >>> x.grad
    tensor(1.)
    """

    generate_vmap_rule = False
    boxed_grads_call = False
    clear_saved_tensors_on_access = False
    # Whether forward may compute with tensors that are not arguments, although backward is not seen
    # to give them a gradient (jvp: a tangent). An error otherwise.
    allow_hidden_tensors = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: functions are applied by their class."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method: "
            f"call {type(self).__name__}.apply(...)."
        )

    def __getattr__(self, name: str) -> Any:
        if name == "metadata":
            raise RuntimeError(
                "You attempted to access the anomaly metadata of a custom autograd function but "
                "the underlying PyNode has already been deallocated: an instance of "
                f"{type(self).__name__} is not a node of a graph."
            )
        if name in _NODE_ATTRIBUTES:
            raise RuntimeError(
                f"Attribute '{name}' is invalid for this instance of {type(self).__name__}. "
                "Accessing this attribute directly on an instance of autograd.Function is a "
                "legacy access pattern that is no longer supported: "
                "it belongs to the node, `grad_fn` of a result of apply()."
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    apply = classmethod(_core._function_apply)

    @classmethod
    def check(cls, *inputs: Any, second: bool = True, **tolerances: float) -> CheckReport:
        """Compare the derivatives with differences, and report.

        Checks ``backward``, the derivative of ``backward`` (unless it is `once_differentiable`) and
        ``jvp`` if there is one, with `gradcheck`. The inputs are copied, and converted to double
        precision where the function can compute in it.

        Parameters
        ----------
        *inputs
            Arguments of ``apply``, nested ones too. Tensors that require grad are checked; if none
            does, all floating-point and complex ones are.
        second
            Whether to check the derivative of ``backward``.
        **tolerances
            ``eps``, ``atol`` and ``rtol`` of `gradcheck`.

        Returns
        -------
        CheckReport
            True when all is right; prints what was found otherwise.

        Raises
        ------
        ValueError
            If no argument is a floating-point or complex tensor, so that nothing can be checked.

        Examples
        --------
        >>> import adjoint as ad
        >>> class Square(ad.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> Square.check(ad.tensor([1.0, 2.0]))
        Square: all right
          backward         ok: 1 input in torch.float64
          double backward  ok
          jvp              not checked: there is none
        """
        from ._function_check import check
        from .grad_mode import enable_grad

        with enable_grad():
            return check(cls, inputs, tolerances, second)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result: ``forward(ctx, *args)``, or ``forward(*args)`` with `setup_context`.

        Runs without recording. Whatever ``backward`` needs is kept with ``ctx.save_for_backward``
        (inputs and outputs) or as attributes of ``ctx`` (everything else).
        """
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what ``backward`` needs, where ``forward`` takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Turn gradients of the outputs into gradients of the arguments.

        Gets one gradient per output of ``forward`` and returns one per argument: None for what is
        no tensor or needs none.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    # A second name: defining either is enough, defining both is an error.
    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """The same as ``backward``, under the name it has in mathematics."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Turn tangents of the arguments into tangents of the outputs, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Compute the function over a batch axis: ``vmap(info, in_dims, *args)``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )


_NODE_ATTRIBUTES = frozenset(
    name
    for name in (*dir(_core._FunctionNode), "_register_hook_dict", "_input_metadata")
    if not name.startswith("__")
)


def _is_setup_context_defined(fn: Any) -> bool:
    return fn is not Function.setup_context


def _tensors_in(args: tuple[Any, ...]) -> tuple[Tensor, ...]:
    return tuple(arg for arg in args if isinstance(arg, Tensor))


def once_differentiable(fn: F) -> F:
    """Decorate a ``backward`` that cannot itself be differentiated.

    It runs without recording, and asking for a second derivative raises instead of leaving out
    what it computed.
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = _core.is_grad_enabled()
        _core._set_grad_enabled(False)
        try:
            outputs = fn(ctx, *args)
        finally:
            _core._set_grad_enabled(recording)
        if not recording or not isinstance(ctx, _core._FunctionNode):
            return outputs
        if isinstance(outputs, tuple):
            return _core._delayed_error(ctx, outputs, _tensors_in(args))
        if isinstance(outputs, Tensor):
            return _core._delayed_error(ctx, (outputs,), _tensors_in(args))[0]
        return outputs

    wrapper._once_differentiable = True  # type: ignore[attr-defined]
    return wrapper  # type: ignore[return-value]


class InplaceFunction(Function):
    """Kept for old programs: a plain `Function` that remembers ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def set_check_mode(mode: bool) -> None:
    """Check every custom function numerically when it is first called.

    While on, the first recorded call of a `Function` with arguments of given shapes and dtypes runs
    `Function.check` on them, and raises with its report if a derivative is wrong.

    Parameters
    ----------
    mode
        Whether to check. Turning it off forgets what was checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.autograd.set_check_mode(True)
    >>> class Double(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 3
    >>> try:
    ...     Double.apply(ad.ones(2, requires_grad=True))
    ... except RuntimeError as error:
    ...     print(str(error).splitlines()[0])
    Double: backward wrong
    >>> ad.autograd.set_check_mode(False)
    """
    from ._function_check import set_check_mode

    set_check_mode(mode)


# --- what the native call asks for, beside _structures --------------------------------------------


def _bind(cls: type[Function], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Arguments by keyword in the order of forward's signature."""
    split = _is_setup_context_defined(cls.setup_context)
    import inspect  # here: most programs never come by

    signature = inspect.signature(cls.forward)
    given = args if split else (None, *args)
    try:
        bound = signature.bind(*given, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.apply(): {error}") from None
    if any(isinstance(value, _core.Tensor) for value in bound.kwargs.values()):
        raise NotImplementedError(
            f"{cls.__name__}.apply(): kwarg-only Tensor args ({', '.join(bound.kwargs)}) have no "
            "place among the gradients that backward returns; make them positional"
        )
    if bound.kwargs:
        raise TypeError(
            f"{cls.__name__}.apply(): keyword-only arguments ({', '.join(bound.kwargs)}) have no "
            "place among the gradients that backward returns; make them positional"
        )
    return bound.args if split else bound.args[1:]
