"""The derivatives of an external at one point, from whatever the user gave.

``pull`` is J'u, ``push`` Jv, ``pull_derivative`` and ``push_derivative`` their derivatives along
a direction. A Jacobian that had to be computed is kept. Read next: _user_derivatives.py,
_point.py and `adjoint.numeric._plan`.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor import creation as _creation
from adjoint.numeric._coordinates import Coordinates
from adjoint.numeric._directional import CENTRAL, direction_steps, shortened, with_room
from adjoint.numeric._elementwise import same_shapes
from adjoint.numeric._elementwise_array import quick_slopes
from adjoint.numeric._errors import ExternalError
from adjoint.numeric._jacobians import Dense, Jacobian, Sparse
from adjoint.numeric._method import Stencil
from adjoint.numeric._second import effort_of
from adjoint.numeric._second_error import FLAT, SecondDerivatives, accuracy, warn_of_second
from adjoint.numeric._sparse_jacobian import ElementPattern, row_colours
from adjoint.numeric._steps import Steps
from adjoint.numeric._tiny_elements import choose, lost, warn, widened

from ._arguments import Arguments, as_array
from ._definition import Definition
from ._double import in_float64
from ._outputs import PLAIN, Outputs, owned
from ._point import ExternalPoint

__all__ = ["SHORTER", "Derivatives"]


_FEW = 16  # rows of a Jacobian that are found by calls of a vjp, for the sake of one product
SHORTER = (0.25, 0.025, 2.5e-3, 2.5e-4)  # steps of differences of derivatives that are compared
_ROUNDINGS = 16.0  # by which differences of derivatives may be apart
_PUSH = 4  # evaluations of a product by differences


class Derivatives:
    """The four linear maps at one input.

    It can be called, since `Function.apply` searches other objects for hidden tensors.
    """

    def __init__(
        self,
        definition: Definition,
        arguments: Arguments,
        leaves: Sequence[Any],
        wanted: Sequence[int],
        outputs: Outputs,
        tensors: Sequence[Any],
        results: Sequence[Any],
        axes: tuple[int, ...],
    ) -> None:
        self.definition = definition
        self.arguments = arguments
        self.leaves = list(leaves)
        self.wanted = list(wanted)
        self.form = outputs
        self.tensors = [(t.dtype, t.shape) for t in tensors]
        self.results = [(t.dtype, t.shape) for t in results]
        self.axes = axes  # leading axes along which samples are independent
        self.origin: Any = None  # in a recording: where it comes from (_host_calls.py)
        self._point: ExternalPoint | None = None
        self._steps: Steps | None = None
        self._jacobian: Jacobian | None = None
        self._curvature: Any = None  # a tuple of it, or of None: see Plan.curvature
        self._claimed: Any = None  # a tuple of the pattern, or of None
        self._suits: bool | None = None  # the steps of differences of derivatives, if it is known
        self._pulled: Any = None  # a cotangent, and J'u of it
        self._wide: Any = None  # a tuple of the same in float64
        self._rounding = 0.0  # of a function that is evaluated with more digits than its own
        self.expected = 1  # products with the Jacobian that are about to be asked for at once
        self._pushes = 0  # evaluations that pushes by differences took
        self._slopes: Any = None  # of an elementwise function of one array
        self._lock = threading.RLock()

    @property
    def point(self) -> ExternalPoint:
        """The function on vectors, made at its first use: a vjp that was given needs none."""
        if self._point is None:
            self._point = ExternalPoint(
                self.definition.evaluator, self.arguments, self.leaves, self.wanted, self.form
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

    def pull(self, u: Sequence[Any]) -> list[Tensor]:
        """J'u."""
        if self.definition.given.vjp is not None and self._jacobian is None:
            # Owned: a vjp may return its argument, or an array that it keeps.
            arrays = owned(self._given_pull([as_array(t) for t in u]))
            return [_adopted(a, *t) for a, t in zip(arrays, self.tensors, strict=True)]
        slopes = self._elementwise_slopes()
        if slopes is not None:
            # In memory of a tensor, which a leaf takes as its gradient without a copy.
            made = _core.empty(slopes.shape, dtype=u[0].dtype)
            buffer: Any = made
            np.multiply(slopes, as_array(u[0]), out=np.asarray(memoryview(buffer)))
            return [made]
        return self._as_inputs(self.pull_vector(self._vector(u, self.point.outputs)))

    __call__ = pull

    def push(self, v: Sequence[Any]) -> list[Tensor]:
        """Jv."""
        return self._as_outputs(self.push_vector(self._vector(v, self.point.inputs)))

    def pull_derivative(self, u: Sequence[Any], w: Sequence[Any]) -> list[Tensor]:
        """The derivative of J'u along w."""
        cotangent = self._vector(u, self.point.outputs)
        direction = self._vector(w, self.point.inputs)
        found = self._curved(
            direction, self.point.inputs.size, lambda c: c.pull(cotangent, direction)
        )
        if found is not None:
            return self._as_inputs(found)

        def of(at: Derivatives) -> Any:
            if at is not self:
                return at.pull_vector(cotangent)
            if self._pulled is None or not np.array_equal(self._pulled[0], cotangent):
                self._pulled = cotangent, np.array(self.pull_vector(cotangent))
            return self._pulled[1]

        whole = float(np.abs(cotangent) @ np.abs(self.point.y))
        found = self._wider()._along(w, of, lambda scale: whole / scale)
        return self._as_inputs(found)

    def push_derivative(self, v: Sequence[Any], w: Sequence[Any]) -> list[Tensor]:
        """The derivative of Jv along w."""
        tangent = self._vector(v, self.point.inputs)
        direction = self._vector(w, self.point.inputs)
        if not tangent.any():
            return self._as_outputs(np.zeros(self.point.outputs.size))
        found = self._curved(
            direction, self.point.outputs.size, lambda c: c.push(tangent, direction)
        )
        if found is not None:
            return self._as_outputs(found)

        def of(at: Derivatives) -> Any:
            return at.push_vector(tangent)

        def size(scale: Any) -> Any:
            return np.abs(self.point.y) * np.max(np.abs(tangent) / scale, initial=0.0)

        return self._as_outputs(self._wider()._along(w, of, size))

    def pull_vector(self, u: Any) -> Any:
        """J'u on coordinates."""
        if self.definition.given.vjp is not None and self._jacobian is None:
            return self.point.inputs.pack(self._given_pull(self.point.outputs.unpack(u)))
        return self.jacobian().pull(u)

    def push_vector(self, v: Any) -> Any:
        """Jv on coordinates."""
        if self.definition.given.jvp is not None:
            return self._given_push(v)
        plan = self.definition.plan
        if self._jacobian is None:
            if (plan.directional or plan.method.flat) and not self._is_whole_cheaper():
                return plan.push(self.point, self.steps(), v)
            found = self._transposed_push(v) if self.definition.given.vjp is not None else None
            if found is not None:
                return found
        return self.jacobian().push(v)

    def _is_whole_cheaper(self) -> bool:
        """Whether the Jacobian takes no more evaluations than the products that are expected.

        Each of those is verified on its own, the Jacobian once.
        """
        plan, inputs, x = self.definition.plan, self.point.inputs, self.point.x
        if self.expected < 2 or plan.method.flat:
            return False
        pattern = self._pattern()
        colours = None if pattern is None else pattern.count
        effort = effort_of([np.abs(x[inputs.part(k)]) for k in range(len(inputs.sizes))])
        price = plan.price(inputs.sizes, [0] * len(inputs.sizes), colours, effort)
        if effort.first_parts > 1:
            return False  # products take inputs of very different sizes apart, and tell more
        return price.vjp <= self.expected * price.jvp

    def _transposed_push(self, v: Any) -> Any:
        """Jv of a function with a vjp, if it takes less than the whole Jacobian; else None.

        By the transpose of a vjp that is recorded; else by a difference along v. So that many of
        them at one point cost no more than twice what is best, the Jacobian is made in the end.
        """
        plan, passes = self.definition.plan, self._passes()
        if passes <= _FEW or self.definition.given.jacobian is not None:
            return None
        if self.definition.given.tensors:
            tangents = dict(zip(self.wanted, self.point.inputs.unpack(v), strict=True))
            found = self.definition.given.transposed(
                self.arguments, self.leaves, tangents, self.form
            )
            if found is not None:
                return self.point.outputs.pack(found)
        self._pushes += _PUSH
        if self._pushes > passes:
            return None
        plan.tangents_differenced = True
        return plan.push(self.point, self.steps(), v)

    def _passes(self) -> int:
        """How many calls of a vjp the Jacobian takes."""
        pattern = self._pattern()
        return self.point.outputs.size if pattern is None else row_colours(pattern)[1]

    def _pattern(self) -> Any:
        """Which entries there are, if the user said so."""
        if self._claimed is None:
            plan, point = self.definition.plan, self.point
            found: Any = None
            if plan.elementwise:
                same_shapes(point)
                found = ElementPattern(point)
            elif plan.sparsity is not None:
                found = plan.pattern(point)
            self._claimed = (found,)
        return self._claimed[0]

    def structure(self) -> Any:
        """Rows, columns and shape of the entries that are known to be all there are; or None."""
        if any(d.kind == "c" for d in (*self.point.inputs.dtypes, *self.point.outputs.dtypes)):
            return None
        pattern = self._pattern()
        if pattern is not None:
            return pattern.rows, pattern.columns, pattern.shape
        if self.definition.given.jacobian is None:
            return None
        matrix: Any = getattr(self.jacobian(), "matrix", None)
        if matrix is None or not hasattr(matrix, "tocoo"):
            return None
        entries = matrix.tocoo()
        return entries.row, entries.col, entries.shape

    # --- the Jacobian ---------------------------------------------------------------------------

    def steps(self) -> Steps:
        """The steps of all inputs, from the options."""
        if self._steps is None:
            self._steps = self.definition.plan.steps(self.point)
        return self._steps

    def jacobian(self) -> Jacobian:
        """The Jacobian, computed at its first use."""
        with self._lock:
            if self._jacobian is None:
                self._jacobian = self._compute()
        return self._jacobian

    def _compute(self) -> Jacobian:
        given = self.definition.given
        if given.jacobian is not None:
            return given.matrix(self.arguments, self.leaves, self.wanted, self.point.outputs)
        n, m = self.point.inputs.size, self.point.outputs.size
        pattern = self._pattern() if given else None
        if given.vjp is not None and pattern is not None:
            return self._by_colours(pattern, *row_colours(pattern), True)
        if given.vjp is not None:
            rows = [self.pull_vector(row) for row in np.eye(m)]
            return Dense(np.stack(rows) if rows else np.zeros((0, n)))
        if given.jvp is not None and pattern is not None:
            return self._by_colours(pattern, pattern.colours, pattern.count, False)
        if given.jvp is not None:
            columns = [self._given_push(column) for column in np.eye(n)]
            return Dense(np.stack(columns, 1) if columns else np.zeros((m, 0)))
        return self.definition.plan.jacobian(self.point, self.steps(), self.axes)

    def _by_colours(self, pattern: Any, colours: Any, count: int, pulled: bool) -> Sparse:
        """The Jacobian from a rule that was given: lines that share nothing in one call."""
        along, across = (
            (pattern.rows, pattern.columns) if pulled else (pattern.columns, pattern.rows)
        )
        rule = self.pull_vector if pulled else self._given_push
        values = np.zeros(len(along))
        for colour in range(count):
            here = colours[along] == colour
            values[here] = rule((colours == colour).astype(float))[across[here]]
        found = Sparse(pattern.rows, pattern.columns, values, pattern.shape)
        if not self.definition.plan.verify:
            return found
        size = pattern.shape[0] if pulled else pattern.shape[1]
        random = np.random.default_rng(self.definition.plan.method.seed).uniform(0.5, 1, size)
        truth = rule(random)
        ours = found.pull(random) if pulled else found.push(random)
        whole = Sparse(pattern.rows, pattern.columns, np.abs(values), pattern.shape)
        scale = (whole.pull if pulled else whole.push)(random) + np.abs(truth)
        wrong = np.abs(ours - truth) > self.point.epsilon() ** 0.5 * scale
        if wrong.any():
            k, where = int(np.argmax(wrong)), self.point.inputs if pulled else self.point.outputs
            raise ExternalError(
                f"sparsity= misses entries: the {'vjp' if pulled else 'jvp'}= of "
                f"{self.definition.name} gives {truth[k]:.6g} for {where.label(k)}, the Jacobian "
                f"with that pattern {ours[k]:.6g}. fix: mark every entry that may be nonzero"
            )
        return found

    def _given_pull(self, u: Sequence[Any]) -> list[Any]:
        given = self.definition.given
        return given.pull(self.arguments, self.leaves, self.wanted, self.form, u)

    def _given_push(self, v: Any) -> Any:
        tangents = dict(zip(self.wanted, self.point.inputs.unpack(v), strict=True))
        found = self.definition.given.push(self.arguments, self.leaves, tangents, self.form)
        return self.point.outputs.pack(found)

    def _elementwise_slopes(self) -> Any:
        """The diagonal of an elementwise function of one array, or None; computed once."""
        plan = self.definition.plan
        if self._jacobian is not None or not plan.quick or not plan.differences:
            return None
        if self.form.spec or len(self.wanted) != 1:
            return None
        (k,), (y,) = self.wanted, self.form.leaves
        name = self.arguments.names()[k]
        # The first derivative goes the long way, which verifies.
        if f"elementwise {name}" not in plan.verified:
            return None
        with self._lock:
            if self._slopes is None:
                self._slopes = quick_slopes(plan, self._evaluate_leaf, name, self.leaves[k], y)
            return self._slopes

    def _evaluate_leaf(self, arrays: Sequence[Any], where: Sequence[str]) -> list[Any]:
        """What the function returns for other arrays in the place of the one input."""
        (k,) = self.wanted
        jobs = (
            (*self.arguments.rebuild([*self.leaves[:k], a, *self.leaves[k + 1 :]]), text.format)
            for a, text in zip(arrays, where, strict=False)
        )
        return list(self.definition.evaluator.many(jobs, len(arrays)))

    # --- second order ---------------------------------------------------------------------------

    def _curved(
        self, direction: Any, size: int, of: Callable[[SecondDerivatives], tuple[Any, bool]]
    ) -> Any:
        """A second derivative by differences of values; None if it has to be otherwise."""
        plan, name = self.definition.plan, self.definition.name
        plan.allow_second(name)
        if not direction.any():
            return None
        if plan.method.flat:
            return np.zeros(size)
        with self._lock:
            if self._curvature is None:
                self._curvature = (self._second_derivatives(),)
        (second,) = self._curvature
        if second is None or not second.fits(direction):
            return None
        found, accurate = of(second)
        if not accurate:
            warn_of_second(name, second.allowed)
        return found

    def _second_derivatives(self) -> SecondDerivatives | None:
        plan, wide = self.definition.plan, self._wider()
        if wide is self:
            return plan.curvature(self.point, self.steps(), self.axes)
        wide.steps().suit = self.steps().suit
        return plan.curvature(wide.point, wide.steps(), self.axes, self.point.rounding())

    def _wider(self) -> Derivatives:
        """The same in float64, for differences of a function of float32 that takes that."""
        plan = self.definition.plan
        with self._lock:
            if self._wide is None:
                wide = None
                if plan.differences and isinstance(plan.method, Stencil):
                    declared = self.definition.nondifferentiable
                    wide = in_float64(self.point, declared, plan.verified)
                self._wide = (self if wide is None else self._like(wide.leaves, wide.form),)
                if wide is not None:
                    self._wide[0]._rounding = self.point.rounding()
        made: Derivatives = self._wide[0]
        return made

    def _along(self, w: Sequence[Any], of: Any, size: Callable[[Any], Any]) -> Any:
        """The derivative along w of a vector made from the derivatives: a difference of two.

        ``size`` tells that of the vector's elements from the magnitudes of the inputs, to which
        their rounding is proportional.
        """
        self.definition.plan.allow_second(self.definition.name)
        direction = self._vector(w, self.point.inputs)
        if not direction.any():
            return np.zeros(np.shape(size(self.steps().scale)))
        steps = self.definition.plan.second_steps(self.point, self.steps())
        found = self._smooth(direction, of, steps)
        self._compare(direction, of, steps, found)
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

    def _smooth(self, direction: Any, of: Any, steps: Steps) -> Any:
        """The difference of derivatives from a rule, by steps that are seen to suit this point."""
        plan = self.definition.plan
        found = self._difference(direction, of, steps)
        if plan.differences or not plan.verify or self._suits:
            return found
        used = direction != 0
        if self._suits is None and 2 * np.count_nonzero(used) < used.size:
            # Steps are looked at once for all directions, if there may be many.
            rng = np.random.default_rng(plan.method.seed)
            every = steps.scale * rng.choice([-1.0, 1.0], used.size)
            first = self._difference(every, of, steps)
            self._suits = self._shorter(every, of, steps, first)[1] == 0
        else:
            again, tried = self._shorter(direction, of, steps, found)
            if self._suits is None:
                self._suits = tried == 0
            if tried:
                return again
        return found if self._suits else self._shorter(direction, of, steps, found)[0]

    def _shorter(self, direction: Any, of: Any, steps: Steps, found: Any) -> tuple[Any, int]:
        """The same by shorter steps, until these make no difference; and how often they did."""
        used, shorter = direction != 0, copy.copy(steps)
        noise, first = max(self.steps().noise, self.point.rounding()), found
        most, allowed = _most(of(self)), accuracy(noise)
        slopes = FLAT * most / np.min(steps.scale[used] / np.abs(direction[used]))
        for tried, factor in enumerate(SHORTER):
            shorter.scale = factor * steps.scale
            again = self._difference(direction, of, shorter)
            rounding = _ROUNDINGS * noise * most / abs(direction_steps(shorter, direction, 2)[0])
            # Where they agree the longer ones are better: they have less rounding.
            if _most(found - again) <= allowed * (_most(found) + slopes) + rounding:
                return found, tried
            found = again
        warn_of_second(self.definition.name, allowed)
        return first, len(SHORTER)

    def _compare(self, direction: Any, of: Any, steps: Steps, found: Any) -> None:
        """Warn if longer steps lead to another derivative, of derivatives by differences."""
        plan = self.definition.plan
        if not (plan.differences and plan.verifies and isinstance(plan.method, Stencil)):
            return
        longer, used = copy.copy(steps), direction != 0
        longer.scale = 2 * steps.scale
        # Whatever there is farther away, the derivative does not hang on it.
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            apart = np.abs(found - self._difference(direction, of, longer))
            slopes = np.abs(of(self)) / np.min(steps.scale[used] / np.abs(direction[used]))
            allowed = accuracy(max(self.steps().noise, self.point.rounding(), self._rounding))
            known = np.isfinite(apart)
            size = np.max(np.abs(found), initial=0.0, where=known) + FLAT * slopes
            if (apart > allowed * size)[known].any():
                warn_of_second(self.definition.name, allowed)

    def _difference(self, direction: Any, of: Any, steps: Steps) -> Any:
        found: Any = 0.0
        for part in with_room(steps, direction):
            a, b = direction_steps(steps, part, 2)
            if a == 0:
                name = self.definition.name
                raise ValueError(f"the bounds of {name} leave no room to step along the direction")
            ends = [of(self.moved(part, t, steps)) for t in (a, b)]
            here = of(self) if a * b > 0 else 0.0  # at a bound both ends are on one side
            found = found + CENTRAL.combine((np.float64(a), np.float64(b)), ends, here)
        return found

    def moved(self, direction: Any, t: float, steps: Steps) -> Derivatives:
        """The derivatives at another input."""
        x = np.clip(self.point.representable(self.point.x + t * direction), steps.low, steps.high)
        leaves = list(self.leaves)
        for k, array in zip(self.wanted, self.point.inputs.unpack(x), strict=True):
            leaves[k] = array if array.ndim else array[()]
        args, kwargs = self.arguments.rebuild(leaves)
        where = f"x {'-' if t < 0 else '+'} {abs(t):.3g} * direction"
        definition = self.definition
        raw = definition.evaluator.one(args, kwargs, where)
        outputs = Outputs([raw], definition.nondifferentiable, definition.name)
        return self._like(leaves, outputs)

    def _like(self, leaves: list[Any], form: Outputs) -> Derivatives:
        """The same of another call."""
        other: Derivatives = object.__new__(Derivatives)
        other.__dict__.update(self.__dict__)
        other.leaves, other.form, other._wide = leaves, form, None
        other._pulled, other._suits = None, None
        other._point = other._steps = other._jacobian = other._slopes = other._curvature = None
        other._claimed, other._pushes, other.expected = None, 0, 1
        other._lock = threading.RLock()
        return other


def _most(values: Any) -> float:
    """The largest magnitude that is a number."""
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))


def _adopted(array: Any, dtype: Any, shape: Any) -> Tensor:
    """An array that was found to be owned: a leaf takes it as its gradient without a copy."""
    if type(array) is np.ndarray and array.dtype in PLAIN and array.flags.c_contiguous:
        made = _core._adopt_buffer(array)
        return made if made.dtype == dtype and array.ndim else made.to(dtype).reshape(shape)
    return _tensor(array, dtype, shape)


def _tensor(array: Any, dtype: Any, shape: Any) -> Tensor:
    tensor = _creation.from_numpy(array) if array.ndim else _creation.tensor(array)
    return tensor if tensor.dtype == dtype and array.ndim else tensor.to(dtype).reshape(shape)
