"""Looking at the graph and watching gradients pass: nodes, edges, hooks on several tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any, Literal, NamedTuple
from typing import NoReturn as _NoReturn

from adjoint import _core
from adjoint._core import Node as Node
from adjoint._core import Tensor
from adjoint._missing import missing as _missing
from adjoint.utils.hooks import RemovableHandle

from ._backward import is_composite
from ._saved_hooks import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
from ._saved_hooks import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from ._saved_hooks import save_on_cpu as save_on_cpu
from ._saved_hooks import saved_tensors_hooks as saved_tensors_hooks

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """Where gradients for one output of a node arrive.

    `autograd.grad` and `autograd.backward` take it in place of a tensor, so that a gradient can be
    asked for (or given) without keeping the tensor itself.
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None
    """Held for programs written for PyTorch; a node keeps itself alive here."""


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that the gradient of ``tensor`` travels along.

    Raises
    ------
    RuntimeError
        The tensor does not require grad, so there is none.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> edge = ad.autograd.graph.get_gradient_edge(x * x)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """
    node, slot = _core._gradient_edge(tensor)
    return GradientEdge(node, slot)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Tell autograd that the memory of ``tensor`` was changed behind its back.

    In-place operations count by themselves; this is for memory written through `data_ptr`, the
    buffer protocol or a NumPy array. A backward pass that needs the old values then says so.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(2)
    >>> x.numpy()[0] = 5.0
    >>> ad.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    tensors = (tensor,) if isinstance(tensor, Tensor) else tuple(tensor)
    for t in tensors:
        _core._increment_version(t)


class _MultiHandle(RemovableHandle):
    """Removes the hooks of all tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: Literal["all", "any"] = "all",
) -> RemovableHandle:
    """Call ``fn`` when gradients of several tensors were computed.

    Parameters
    ----------
    tensors
        Tensors that require grad, or a composite.
    fn
        With ``mode="all"``, called once per backward pass with a list of gradients (for a
        composite with one of gradients, in its structure), as soon as those of all tensors
        that the pass reaches are there; None stands for the others. With
        ``mode="any"``, called with the first gradient that arrives.
    mode
        ``"all"`` or ``"any"``.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` takes the hook away.

    Examples
    --------
    >>> import adjoint as ad
    >>> a, b = (ad.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    >>> seen = []
    >>> handle = ad.autograd.graph.register_multi_grad_hook((a, b), seen.append)
    >>> (a * b).backward()
    >>> seen
    [[tensor(3.), tensor(2.)]]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if is_composite(tensors):
        from adjoint.composite._gradients import flat_hook

        tensors, on_all = flat_hook(tensors, fn)
        fn = on_all if mode == "all" else fn
    watch = _watch_all if mode == "all" else _watch_any
    return _MultiHandle(watch(tuple(tensors), fn))


def _watch_all(tensors: tuple[Tensor, ...], fn: Callable[..., None]) -> list[RemovableHandle]:
    nodes = [_core._gradient_edge(t)[0] for t in tensors]
    lock = threading.Lock()
    waiting: dict[int, int] = {}  # pass -> gradients still to come
    gathered: dict[int, list[Tensor | None]] = {}

    def hook_of(index: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            run = _core._current_graph_task_id()
            if run == -1:
                raise RuntimeError("expected this hook to be called inside a backward call")
            with lock:
                if run not in gathered:
                    gathered[run] = [None] * len(tensors)
                    waiting[run] = sum(map(_core._will_engine_execute_node, nodes))
                gathered[run][index] = grad
                waiting[run] -= 1
                done = waiting[run] == 0
                grads = gathered[run]
                if done:
                    del gathered[run], waiting[run]
            if done:
                fn(grads)

        return hook

    return [t.register_hook(hook_of(i)) for i, t in enumerate(tensors)]


def _watch_any(tensors: tuple[Tensor, ...], fn: Callable[..., None]) -> list[RemovableHandle]:
    lock = threading.Lock()
    called: set[int] = set()  # passes that fn was called in, and which are not over

    def hook(grad: Tensor) -> None:
        run = _core._current_graph_task_id()
        if run == -1:
            raise RuntimeError("expected this hook to be called inside a backward call")
        with lock:
            if run in called:
                return
            called.add(run)
        _core._queue_callback(lambda: called.discard(run))
        fn(grad)

    return [t.register_hook(hook) for t in tensors]


if not _TYPE_CHECKING:  # a type checker would take every name to be there

    def __getattr__(name: str) -> _NoReturn:
        raise _missing(__name__, name)
