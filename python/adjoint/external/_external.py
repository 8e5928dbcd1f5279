"""`external`: a function that autograd cannot see, as a function with a derivative.

Read next: _call.py (what a call does), _methods.py (the choices of ``derivative=``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint import _tree
from adjoint._core import Tensor

from ._arguments import Arguments, Static, as_array, name_of
from ._call import Call, TensorCall
from ._colouring import ColouredPattern, restricted
from ._coordinates import Coordinates
from ._elementwise import masks_needed
from ._evaluate import Evaluator
from ._function import ExternalFunction
from ._methods import NAMES, evaluations
from ._outputs import tensor_dtype
from ._probe import PAIRS, ROUGH
from ._repeats import looks_at_repeats
from ._tiny import count_tiny
from ._workers import Workers

__all__ = ["Cost", "External", "external", "numpy_function"]


class Cost(NamedTuple):
    """What `External.cost` returns: evaluations of the function, before any is made."""

    forward: int
    vjp: int
    jvp: int
    first: int  # more, once: the checks and the choice of steps at the first derivative
    derivative_calls: int  # calls of a jacobian=, vjp= or jvp= that was given
    text: str

    def __str__(self) -> str:
        return self.text


class External:
    """A callable on tensors made by `external`; see there for the options."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function = function
        self.name: str = options["name"] or name_of(function)
        self.derivative: str = options["derivative"]
        self.jacobian_given = options["jacobian"]
        self.vjp, self.jvp = options["vjp"], options["jvp"]
        self.elementwise: bool = options["elementwise"]
        self.sparsity = options["sparsity"]
        self.step, self.scale = options["step"], options["scale"]
        self.bounds, self.noise = options["bounds"], options["noise"]
        self.probes: bool = options["probe"]
        self.directions: int = options["directions"]
        self.seed: int = options["seed"]
        self.arrays: str = options["arrays"]
        self.batched: bool = options["batched"]
        self.exact = not (self.jacobian_given is self.vjp is self.jvp is None)
        self.differences = not self.exact
        self._check(options)
        self.static = Static(function, options["static"])
        fixed = options["nondifferentiable"]
        self.nondifferentiable: Sequence[int | str] = (
            [fixed] if isinstance(fixed, (int, str)) else list(fixed)
        )
        self.workers = Workers(options["workers"], options["timeout"])
        mode = ("t" if self.arrays == "tensor" else "") + ("w" if options["writable"] else "")
        self.evaluator = Evaluator(
            function, self.name, self.workers, options["retries"], mode, options["progress"]
        )
        self.rng = np.random.default_rng(self.seed)
        self.verified: set[str] = set()  # what was found to hold at the first derivative
        self.steps_found: dict[str, tuple[float, float, float]] = {}
        self.error: Any = None  # of the last Jacobian, by derivative="richardson"
        self._pattern: Any = None
        self._vjp_output, self._jvp_output = _takes_output(self.vjp), _takes_output(self.jvp)
        # A call on floating tensors alone needs no looking into structures: see _call.py.
        self._direct = not (self.static or self.nondifferentiable or mode or options["retries"])
        self._prepared: dict[int, Arguments] = {}
        functools.update_wrapper(self, function, updated=())

    def _check(self, options: dict[str, Any]) -> None:
        if not callable(self.function):
            raise TypeError(f"external() needs a function, got {type(self.function).__name__}")
        if self.derivative not in NAMES:
            raise ValueError(
                f"derivative= is one of {', '.join(map(repr, NAMES))}; got {self.derivative!r}"
            )
        if self.arrays not in ("numpy", "tensor"):
            raise ValueError(f"arrays= is 'numpy' or 'tensor', got {self.arrays!r}")
        for what in ("jacobian", "vjp", "jvp"):
            if options[what] is not None and not callable(options[what]):
                raise TypeError(f"{what}= takes a function, got {type(options[what]).__name__}")
        if self.exact and (self.elementwise or self.sparsity is not None):
            raise ValueError(
                "elementwise= and sparsity= say how to difference; with jacobian=, vjp= or jvp= "
                "nothing is differenced. fix: leave one of them away"
            )
        if (self.elementwise or self.sparsity is not None) and self.derivative not in (
            "forward",
            "central",
        ):
            raise ValueError(
                "elementwise= and sparsity= go with derivative='central' or 'forward', not "
                f"{self.derivative!r}"
            )
        if self.elementwise and self.sparsity is not None:
            raise ValueError("elementwise=True already says what is sparse; leave sparsity= away")
        if self.noise is not None and not 0 < self.noise < 1:
            raise ValueError(
                f"noise= is the relative error of the outputs, between 0 and 1; got {self.noise!r}"
            )
        if self.directions < 1:
            raise ValueError(f"directions= must be at least 1, got {self.directions}")
        if options["retries"] < 0:
            raise ValueError(f"retries= must not be negative, got {options['retries']}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function on tensors, arrays, numbers and composites of them."""
        if self._direct and args and not kwargs:
            for value in args:
                if not isinstance(value, Tensor) or not value.is_floating_point():
                    break
            else:
                direct = TensorCall(self, args)
                return direct.rebuild(ExternalFunction.apply(direct, *args))
        call = Call(self, args, kwargs)
        tensors = call.tensors()
        made: Sequence[Tensor]
        made = ExternalFunction.apply(call, *tensors) if tensors else call.run(tensors, False)
        return call.rebuild(made)

    def __repr__(self) -> str:
        how = "given derivative" if self.exact else f"derivative={self.derivative!r}"
        return f"<external {self.name}: {how}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def close(self) -> None:
        """End the processes or threads of ``workers=``; the next derivative starts them again."""
        self.workers.close()

    def prepared(self, count: int) -> Arguments:
        """The form of a call with so many tensors, made once."""
        found = self._prepared.get(count)
        if found is None:
            found = self._prepared[count] = Arguments.of_tensors(count, self.static)
        return found

    # --- what the derivatives ask for -----------------------------------------------------------

    def as_taken(self, tree: Any) -> Any:
        """Arrays in a structure as tensors, if the function takes those."""
        if self.arrays != "tensor":
            return tree
        import adjoint

        leaves, spec = _tree.flatten(tree)
        made = [
            adjoint.tensor(np.asarray(a)) if isinstance(a, (np.ndarray, np.generic)) else a
            for a in leaves
        ]
        return _tree.unflatten(spec, made)

    def call_vjp(self, grad: Any, args: Any, kwargs: Any, output: Any) -> Any:
        """Call the user's vjp; with ``output=`` if it takes that."""
        extra = {"output": output} if self._vjp_output else {}
        return self.vjp(grad, *args, **kwargs, **extra)

    def call_jvp(self, tangents: Any, args: Any, kwargs: Any, output: Any) -> Any:
        """Call the user's jvp; with ``output=`` if it takes that."""
        extra = {"output": output} if self._jvp_output else {}
        return self.jvp(tangents, *args, **kwargs, **extra)

    def per_leaf(self, raw: Any, arguments: Arguments, what: str) -> list[Any]:
        """What a user's vjp returned, as one gradient per leaf of the arguments."""
        count = len(arguments.specs)
        if count == 1 and not (isinstance(raw, tuple) and len(raw) == 1):
            raw = (raw,)
        if not isinstance(raw, (tuple, list)) or len(raw) != count:
            # Static arguments have no gradient; leaving them out is as clear as None.
            free = _free_arguments(arguments)
            if isinstance(raw, (tuple, list)) and len(raw) == len(free):
                items = iter(raw)
                raw = [next(items) if i in free else None for i in range(count)]
            elif len(free) == 1 and not isinstance(raw, (tuple, list)):
                raw = [raw if i in free else None for i in range(count)]
            else:
                got = len(raw) if isinstance(raw, (tuple, list)) else f"one {type(raw).__name__}"
                raise ValueError(
                    f"the {what}= of {self.name} must return one gradient per argument "
                    f"({count}), None where there is none; got {got}"
                )
        return arguments.leaves_of(raw)

    def pattern(self, problem: Any) -> ColouredPattern:
        """The coloured sparsity pattern, restricted to the inputs that are asked for."""
        key = (problem.outputs.size, problem.inputs.size, tuple(problem.inputs.names))
        if self._pattern is None or self._pattern[0] != key:
            shape = (problem.outputs.size, problem.inputs.size)
            arguments = problem.arguments
            every = Coordinates([problem.leaves[k] for k in arguments.inputs], arguments.inputs)
            wanted = [arguments.inputs.index(k) for k in problem.wanted]
            given = restricted(self.sparsity, every.sizes, wanted)
            self._pattern = (key, ColouredPattern(given, shape, self.name))
        pattern: ColouredPattern = self._pattern[1]
        return pattern

    def one_rule(self) -> str:
        """Why forward and backward mode cannot disagree: they are one rule; or an empty string."""
        given = [
            k
            for k, f in (("jacobian", self.jacobian_given), ("vjp", self.vjp), ("jvp", self.jvp))
            if f is not None
        ]
        if len(given) > 1:
            return ""
        if given:
            return {
                "jacobian": "the jvp and the vjp are derived from the jacobian",
                "vjp": "the jvp is derived from the vjp",
                "jvp": "the vjp is derived from the jvp",
            }[given[0]]
        alone = self.derivative in ("central", "richardson") and not self.elementwise
        return "" if alone else "the jvp and the vjp are derived from the same differences"

    # --- questions ------------------------------------------------------------------------------

    def jacobian(self, *args: Any, **kwargs: Any) -> Any:
        """Return the Jacobian at an input, as a matrix of output by input coordinates.

        Inputs are all floats in the arguments that are tensors, one after the other; outputs all
        differentiable ones.
        """
        call = Call(self, args, kwargs)
        tensors = call.tensors()
        if not tensors:
            raise TypeError("jacobian() differentiates by tensors, and none was given")
        made, _ = call(tensors)
        found = call.problem([*tensors, *made], [True] * len(tensors)).jacobian()
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
        call = Call(self, args, kwargs)
        leaves = call.leaves
        wanted = [k for k in call.places if leaves[k].requires_grad] or call.places
        asked = [leaves[k] for k in wanted]
        colours = None
        if self.sparsity is not None and not self.exact:
            inputs = call.arguments.inputs
            every = [_count(leaves[k]) for k in inputs]
            given = restricted(self.sparsity, every, [inputs.index(k) for k in wanted])
            colours = ColouredPattern(given, tuple(np.shape(given)), self.name).count
        return _cost(self, [_count(t) for t in asked], self._tiny(asked), colours)

    def _tiny(self, asked: Sequence[Any]) -> list[int]:
        """How many elements of each input may have to be stepped twice (_tiny.py)."""
        given = [v is not None and not isinstance(v, dict) for v in (self.step, self.scale)]
        kinds = ("central", "forward", "richardson")
        if any(given) or self.derivative not in kinds or not self.differences:
            return []
        return [count_tiny(as_array(t.detach()), self.noise or 0.0) for t in asked]


def _count(leaf: Any) -> int:
    """The coordinates of an input."""
    if isinstance(leaf, Tensor):
        return leaf.numel() * (2 if leaf.dtype.is_complex else 1)
    return int(np.size(leaf)) * (2 if np.iscomplexobj(leaf) else 1)


def _cost(e: External, sizes: Sequence[int], tiny: Sequence[int], colours: int | None) -> Cost:
    n, arrays = sum(sizes), len(sizes)
    if e.exact:
        kinds = [
            k for k, f in (("jacobian", e.jacobian_given), ("vjp", e.vjp), ("jvp", e.jvp)) if f
        ]
        calls = n if kinds == ["jvp"] else 1
        text = f"{e.name}: 1 evaluation; a vjp calls {kinds[0]}= {calls} times, no evaluations"
        return Cost(1, 0, 0, 0, calls, text)
    vjp = evaluations(e, n, arrays, colours)
    cheap = e.derivative in ("central", "richardson") and not e.elementwise
    again = sum(tiny)
    if again and e.elementwise:
        vjp += 2 * sum(k > 0 for k in tiny)
    elif again:
        vjp += evaluations(e, again, arrays, None if colours is None else min(colours, again))
    jvp = (4 if again else 2) if cheap else vjp
    first = int(looks_at_repeats(e))
    if e.elementwise:
        first += sum(masks_needed(size) for size in sizes)
    elif e.derivative == "complex-step" or e.sparsity is not None:
        first += 2
    if e.probes and e.step is None and (e.noise or 0.0) < ROUGH and e.derivative != "complex-step":
        first += 2 * PAIRS * arrays * (1 if e.bounds is None else 2)  # elements at a bound apart
    most = "at most " if e.derivative == "richardson" or again else ""
    workers = f" on {e.workers.count} workers" if not e.workers.serial else ""
    text = (
        f"{e.name}: 1 evaluation; a vjp by {n} inputs takes {most}{vjp} more{workers} "
        f"({e.derivative}), a jvp {'at most ' if again else ''}{jvp}; "
        f"the first derivative about {first} more for its checks"
    )
    return Cost(1, vjp, jvp, first, 0, text)


def _takes_output(function: Any) -> bool:
    try:
        return "output" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _free_arguments(arguments: Arguments) -> list[int]:
    """The arguments that hold inputs."""
    free: list[int] = []
    at = 0
    for i, spec in enumerate(arguments.specs):
        count = 1 if spec is None else spec.num_leaves
        if any(k in arguments.inputs for k in range(at, at + count)):
            free.append(i)
        at += count
    return free


def external(
    function: Callable[..., Any] | None = None,
    *,
    derivative: str = "central",
    jacobian: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | None = None,
    elementwise: bool = False,
    sparsity: Any = None,
    step: Any = None,
    scale: Any = None,
    bounds: Any = None,
    noise: float | None = None,
    probe: bool = True,
    directions: int = 8,
    seed: int = 0,
    static: Any = (),
    nondifferentiable: Any = (),
    arrays: str = "numpy",
    writable: bool = False,
    batched: bool = False,
    workers: Any = None,
    timeout: float | None = None,
    retries: int = 0,
    progress: bool | None = None,
    name: str | None = None,
) -> Any:
    """Give a function that autograd cannot see a derivative.

    Parameters
    ----------
    function
        Takes and returns NumPy arrays, floats, or composites of them. Left away, a decorator is
        returned.
    derivative
        How it is differentiated if nothing better is given: ``"central"`` (two evaluations per
        input), ``"forward"`` (one, less exact), ``"complex-step"`` (one, exact; the function must
        compute with complex numbers), ``"richardson"`` (up to 16, nearly exact, with an error
        estimate in ``.error``), ``"spsa"`` (random directions, for many inputs).
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
        Verified at the first derivative.
    sparsity
        The pattern of the Jacobian, dense or scipy.sparse: inputs that share no output are
        perturbed together. Verified at the first derivative.
    step, scale, bounds
        The absolute step; the typical magnitude of the input (for values near zero); a pair
        (low, high) that is never left. One for all inputs, or a dict by argument or path.
    noise
        The relative error of the outputs, if larger than their dtype's: 1e-6 for text of 6 digits.
        A function that returns other values for the same input is refused without it.
    probe
        Whether the first derivative looks at the function to choose its steps.
    directions, seed
        Of ``"spsa"``.
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
    workers
        Where the evaluations of a Jacobian run: None (here), a number of processes, ``"threads"``,
        or an Executor.
    timeout, retries
        Seconds that an evaluation may take on a worker; how often one that failed, hung or lost its
        process is tried again.
    progress
        Whether to show a progress bar; None for one after two seconds, on a terminal.
    name
        What messages call the function.

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
    options = dict(locals())
    del options["function"]
    if function is None:
        return lambda f: External(f, **options)
    return External(function, **options)


def _options(**given: Any) -> dict[str, Any]:
    """All options of `external`, those that were not given by default."""
    found = inspect.signature(external).parameters.values()
    known = {p.name: p.default for p in found if p.kind is p.KEYWORD_ONLY}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise TypeError(f"external() got an unexpected keyword argument {unknown[0]!r}")
    return {**known, **given}


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
    plain = options.get("derivative", "central") in ("central", "forward")
    single = isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None
    if not single or exact or not plain:
        made: External = external(function, **options)
        return made
    options.setdefault("elementwise", True)
    return Ufunc(function, **_options(**options))


class Ufunc(External):
    """An elementwise function of NumPy, which broadcasts its arguments."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the function; tensors of several shapes are broadcast here, on the graph."""
        shapes = {np.shape(a) for a in args}
        if self.elementwise and len(shapes) > 1 and any(isinstance(a, Tensor) for a in args):
            shape = np.broadcast_shapes(*shapes)
            args = tuple(a.expand(shape) if isinstance(a, Tensor) else a for a in args)
        return super().__call__(*args, **kwargs)
