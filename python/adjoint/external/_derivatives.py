"""The derivatives of an external at one point, from whatever the user gave.

``pull`` is J'u, ``push`` Jv, ``bend`` and ``twist`` their derivatives along a direction. A Jacobian
that had to be computed is kept. Read next: _methods.py, _function.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor import creation as _creation

from ._arguments import Arguments, as_array
from ._coordinates import Coordinates
from ._differences import direction_steps, directional, shortened, with_room
from ._elementwise import quick_slopes
from ._errors import ExternalError
from ._jacobian import Dense, Jacobian, from_user
from ._methods import jacobian_error, numerical_jacobian
from ._outputs import PLAIN, Outputs, owned
from ._probe import known_step, probe
from ._problem import Problem
from ._repeats import verify_repeats
from ._steps import Steps, slope
from ._tiny import choose, lost, warn, widened

if TYPE_CHECKING:
    from ._external import External

__all__ = ["Derivatives"]


class Derivatives:
    """The four linear maps at one input.

    It can be called, since `Function.apply` searches other objects for hidden tensors.
    """

    def __init__(
        self,
        external: External,
        arguments: Arguments,
        leaves: Sequence[Any],
        wanted: Sequence[int],
        outputs: Outputs,
        tensors: Sequence[Any],
        results: Sequence[Any],
    ) -> None:
        self.external = external
        self.arguments = arguments
        self.leaves = list(leaves)
        self.wanted = list(wanted)
        self.form = outputs
        self.tensors = [(t.dtype, t.shape) for t in tensors]
        self.results = [(t.dtype, t.shape) for t in results]
        self.origin: Any = None  # in a recording: where it comes from (_recorded.py)
        self.axes: tuple[int, ...] = ()  # leading axes along which samples are independent
        self._point: Problem | None = None
        self._steps: Steps | None = None
        self._jacobian: Jacobian | None = None
        self._slopes: Any = None  # of an elementwise function of one array
        self._lock = threading.RLock()

    @property
    def point(self) -> Problem:
        """The function on vectors, made at its first use: a vjp that was given needs none."""
        if self._point is None:
            self._point = Problem(
                self.external.evaluator, self.arguments, self.leaves, self.wanted, self.form
            )
        return self._point

    # --- tensors and vectors --------------------------------------------------------------------

    def useful_positions(self) -> list[int]:
        """The differentiable outputs, counted among those that are tensors."""
        numeric = self.form.numeric()
        return [numeric.index(k) for k in self.form.differentiable]

    def useful(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients of the differentiable outputs."""
        return [grads[k] for k in self.useful_positions()]

    def _vector(self, tensors: Sequence[Any], space: Coordinates) -> Any:
        arrays = [None if t is None else as_array(t) for t in tensors]
        return space.pack(arrays)

    def _as_inputs(self, vector: Any) -> list[Tensor]:
        return [
            _tensor(a, *t)
            for a, t in zip(self.point.inputs.unpack(vector), self.tensors, strict=True)
        ]

    def _as_outputs(self, vector: Any) -> list[Tensor]:
        kinds = [self.results[k] for k in self.useful_positions()]
        return [
            _tensor(a, *t) for a, t in zip(self.point.outputs.unpack(vector), kinds, strict=True)
        ]

    # --- the maps -------------------------------------------------------------------------------

    def __call__(self, u: Sequence[Any]) -> list[Tensor]:
        """J'u."""
        if self.external.vjp is not None and self._jacobian is None:
            given = [as_array(t) for t in u]
            # Owned: a vjp may return its argument, or an array that it keeps.
            arrays = owned(self._vjp_arrays(given))
            return [_adopted(a, *t) for a, t in zip(arrays, self.tensors, strict=True)]
        slopes = self._elementwise_slopes()
        if slopes is not None:
            # In memory of a tensor, which a leaf takes as its gradient without a copy.
            made = _core.empty(slopes.shape, dtype=u[0].dtype)
            buffer: Any = made
            np.multiply(slopes, as_array(u[0]), out=np.asarray(memoryview(buffer)))
            return [made]
        return self._as_inputs(self.pull_vector(self._vector(u, self.point.outputs)))

    def push(self, v: Sequence[Any]) -> list[Tensor]:
        """Jv."""
        return self._as_outputs(self.push_vector(self._vector(v, self.point.inputs)))

    def bend(self, u: Sequence[Any], w: Sequence[Any]) -> list[Tensor]:
        """The derivative of J'u along w."""
        cotangent = self._vector(u, self.point.outputs)

        def of(at: Derivatives) -> Any:
            return at.pull_vector(cotangent)

        whole = float(np.abs(cotangent) @ np.abs(self.point.y))
        return self._as_inputs(self._along(w, of, lambda scale: whole / scale))

    def twist(self, v: Sequence[Any], w: Sequence[Any]) -> list[Tensor]:
        """The derivative of Jv along w."""
        tangent = self._vector(v, self.point.inputs)

        def of(at: Derivatives) -> Any:
            return at.push_vector(tangent)

        def size(scale: Any) -> Any:
            return np.abs(self.point.y) * np.max(np.abs(tangent) / scale, initial=0.0)

        return self._as_outputs(self._along(w, of, size))

    def pull_vector(self, u: Any) -> Any:
        """J'u on coordinates."""
        external = self.external
        if external.vjp is not None and self._jacobian is None:
            return self.point.inputs.pack(self._vjp_arrays(self.point.outputs.unpack(u)))
        return self.jacobian().pull(u)

    def push_vector(self, v: Any) -> Any:
        """Jv on coordinates."""
        external = self.external
        if external.jvp is not None:
            return self._given_jvp(v)
        cheap = external.differences and external.derivative in ("central", "richardson")
        if self._jacobian is None and cheap and not external.elementwise:
            verify_repeats(external, self.point, self.steps())
            probe(external, self.point, self.steps())
            return directional(self.point, self.steps().together(), v)
        return self.jacobian().push(v)

    # --- the Jacobian ---------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The steps of all inputs, from the options."""
        if self._steps is None:
            e = self.external
            self._steps = Steps(self.point, e.step, e.scale, e.bounds, e.noise)
        return self._steps

    def jacobian(self) -> Jacobian:
        """The Jacobian, computed at its first use."""
        with self._lock:
            if self._jacobian is None:
                self._jacobian = self._compute()
        return self._jacobian

    def _compute(self) -> Jacobian:
        external = self.external
        if external.jacobian_given is not None:
            return self._given_jacobian()
        n, m = self.point.inputs.size, self.point.outputs.size
        if external.vjp is not None:
            rows = [self.pull_vector(row) for row in np.eye(m)]
            return Dense(np.stack(rows) if rows else np.zeros((0, n)))
        if external.jvp is not None:
            columns = [self._given_jvp(column) for column in np.eye(n)]
            return Dense(np.stack(columns, 1) if columns else np.zeros((m, 0)))
        return numerical_jacobian(external, self.point, self.steps(), self.axes)

    def _given_jacobian(self) -> Jacobian:
        external = self.external
        args, kwargs = self.arguments.rebuild(self.leaves)
        places = self.arguments.inputs
        names = self.arguments.names()
        all_inputs = Coordinates([self.leaves[k] for k in places], [names[k] for k in places])
        wanted = [places.index(k) for k in self.wanted]
        raw = external.jacobian_given(*external.as_taken(args), **external.as_taken(kwargs))
        return from_user(raw, all_inputs, wanted, self.point.outputs, external.name)

    def _elementwise_slopes(self) -> Any:
        """The diagonal of an elementwise function of one array, or None; computed once."""
        external = self.external
        plain = external.step is None and external.scale is None and external.bounds is None
        if self._jacobian is not None or not (external.elementwise and plain):
            return None
        # The first derivative goes the long way, which verifies.
        if self.form.spec or len(self.wanted) != 1:
            return None
        (k,), (y,) = self.wanted, self.form.leaves
        name = self.arguments.names()[k]
        if f"elementwise {name}" not in external.verified:
            return None
        with self._lock:
            if self._slopes is None:
                noise = max(external.noise or 0.0, float(np.finfo(y.dtype).eps))
                known = known_step(external, name, self.leaves[k].dtype, noise)
                self._slopes = quick_slopes(
                    external.evaluator, self._with(k), self.leaves[k], y, noise, known
                )
            return self._slopes

    def _with(self, k: int) -> Any:
        """A function of leaf ``k`` that returns the arguments."""

        def rebuild(leaf: Any) -> Any:
            return self.arguments.rebuild([*self.leaves[:k], leaf, *self.leaves[k + 1 :]])

        return rebuild

    def _vjp_arrays(self, u: Sequence[Any]) -> list[Any]:
        """What the user's vjp returns for the inputs that are asked for."""
        external = self.external
        args, kwargs = self.arguments.rebuild(self.leaves)
        arrays = list(self.form.leaves)
        for k, array in zip(self.form.differentiable, u, strict=True):
            arrays[k] = array
        for k in self.form.numeric():
            if k not in self.form.differentiable:
                arrays[k] = None
        grad = self._structured(arrays)
        output = self._structured(self.form.leaves)
        raw = external.call_vjp(
            external.as_taken(grad),
            external.as_taken(args),
            external.as_taken(kwargs),
            external.as_taken(output),
        )
        found = external.per_leaf(raw, self.arguments, "vjp")
        del raw
        names = self.arguments.names
        return [
            _like(found[k], self.leaves[k], names, k, "vjp", external.name) for k in self.wanted
        ]

    def _structured(self, leaves: Sequence[Any]) -> Any:
        from adjoint import _tree

        return leaves[0] if self.form.spec is None else _tree.unflatten(self.form.spec, leaves)

    def _given_jvp(self, v: Any) -> Any:
        external = self.external
        args, kwargs = self.arguments.rebuild(self.leaves)
        leaves: list[Any] = [None] * len(self.leaves)
        for k in self.arguments.inputs:
            leaves[k] = np.zeros_like(self.leaves[k])
        for k, array in zip(self.wanted, self.point.inputs.unpack(v), strict=True):
            leaves[k] = array if array.ndim else array[()]
        positional, named = self.arguments.rebuild(leaves)
        tangents = (*positional, *named.values())
        given = tangents[0] if len(tangents) == 1 else tangents
        raw = external.call_jvp(
            external.as_taken(given),
            external.as_taken(args),
            external.as_taken(kwargs),
            external.as_taken(self._structured(self.form.leaves)),
        )
        from ._outputs import plain_leaves

        found, spec = plain_leaves(raw)
        names = self.form.names
        if spec != self.form.spec:
            raise ValueError(
                f"the jvp= of {external.name} must return a tangent built like its result, "
                f"got {spec if spec is not None else 'one value'}"
            )
        picked = [
            _like(found[k], self.form.leaves[k], names, k, "jvp", external.name)
            for k in self.form.differentiable
        ]
        return self.point.outputs.pack(picked)

    # --- second order ---------------------------------------------------------------------------

    def _along(self, w: Sequence[Any], of: Any, size: Callable[[Any], Any]) -> Any:
        """The derivative along w of a vector made from the derivatives: a difference of two.

        ``size`` tells that of the vector's elements from the magnitudes of the inputs, to which
        their rounding is proportional.
        """
        external = self.external
        if external.differences and external.derivative == "spsa":
            raise ExternalError(
                f"{external.name} has no second derivative: derivative='spsa' is an estimate, "
                "whose differences are noise. fix: derivative='central' or 'complex-step', or give "
                "jacobian= or a vjp= with arrays='tensor'"
            )
        direction = self._vector(w, self.point.inputs)
        if not direction.any():
            return np.zeros(np.shape(size(self.steps().scale)))
        # The step of a first difference is too small for a second one.
        steps = Steps(self.point, None, external.scale, external.bounds, None)
        first = self.steps()
        if external.differences:
            probe(external, self.point, first)
        steps.noise = steps.rounding = jacobian_error(external, first.rounding)
        if first.relative is not None:
            length = first.length(1 if external.derivative == "forward" else 2)
            steps.relative = length * steps.noise ** (1 / 3)
        found = self._difference(direction, of, steps)
        if widened(steps) is None:
            return found
        width = abs(direction_steps(steps, direction, 2)[0])
        here = np.abs(of(self))
        least = np.fmax(here, size(np.maximum(steps.scale, 1.0)))
        wide = shortened(steps, direction, lost(steps, found, 2 * width, least))
        if wide is None:
            return found
        again = np.full_like(found, np.nan)
        # Whatever a derivative of the user's raises far away: the first result stands.
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            again = self._difference(direction, of, wide)
        far = abs(direction_steps(wide, direction, 2)[0])
        whole = np.fmax(size(wide.scale), np.fmax(here, np.abs(again) * far))
        bad = lost(steps, found, 2 * width, whole)
        take, unsure = choose(steps, found, 2 * width, whole, again)
        if (bad & unsure).any():
            index = int(np.argmax((wide.scale != steps.scale) & (direction != 0)))
            warn(self.point, index, np.ones(1, bool), far)
        return np.where(bad & take, again, found)

    def _difference(self, direction: Any, of: Any, steps: Steps) -> Any:
        external = self.external
        found: Any = 0.0
        for part in with_room(steps, direction):
            a, b = direction_steps(steps, part, 2)
            if a == 0:
                raise ValueError(
                    f"the bounds of {external.name} leave no room to step along the direction"
                )
            ends = [of(self.moved(part, t, steps)) for t in (a, b)]
            wa, wb, w0 = (float(x) for x in slope(np.float64(0), np.float64(a), np.float64(b)))
            found = found + wa * ends[0] + wb * ends[1] + (w0 * of(self) if w0 else 0.0)
        return found

    def moved(self, direction: Any, t: float, steps: Steps) -> Derivatives:
        """The derivatives at another input."""
        x = np.clip(self.point.representable(self.point.x + t * direction), steps.low, steps.high)
        leaves = list(self.leaves)
        for k, array in zip(self.wanted, self.point.inputs.unpack(x), strict=True):
            leaves[k] = array if array.ndim else array[()]
        args, kwargs = self.arguments.rebuild(leaves)
        where = f"x {'-' if t < 0 else '+'} {abs(t):.3g} * direction"
        raw = self.external.evaluator.one(args, kwargs, where)
        outputs = Outputs([raw], self.external.nondifferentiable, self.external.name)
        other: Derivatives = object.__new__(Derivatives)
        other.__dict__.update(self.__dict__)
        other.leaves, other.form = leaves, outputs
        other._point = other._steps = other._jacobian = other._slopes = None
        other._lock = threading.RLock()
        return other


def _adopted(array: Any, dtype: Any, shape: Any) -> Tensor:
    """An array that was found to be owned: a leaf takes it as its gradient without a copy."""
    if type(array) is np.ndarray and array.dtype in PLAIN and array.flags.c_contiguous:
        made = _core._adopt_buffer(array)
        return made if made.dtype == dtype and array.ndim else made.to(dtype).reshape(shape)
    return _tensor(array, dtype, shape)


def _tensor(array: Any, dtype: Any, shape: Any) -> Tensor:
    tensor = _creation.from_numpy(array) if array.ndim else _creation.tensor(array)
    return tensor if tensor.dtype == dtype and array.ndim else tensor.to(dtype).reshape(shape)


def _like(
    found: Any, wanted: Any, names: Callable[[], list[str]], k: int, what: str, function: str
) -> Any:
    """What a user's derivative returned for one array, checked."""
    if found is None:
        return np.zeros(np.shape(wanted), np.asarray(wanted).dtype)
    array = np.asarray(found.detach().numpy() if isinstance(found, Tensor) else found)
    if array.shape != np.shape(wanted):
        raise ValueError(
            f"the {what}= of {function} returned shape {list(array.shape)} for {names()[k]}, "
            f"which has shape {list(np.shape(wanted))}"
        )
    if array.dtype.kind == "c" and np.asarray(wanted).dtype.kind != "c":
        raise TypeError(
            f"the {what}= of {function} returned {array.dtype} for {names()[k]}, a real input"
        )
    return array
