"""`external`: a function that autograd cannot see, as a function with a derivative.

One gradient, from top to bottom: `External` takes the call, a `Call` (_call.py) evaluates the
function and is kept by the node of the graph (_function.py). Asked for a derivative it makes
`Derivatives` (_derivatives.py), which has it from the user's rule (_user_derivatives.py) or from
differences: an `ExternalPoint` (_point.py) is the function on vectors, and the `Plan` of
`adjoint.numeric` asks it for values, which an `Evaluator` (_evaluate.py) has the function compute.
None of these knows those before it. Read next: _definition.py, _call.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import numpy as np

from adjoint._core import Tensor
from adjoint.numeric._method import Method, Stencil, resolve
from adjoint.numeric._plan import Plan
from adjoint.numeric._second import Effort, effort_of
from adjoint.numeric._sparse_jacobian import ColouredPattern, restricted
from adjoint.numeric._step_choice import PAIRS
from adjoint.numeric._tiny_elements import count_tiny
from adjoint.numeric._verification import PAIR

from ._arguments import Static, as_array, name_of
from ._call import Call, TensorCall
from ._definition import Definition
from ._derivatives import SHORTER
from ._double import WIDE
from ._evaluate import Evaluation, Evaluator
from ._function import ExternalFunction
from ._outputs import tensor_dtype
from ._user_derivatives import Given
from ._workers import Workers

__all__ = ["Cost", "External", "external", "numpy_function"]


class Cost(NamedTuple):
    """What `External.cost` returns: evaluations of the function, before any is made."""

    forward: int
    vjp: int
    jvp: int
    first: int  # more, once: the checks and the choice of steps at the first derivative
    first_most: int  # the same at most, of a function with kinks or jumps; at later ones too
    second: int  # by a second derivative along a direction, of a smooth function
    second_most: int  # the same at most; for a direction whose elements are of one size
    derivative_calls: int  # calls of a jacobian=, vjp= or jvp= that was given
    text: str

    def __str__(self) -> str:
        return self.text


class Short(TypedDict, total=False):
    """Short forms: settings of the method and of the evaluation, beside ``derivative="name"``."""

    step: Any  # these of the methods in adjoint.differences
    scale: Any
    probe: bool
    directions: int
    seed: int
    workers: Any  # these of Evaluation
    timeout: float | None
    retries: int
    progress: bool | None
    cache: Any


_OF_EVALUATION = ("workers", "timeout", "retries", "progress", "cache")


def _resolved(
    derivative: str | Method, evaluate: Evaluation | None, short: Short
) -> tuple[Method, Evaluation]:
    """The two objects that short forms stand for."""
    unknown = sorted(short.keys() - Short.__annotations__.keys())
    if unknown:
        raise TypeError(f"external() got an unexpected keyword argument {unknown[0]!r}")
    running: Any = {k: v for k, v in short.items() if k in _OF_EVALUATION}
    method = resolve(derivative, {k: v for k, v in short.items() if k not in running})
    if evaluate is None:
        return method, Evaluation(**running)
    if not isinstance(evaluate, Evaluation):
        raise TypeError(
            f"evaluate= takes an ad.Evaluation, got {type(evaluate).__name__}; fix: "
            "evaluate=ad.Evaluation(workers=...)"
        )
    for name in running:
        raise ValueError(
            f"{name}= and evaluate={evaluate!r} are both given; fix: put it into the Evaluation, "
            f"evaluate=ad.Evaluation({name}={running[name]!r}, ...)"
        )
    return method, evaluate


class External:
    """A callable on tensors made by `external`; see there for the options."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        # A call on floating tensors alone needs no looking into structures: see _call.py.
        evaluator = definition.evaluator
        special = definition.static or definition.nondifferentiable
        limited = evaluator.workers.timeout is not None
        self._direct = not (special or evaluator.mode or evaluator.retries or limited)
        functools.update_wrapper(self, definition.function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function on tensors, arrays, numbers and composites of them."""
        if self._direct and args and not kwargs:
            for value in args:
                if not isinstance(value, Tensor) or not value.is_floating_point():
                    break
            else:
                direct = TensorCall(self.definition, args)
                return direct.rebuild(ExternalFunction.apply(direct, *args))
        call = Call(self.definition, args, kwargs)
        tensors = call.tensors()
        made: Sequence[Tensor]
        made = ExternalFunction.apply(call, *tensors) if tensors else call.run(tensors, False)
        return call.rebuild(made)

    def __repr__(self) -> str:
        how = "given derivative"
        if not self.definition.given:
            how = f"derivative={self.method if self.method.settings() else self.derivative!r}"
        return f"<external {self.name}: {how}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def close(self) -> None:
        """End the processes or threads of ``workers=``; the next derivative starts them again."""
        self.workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what it is -----------------------------------------------------------------------------

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        return self.definition.function

    @property
    def name(self) -> str:
        """What messages call the function."""
        return self.definition.name

    @property
    def method(self) -> Method:
        """The difference method."""
        return self.definition.plan.method

    @property
    def derivative(self) -> str:
        """The name of the difference method."""
        return self.method.name

    @property
    def bounds(self) -> Any:
        """Where the function may be evaluated."""
        return self.definition.plan.bounds

    @property
    def error(self) -> Any:
        """Estimates for the entries of the last Jacobian, by a method that makes them."""
        return self.definition.plan.error

    @property
    def evaluator(self) -> Evaluator:
        """Calls the function, and counts how often in ``count``."""
        return self.definition.evaluator

    @property
    def workers(self) -> Workers:
        """Where evaluations run."""
        return self.definition.evaluator.workers

    # --- questions ------------------------------------------------------------------------------

    def jacobian(self, *args: Any, **kwargs: Any) -> Any:
        """Return the Jacobian at an input, as a matrix of output by input coordinates.

        Inputs are all floats in the arguments that are tensors, one after the other; outputs all
        differentiable ones.
        """
        call = Call(self.definition, args, kwargs)
        tensors = call.tensors()
        if not tensors:
            raise TypeError("jacobian() differentiates by tensors, and none was given")
        made, _ = call(tensors)
        found = call.derivatives([*tensors, *made], [True] * len(tensors)).jacobian()
        import adjoint

        return adjoint.tensor(np.asarray(found.dense())).to(
            tensor_dtype([t.dtype for t in tensors])
        )

    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """Tell what a call and its derivatives will cost, without evaluating anything.

        Parameters
        ----------
        *args, **kwargs
            Arguments as for a call. Tensors that require grad are the inputs that are counted; if
            there are none, all tensors are.
        """
        call = Call(self.definition, args, kwargs)
        leaves = call.leaves
        wanted = [k for k in call.places if leaves[k].requires_grad] or call.places
        asked = [leaves[k] for k in wanted]
        definition, plan = self.definition, self.definition.plan
        sizes = [_count(t) for t in asked]
        colours = len(sizes) if plan.elementwise else None
        if plan.sparsity is not None:
            inputs = call.arguments.inputs
            every = [_count(leaves[k]) for k in inputs]
            given = restricted(plan.sparsity, every, [inputs.index(k) for k in wanted])
            colours = ColouredPattern(given, tuple(np.shape(given)), self.name).count
        if definition.given:
            return _given_cost(definition, sizes, colours)
        effort = effort_of([_magnitudes(t) for t in asked])
        single = any(as_array(t.detach()).dtype in WIDE for t in asked)
        return _cost(definition, sizes, self._count_tiny(asked), colours, effort, single)

    def _count_tiny(self, asked: Sequence[Any]) -> list[int]:
        """How many elements of each input may need two steps (numeric/_tiny_elements.py)."""
        method, noise = self.method, self.definition.plan.noise or 0.0
        given = [v is not None and not isinstance(v, dict) for v in (method.step, method.scale)]
        if any(given) or not method.recovers:
            return []
        return [count_tiny(as_array(t.detach()), noise) for t in asked]


def _check_differences(
    method: Method, exact: bool, elementwise: bool, sparsity: Any, noise: float | None
) -> None:
    """Refuse what is said of the function, if it does not fit together."""
    if not exact and (elementwise or sparsity is not None) and not isinstance(method, Stencil):
        raise ValueError(
            "elementwise= and sparsity= go with derivative='central' or 'forward', not "
            f"{method.name!r}"
        )
    if isinstance(sparsity, str):
        raise ValueError(
            f"sparsity={sparsity!r}: the pattern of an external is a matrix of its outputs by its "
            "inputs, since its code cannot be followed. fix: a dense or scipy.sparse pattern, or "
            "omit it; ad.func.jacobian(f, sparsity='detect') then takes all entries"
        )
    if elementwise and sparsity is not None:
        raise ValueError("elementwise=True already says what is sparse; omit sparsity=")
    if noise is not None and not 0 < noise < 1:
        raise ValueError(
            f"noise= is the relative error of the outputs, between 0 and 1; got {noise!r}"
        )


def _count(leaf: Any) -> int:
    """The coordinates of an input."""
    if isinstance(leaf, Tensor):
        return leaf.numel() * (2 if leaf.dtype.is_complex else 1)
    return int(np.size(leaf)) * (2 if np.iscomplexobj(leaf) else 1)


def _magnitudes(t: Tensor) -> Any:
    array = as_array(t.detach()).reshape(-1)
    parts = np.concatenate([array.real, array.imag]) if array.dtype.kind == "c" else array
    return np.abs(parts.astype(float))


def _given_cost(definition: Definition, sizes: Sequence[int], colours: int | None) -> Cost:
    given, plan = definition.given, definition.plan
    calls = 1
    if given.names == ["jvp"]:
        calls = sum(sizes) if colours is None else colours
        if colours is not None and plan.verify:
            calls += 1  # of the pattern
    rule = f"{given.names[0]}="
    text = f"{definition.name}: 1 evaluation; a vjp calls {rule} {calls} times, no evaluations"
    jvp = 0
    if given.jvp is not None:
        text += "; a jvp calls jvp= once"
    elif plan.method.flat:
        jvp, text = 1, text + "; a jvp takes 1 more (linear)"
    elif given.jacobian is None and given.tensors:
        text += "; a jvp calls vjp= once, recorded, and transposes it"
    elif given.jacobian is None:
        jvp = 2 + (PAIR if plan.verifies else 0)
        known = plan.steps_found or not plan.method.probe or plan.method.step is not None
        first = "" if known else f", the first {2 * PAIRS * len(sizes)} more to choose its steps"
        text += (
            f"; a jvp takes {jvp} more (central){first}, or calls of vjp= for each output if those "
            "are few; fix: give jvp= too, or linear=True"
        )
    if not plan.method.flat:
        text += (
            f"; a second derivative along a direction takes {4 if plan.verify else 2} more, and "
            f"{5 if plan.verify else 2} calls of {rule} (further directions 2)"
        )
    second = 0 if plan.method.flat else 4 if plan.verify else 2
    most = 4 * (len(SHORTER) + 2) + 1 if second else 0  # both halves of it in a corner
    return Cost(1, 0, jvp, 0, 0, second, most, calls, text)


def _cost(
    definition: Definition,
    sizes: Sequence[int],
    tiny: Sequence[int],
    colours: int | None,
    effort: Effort,
    single: bool,
) -> Cost:
    price = definition.plan.price(sizes, tiny, colours, effort, single)
    workers = definition.evaluator.workers
    on = f" on {workers.count} workers" if not workers.serial else ""
    text = (
        f"{definition.name}: 1 evaluation; a vjp by {sum(sizes)} inputs takes "
        f"{'at most ' if price.most else ''}{price.vjp} more{on} "
        f"({definition.plan.method.name}), a jvp "
        f"{'at most ' if sum(tiny) or effort.first_parts > 1 else ''}{price.jvp}"
    )
    if price.first:
        text += f"; the first derivative {price.first} more for its checks"
    if price.first_most > price.first:
        text += f"; up to {price.first_most} more where steps are hard to choose"
    if not definition.plan.method.flat and price.second:
        text += f"; a second derivative along a direction {price.second}"
        if price.second_most > price.second:
            text += f", up to {price.second_most} where steps are hard to choose"
    return Cost(1, *price[:4], price.second, price.second_most, 0, text)


def external(
    function: Callable[..., Any] | None = None,
    *,
    derivative: str | Method = "central",
    jacobian: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    elementwise: bool = False,
    sparsity: Any = None,
    bounds: Any = None,
    noise: float | None = None,
    static: Any = (),
    nondifferentiable: Any = (),
    arrays: str = "numpy",
    writable: bool = False,
    batched: bool = False,
    verify: bool = True,
    linear: bool = False,
    evaluate: Evaluation | None = None,
    name: str | None = None,
    **short: Unpack[Short],
) -> Any:
    """Give a function that autograd cannot see a derivative.

    Parameters
    ----------
    function
        Takes and returns NumPy arrays, floats, or composites of them. If omitted, a decorator is
        returned.
    derivative
        How it is differentiated if nothing better is given: a method of `adjoint.differences`, or
        the name of one. ``"central"`` (two evaluations per input), ``"forward"`` (one, less exact),
        ``"complex-step"`` (one, exact; the function must compute with complex numbers),
        ``"richardson"`` (up to 16, nearly exact, with an error estimate in ``.error``), ``"spsa"``
        (random directions, for many inputs).
    jacobian
        ``jacobian(*args)`` returns the Jacobian: an array of shape output + input or (m, n), or a
        matrix of scipy.sparse; sequences of them for several inputs or outputs.
    vjp
        ``vjp(grad, *args)`` returns the gradient of each argument; with a parameter ``output`` it
        is given the result too.
    jvp
        ``jvp(tangent, *args)`` returns the tangent of the result; ``tangent`` is a tuple for a
        function of several arguments.
    elementwise
        The function acts on each element alone: one pair of evaluations for the whole array.
        Verified at each derivative.
    sparsity
        The pattern of the Jacobian, dense or scipy.sparse: inputs that share no output are
        perturbed together. Beside ``vjp=`` or ``jvp=`` the Jacobian takes one call for each colour.
        Verified at each derivative.
    bounds
        A pair (low, high) that is never left; one for all inputs, or a dict by argument or path.
    noise
        The relative error of the outputs, if larger than their dtype's: 1e-6 for text of 6 digits.
        A function that returns other values for the same input is refused without it.
    static
        Names or positions of arguments that are handed on as they are.
    nondifferentiable
        Positions or names of outputs that have no derivative.
    arrays
        ``"tensor"`` if the function (and vjp) takes adjoint tensors.
    writable
        Whether the function changes its arguments: it then gets copies.
    batched
        Whether the function takes a leading batch axis, for ``vmap``. All tensors then have it:
        those that are not mapped are expanded to it.
    verify
        Whether each derivative by differences is compared with one more pair of evaluations along
        a random direction, which finds steps, and claims of sparsity, that do not hold here.
    linear
        The function is linear, up to a constant: short for ``derivative="linear"``. Tangents take
        one evaluation, beside ``vjp=`` too, and second derivatives are zero. Verified.
    evaluate
        Where and how the evaluations of a Jacobian run: an `adjoint.Evaluation`.
    name
        What messages call the function.
    **short
        Short forms. ``step``, ``scale``, ``probe``, ``directions`` and ``seed`` are settings of the
        method, beside its name: ``derivative="central", step=1e-3`` is
        ``derivative=ad.differences.Central(step=1e-3)``. ``workers``, ``timeout``, ``retries``,
        ``progress`` and ``cache`` make an `adjoint.Evaluation`.

    Returns
    -------
    External
        A callable on tensors.

    Examples
    --------
    >>> import adjoint as ad
    >>> import numpy as np
    >>> f = ad.external(lambda x: np.sin(x).sum())
    >>> x = ad.tensor([0.0, 1.0], dtype=ad.float64, requires_grad=True)
    >>> f(x).backward()
    >>> x.grad
    tensor([1.0000, 0.5403], dtype=torch.float64)
    """
    options: dict[str, Any] = {**locals(), **short}
    del options["function"], options["short"]
    if linear and derivative not in ("central", "linear"):
        raise ValueError(f"linear=True and derivative={derivative!r} are both given; omit one")
    method, evaluation = _resolved("linear" if linear else derivative, evaluate, short)
    if function is None:
        return functools.partial(external, **options)
    if not callable(function):
        raise TypeError(f"external() needs a function, got {type(function).__name__}")
    if arrays not in ("numpy", "tensor"):
        raise ValueError(f"arrays= is 'numpy' or 'tensor', got {arrays!r}")
    name = name or name_of(function)
    given = Given(jacobian, vjp, jvp, name, arrays == "tensor")
    _check_differences(method, bool(given), elementwise, sparsity, noise)
    fixed = nondifferentiable
    mode = ("t" if arrays == "tensor" else "") + ("w" if writable else "")
    definition = Definition(
        function=function,
        name=name,
        evaluator=Evaluator(function, name, evaluation, mode),
        given=given,
        plan=Plan(
            method,
            exact=bool(given),
            elementwise=elementwise,
            sparsity=sparsity,
            bounds=bounds,
            noise=noise,
            verify=verify,
        ),
        static=Static(function, static),
        nondifferentiable=[fixed] if isinstance(fixed, (int, str)) else list(fixed),
        batched=batched,
    )
    return External(definition)


def numpy_function(function: Callable[..., Any], **options: Any) -> External:
    """Give one of NumPy's or SciPy's elementwise functions a derivative: a ufunc such as ``erf``.

    The same as ``external(function, elementwise=True)`` for a ufunc, and ``external(function)`` for
    any other function.

    Parameters
    ----------
    function
        Takes and returns NumPy arrays.
    **options
        As for `external`.

    Examples
    --------
    >>> import adjoint as ad
    >>> import numpy as np
    >>> sinc = ad.numpy_function(np.sinc)
    >>> x = ad.tensor([0.5, 1.0], dtype=ad.float64, requires_grad=True)
    >>> sinc(x).sum().backward()
    >>> x.grad
    tensor([-1.2732, -1.0000], dtype=torch.float64)
    """
    exact = any(options.get(k) is not None for k in ("jacobian", "vjp", "jvp", "sparsity"))
    stencil = isinstance(resolve(options.get("derivative", "central"), {}), Stencil)
    single = isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None
    made: External
    if not single or exact or not stencil:
        made = external(function, **options)
        return made
    made = external(function, **{"elementwise": True, **options})
    return Ufunc(made.definition)


class Ufunc(External):
    """An elementwise function of NumPy, which broadcasts its arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function; tensors of several shapes are broadcast here, on the graph."""
        shapes = {np.shape(a) for a in args}
        if (
            self.definition.plan.elementwise
            and len(shapes) > 1
            and any(isinstance(a, Tensor) for a in args)
        ):
            shape = np.broadcast_shapes(*shapes)
            args = tuple(a.expand(shape) if isinstance(a, Tensor) else a for a in args)
        return super().__call__(*args, **kwargs)
