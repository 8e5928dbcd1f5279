"""Derivatives that users hand in: ``jacobian=``, ``vjp=`` and ``jvp=``, called and checked.

Read next: _derivatives.py, which derives from one of them whatever else is asked for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _tree
from adjoint._apart import call_apart
from adjoint._core import Tensor
from adjoint.numeric._coordinates import Coordinates
from adjoint.numeric._jacobians import Dense

from ._arguments import Arguments
from ._outputs import Outputs, plain_leaves

__all__ = ["Given"]


class Given:
    """The rules that were given for one function; false if there are none."""

    def __init__(self, jacobian: Any, vjp: Any, jvp: Any, name: str, tensors: bool) -> None:
        rules = {"jacobian": jacobian, "vjp": vjp, "jvp": jvp}
        for what, rule in rules.items():
            if rule is not None and not callable(rule):
                raise TypeError(f"{what}= takes a function, got {type(rule).__name__}")
        self.jacobian, self.vjp, self.jvp = jacobian, vjp, jvp
        self.names = [what for what, rule in rules.items() if rule is not None]
        self.name = name
        self.tensors = tensors  # whether rules take tensors
        self._vjp_output, self._jvp_output = _takes_output(vjp), _takes_output(jvp)

    def __bool__(self) -> bool:
        return bool(self.names)

    def one_rule(self) -> str:
        """Why the two modes are one rule, if only one was given; else an empty string."""
        if len(self.names) != 1:
            return ""
        return {
            "jacobian": "the jvp and the vjp are derived from the jacobian",
            "vjp": "the jvp is derived from the vjp",
            "jvp": "the vjp is derived from the jvp",
        }[self.names[0]]

    def _taken(self, tree: Any) -> Any:
        """Arrays in a structure as tensors, if the function takes those."""
        if not self.tensors:
            return tree
        import adjoint

        leaves, spec = _tree.flatten(tree)
        made = [
            adjoint.tensor(np.asarray(a)) if isinstance(a, (np.ndarray, np.generic)) else a
            for a in leaves
        ]
        return _tree.unflatten(spec, made)

    # --- jacobian= ------------------------------------------------------------------------------

    def matrix(
        self, arguments: Arguments, leaves: Sequence[Any], wanted: Sequence[int], outputs: Any
    ) -> Dense:
        """What ``jacobian=`` returns at some leaves, for those that are ``wanted``."""
        args, kwargs = arguments.rebuild(leaves)
        places, names = arguments.inputs, arguments.names()
        inputs = Coordinates.of([leaves[k] for k in places], [names[k] for k in places])
        raw = call_apart(self.jacobian, self._taken(args), self._taken(kwargs))
        return from_user(raw, inputs, [places.index(k) for k in wanted], outputs, self.name)

    # --- vjp= -----------------------------------------------------------------------------------

    def call_vjp(self, grad: Any, args: Any, kwargs: Any, output: Any) -> Any:
        """Call the user's vjp; with ``output=`` if it takes that."""
        extra = {"output": output} if self._vjp_output else {}
        return self.vjp(grad, *args, **kwargs, **extra)

    def pull(
        self,
        arguments: Arguments,
        leaves: Sequence[Any],
        wanted: Sequence[int],
        form: Outputs,
        u: Sequence[Any],
    ) -> list[Any]:
        """What ``vjp=`` returns for the inputs that are ``wanted``."""
        args, kwargs = arguments.rebuild(leaves)
        arrays = list(form.leaves)
        for k, array in zip(form.differentiable, u, strict=True):
            arrays[k] = array
        for k in form.numeric():
            if k not in form.differentiable:
                arrays[k] = None
        given = (
            self._taken(form.structured(arrays)),
            self._taken(args),
            self._taken(kwargs),
            self._taken(form.structured(form.leaves)),
        )
        raw = call_apart(self.call_vjp, given)
        found = self.per_leaf(raw, arguments)
        del raw
        return [self._like(found[k], leaves[k], arguments.names, k, "vjp") for k in wanted]

    def per_leaf(self, raw: Any, arguments: Arguments) -> list[Any]:
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
                    f"the vjp= of {self.name} must return one gradient per argument "
                    f"({count}), None where there is none; got {got}"
                )
        return arguments.leaves_of(raw)

    def transposed(
        self,
        arguments: Arguments,
        leaves: Sequence[Any],
        tangents: dict[int, Any],
        form: Outputs,
    ) -> list[Any] | None:
        """Jv, by differentiating a vjp on tensors by what it is linear in; None if it cannot be.

        At a random u the result tells whether that is right: u'Jv is the product of v with the vjp.
        """
        import adjoint

        rng = np.random.default_rng(0)

        def run() -> Any:
            u = [
                adjoint.tensor(rng.uniform(0.5, 1, form.leaves[k].shape)).to(
                    adjoint.tensor(form.leaves[k]).dtype
                )
                for k in form.differentiable
            ]
            with adjoint.enable_grad():
                given = [t.requires_grad_() for t in u]
                arrays: list[Any] = [None] * len(form.leaves)
                for k, t in zip(form.differentiable, given, strict=True):
                    arrays[k] = t
                args, kwargs = arguments.rebuild(leaves)
                raw = self.call_vjp(
                    form.structured(arrays),
                    self._taken(args),
                    self._taken(kwargs),
                    self._taken(form.structured(form.leaves)),
                )
                found = self.per_leaf(raw, arguments)
                parts = [
                    (found[k] * adjoint.tensor(np.asarray(v))).sum()
                    for k, v in tangents.items()
                    if found[k] is not None
                ]
                total = sum(parts[1:], parts[0])
                grads = adjoint.autograd.grad(total, given, allow_unused=True)
            pairs = [
                (adjoint.zeros_like(t) if g is None else g, t.detach())
                for g, t in zip(grads, u, strict=True)
            ]
            told = sum(float((g * t).sum()) for g, t in pairs)
            size = sum(float((g * t).abs().sum()) for g, t in pairs) + abs(float(total))
            return [g.detach().numpy() for g, _ in pairs], abs(told - float(total)) <= 1e-6 * size

        if any(form.leaves[k].dtype.kind == "c" for k in form.differentiable):
            return None
        try:
            found, right = call_apart(run, ())
        except (RuntimeError, TypeError, IndexError):
            return None  # not recorded: it uses NumPy inside, say
        return list(found) if right else None

    # --- jvp= -----------------------------------------------------------------------------------

    def push(
        self,
        arguments: Arguments,
        leaves: Sequence[Any],
        tangents: dict[int, Any],
        form: Outputs,
    ) -> list[Any]:
        """What ``jvp=`` returns for tangents of some leaves."""
        args, kwargs = arguments.rebuild(leaves)
        moved: list[Any] = [None] * len(leaves)
        for k in arguments.inputs:
            moved[k] = np.zeros_like(leaves[k])
        for k, array in tangents.items():
            moved[k] = array if array.ndim else array[()]
        positional, named = arguments.rebuild(moved)
        every = (*positional, *named.values())
        output = self._taken(form.structured(form.leaves))
        tangent = self._taken(every[0] if len(every) == 1 else every)
        extra = {"output": output} if self._jvp_output else {}
        raw = call_apart(self.jvp, (tangent, *self._taken(args)), {**self._taken(kwargs), **extra})
        found, spec = plain_leaves(raw)
        if spec != form.spec:
            raise ValueError(
                f"the jvp= of {self.name} must return a tangent built like its result, "
                f"got {spec if spec is not None else 'one value'}"
            )
        return [
            self._like(found[k], form.leaves[k], form.names, k, "jvp") for k in form.differentiable
        ]

    def _like(
        self, found: Any, wanted: Any, names: Callable[[], list[str]], k: int, what: str
    ) -> Any:
        """What a rule returned for one array, checked."""
        if found is None:
            return np.zeros(np.shape(wanted), np.asarray(wanted).dtype)
        array = np.asarray(found.numpy(force=True) if isinstance(found, Tensor) else found)
        if array.shape != np.shape(wanted):
            raise ValueError(
                f"the {what}= of {self.name} returned shape {list(array.shape)} for {names()[k]}, "
                f"which has shape {list(np.shape(wanted))}"
            )
        if array.dtype.kind == "c" and np.asarray(wanted).dtype.kind != "c":
            raise TypeError(
                f"the {what}= of {self.name} returned {array.dtype} for {names()[k]}, a real input"
            )
        return array


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


def from_user(
    raw: Any, inputs: Coordinates, wanted: list[int], outputs: Coordinates, name: str
) -> Dense:
    """The matrix of what ``jacobian=`` returned.

    ``inputs`` are all inputs of the function; ``wanted`` those whose columns are kept. One block
    for one output and one input; a sequence (or composite) of blocks for several of either; a
    sequence of sequences for several of both, outputs first. Dicts go by their keys: those of the
    result, and those of the argument or the names of the arguments. None is a block of zeros.
    """
    several_out, several_in = len(outputs.shapes) > 1, len(inputs.shapes) > 1
    if any(d.kind == "c" for d in (*inputs.dtypes, *outputs.dtypes)):
        raise TypeError(
            f"the jacobian= of {name} is used for real inputs and outputs; give vjp= for complex"
        )
    rows = _items(raw, outputs.names, "outputs", name) if several_out else [raw]
    blocks = []
    for k, row in enumerate(rows):
        items = _items(row, inputs.names, "inputs", name) if several_in else [row]
        blocks.append([_shaped(items[i], inputs, i, outputs, k, name) for i in wanted])
    if not any(hasattr(block, "toarray") for row in blocks for block in row):
        return Dense(np.block(blocks))
    if len(blocks) == len(blocks[0]) == 1:
        return Dense(blocks[0][0])
    import scipy.sparse

    return Dense(scipy.sparse.bmat(blocks, format="csr"))


def _items(raw: Any, names: list[str], what: str, name: str) -> list[Any]:
    if isinstance(raw, dict):
        # By their keys: the order of a dict is that of its lines, here and where it was returned.
        found = _by_path(raw, names)
        if found is not None:
            return found
        got = f"a dict of {', '.join(map(repr, raw))}"
    elif isinstance(raw, (list, tuple)) or _tree.is_structure(raw):
        leaves = raw if isinstance(raw, (list, tuple)) else _tree.flatten(raw)[0]
        if len(leaves) == len(names):
            return list(leaves)
        got = f"{len(leaves)} items"
    else:
        got = f"a {type(raw).__name__} of shape {list(np.shape(raw))}"
    raise ValueError(
        f"the jacobian= of {name} must return one block for each of its {len(names)} {what} "
        f"({', '.join(names)}), got {got}"
    )


def _by_path(raw: dict[Any, Any], names: list[str]) -> list[Any] | None:
    """What stands in a dict under the paths of some inputs or outputs; None if one is missing."""
    found: dict[str, Any] = {}

    def collect(tree: Any, path: str) -> None:
        if path in names:
            found[path] = tree
        elif isinstance(tree, dict) or _tree.is_structure(tree):
            for child, entry in zip(*_tree.children(tree), strict=True):
                collect(child, path + _tree.step(type(tree), entry))

    for key, value in raw.items():  # by the names of arguments
        collect(value, str(key))
    for root in {re.split(r"[.\[]", n)[0] for n in names} - set(names):
        collect(raw, root)  # built like the one argument, or like the result
    return [found[n] for n in names] if found.keys() == set(names) else None


def _shaped(
    block: Any, inputs: Coordinates, i: int, outputs: Coordinates, k: int, name: str
) -> Any:
    m, n = outputs.sizes[k], inputs.sizes[i]
    if block is None:
        return np.zeros((m, n))
    if hasattr(block, "toarray"):
        if block.shape == (m, n):
            return block
        array = block.toarray()
    else:
        array = np.asarray(block.numpy(force=True) if isinstance(block, Tensor) else block)
    full = (*outputs.shapes[k], *inputs.shapes[i])
    if array.shape != (m, n) and array.shape != full:
        raise ValueError(
            f"the jacobian= of {name} returned shape {list(array.shape)} for "
            f"d {outputs.names[k]} / d {inputs.names[i]}; expected {list(full)} (output shape + "
            f"input shape) or [{m}, {n}]"
        )
    return array.reshape(m, n).astype(float, copy=False)
