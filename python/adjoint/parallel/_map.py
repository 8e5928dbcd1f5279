"""`parallel.map`: a function over the members of an ensemble, differentiable wherever it runs.

The map is one node of the graph. Forward, each member is a job (`_member.py`) at a place
(`_places.py`); backward, cotangents go to where the graphs are, and gradients come back. What comes
back is put together in the order of the members, so neither results nor sums depend on who was
first. Under ``create_graph`` the backward pass is a map itself, of the function's vjp.
"""

from __future__ import annotations

import hashlib
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._progress import Bar, is_seen

from ._farewell import call_soon, prepare
from ._member import (
    Answer,
    AsItIs,
    Job,
    Packed,
    Parcel,
    ParcelMissing,
    is_variable,
    pickled,
    pickled_with_main,
    pull_back,
    release,
    run,
    unpack,
)
from ._modules import with_modules
from ._places import places_of

__all__ = ["map"]

_WAVES = 4  # jobs that are submitted ahead, for each place
_TENSOR = object()  # stands for a tensor of a result
_AFTER = 2.0  # seconds before a bar is shown


def map(
    f: Callable[..., Any],
    members: Iterable[Any],
    *,
    shared: Sequence[Any] = (),
    executor: Any = None,
    keep: bool = True,
    retries: int = 0,
) -> list[Any]:
    """Call a function with each member of an ensemble, side by side, differentiably.

    Parameters
    ----------
    f : callable
        Called as ``f(member, *shared)`` with plain tensors, in some process. An `nn.Module` brings
        its parameters along, and they get their gradients; so do modules among the arguments.
    members : iterable
        Tensors or composites, one for each call.
    shared : sequence
        More arguments, the same for all members: tensors, modules or composites. Their gradients
        are the sums over all members.
    executor
        Where: None for this process, a number of processes, or a ``concurrent.futures.Executor``:
        Dask's ``Client.get_executor()``, `mpi4py.futures.MPIPoolExecutor`, `parallel.RayExecutor`.
    keep : bool
        Leave the graph of each member where it was made until its gradient was taken. False: the
        call is repeated for the backward pass, which needs less memory.
    retries : int
        How often a member that failed is tried again, at the next place.

    Returns
    -------
    list
        The results, in the order of the members.

    Raises
    ------
    Exception
        What a member raised, with a note that says which one.
    RuntimeError
        The function reads a tensor that requires a gradient and is not one of its arguments.

    Notes
    -----
    Results and gradients are the same to the last bit on every executor, whoever finishes first:
    gradients of shared arguments are added up in the order of the members. Each member has random
    numbers of its own, which follow from this process's generator (one draw for a map). Gradients
    may be differentiated again; forward mode and `vmap` do not go through.

    Examples
    --------
    >>> import adjoint as ad
    >>> k = ad.tensor(2.0, requires_grad=True)
    >>> def energy(x, k):
    ...     return 0.5 * k * (x**2).sum()
    >>> found = ad.parallel.map(energy, [ad.ones(3), 2 * ad.ones(3)], shared=(k,))
    >>> sum(found).backward()
    >>> k.grad
    tensor(7.5000)
    """
    if retries < 0:
        raise ValueError(f"retries= must not be negative, got {retries}")
    function, tasks, rest = with_modules(f, list(members), tuple(shared))
    places, owned = places_of(executor)
    plan = _Plan(function, tasks, rest, places, keep, retries, owned)
    answers = _Mapped.apply(plan, *plan.variables)
    return plan.results(answers)


class _Vjp:
    """The gradients of a member as a function of its arguments and the cotangents."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, member: Any, *shared: Any) -> list[Any]:
        args, cotangents = member
        leaves, _ = _tree.flatten((args, shared))
        inputs = [leaf for leaf in leaves if is_variable(leaf)]
        outputs = [
            leaf
            for leaf in _tree.flatten(self.function(args, *shared))[0]
            if isinstance(leaf, Tensor)
        ]
        pairs = [(y, g) for y, g in zip(outputs, cotangents, strict=True) if g is not None]
        if not pairs:
            return [None] * len(inputs)
        ys, gs = [y for y, _ in pairs], [g for _, g in pairs]
        found = ad.autograd.grad(ys, inputs, gs, create_graph=True, allow_unused=True)
        return list(found)


class _Plan:
    """A map: its jobs, and where the tensors of arguments and results have their places."""

    def __init__(
        self,
        function: Any,
        members: list[Any],
        shared: tuple[Any, ...],
        places: Any,
        keep: bool,
        retries: int,
        owned: bool,
        seeds: list[int] | None = None,
    ) -> None:
        self.function, self.members, self.shared = function, members, shared
        self.places, self.keep, self.retries, self.owned = places, keep, retries, owned
        self.per_member = [_variables(member) for member in members]
        self.of_shared = _variables(shared)
        self.variables = [t for mine in self.per_member for t in mine] + self.of_shared
        if _core._batch_level(tuple(self.variables)):
            raise RuntimeError(
                "parallel.map inside vmap: samples do not leave this process.\n"
                "  fix: call vmap inside the function that is mapped, or hand over the rows of the "
                "batch as members"
            )
        self.records = ad.is_grad_enabled()
        self.wants_gradient = self.records and any(t.requires_grad for t in self.variables)
        self.jobs = self._jobs(seeds)
        self.differentiable: list[tuple[bool, ...]] = []  # tensors of each member's result
        self.specs: list[tuple[list[Any], Any]] = []
        self._sent: set[int] = set()
        self.parent: _Plan | None = None
        prepare()
        self._end = weakref.finalize(self, _end, places, owned, [j.token for j in self.jobs])
        self._end.atexit = False

    def _jobs(self, seeds: list[int] | None) -> list[Job]:
        pack = self._pack()
        content = pack((self.function, _plain(self.shared)), "the function")
        name = uuid.uuid4().hex
        parcel = Parcel(_name_of(content, name), content)
        if seeds is None:
            seed = int(ad.randint(2**62, ()).item())
            seeds = [_mixed(seed, k) for k in range(len(self.members))]
        return [
            Job(parcel, pack(_plain(member), f"member {k}"), f"{name}-{k}", seeds[k])
            for k, member in enumerate(self.members)
        ]

    def _pack(self) -> Callable[[Any, str], Packed]:
        if not self.places.is_elsewhere:
            return _as_it_is
        return pickled if self.places.knows_main else pickled_with_main

    def forward(self) -> list[Tensor]:
        """Evaluate all members; the tensors of all results."""
        how = (self.wants_gradient, self.keep, self.records)
        answers: list[Answer] = self._all(run, [how] * len(self.jobs), "map")
        self.differentiable = [answer.differentiable for answer in answers]
        flat: list[Tensor] = []
        for answer in answers:
            leaves, spec = _tree.flatten(unpack(answer.result))
            flat += [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            # The tensors themselves will lead to this plan: they are not kept here.
            others = [_TENSOR if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            self.specs.append((others, spec))
        return flat

    def backward(self, cotangents: list[Tensor | None]) -> list[Tensor | None]:
        """The gradients of all variables, from those of all results."""
        pack = self._pack()
        given, at = [], 0
        for mine in self.differentiable:
            count = len(mine)
            given.append((pack(cotangents[at : at + count], "a gradient"),))
            at += count
        found = [unpack(one) for one in self._all(pull_back, given, "map, backward")]
        return self._summed(found)

    def _summed(self, found: list[list[Tensor | None]]) -> list[Tensor | None]:
        """Gradients of members one after the other, then those of what they share, added up."""
        gradients: list[Tensor | None] = []
        sums: list[Tensor | None] = [None] * len(self.of_shared)
        for mine, received in zip(self.per_member, found, strict=True):
            gradients += received[: len(mine)]
            for k, more in enumerate(received[len(mine) :]):
                so_far = sums[k]
                sums[k] = more if so_far is None else so_far if more is None else so_far + more
        return gradients + sums

    def again(self, variables: Sequence[Tensor], cotangents: list[Tensor | None]) -> list[Any]:
        """The same gradients as results of a map, which can be differentiated in turn."""
        members, at_variable, at_cotangent = [], 0, 0
        for k, (member, mine) in enumerate(zip(self.members, self.per_member, strict=True)):
            count = len(self.differentiable[k])
            now = _replaced(member, variables[at_variable : at_variable + len(mine)])
            members.append((now, cotangents[at_cotangent : at_cotangent + count]))
            at_variable, at_cotangent = at_variable + len(mine), at_cotangent + count
        shared = _replaced(self.shared, variables[at_variable:])
        vjp, seeds = _Vjp(self.function), [job.seed for job in self.jobs]
        plan = _Plan(vjp, members, shared, self.places, self.keep, self.retries, False, seeds)
        plan.parent, plan.owned = self, self.owned  # its places end with the parent
        found = plan.results(_Mapped.apply(plan, *plan.variables))
        return self._summed(found)

    def results(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The results in their structure, with the tensors that belong to this graph."""
        given = iter(tensors)
        return [
            _tree.unflatten(spec, [next(given) if x is _TENSOR else x for x in leaves])
            for leaves, spec in self.specs
        ]

    def _all(self, function: Any, args: list[tuple[Any, ...]], text: str) -> list[Any]:
        """Run a function of each job; a few are under way at a time, results come in order."""
        ahead = _WAVES * self.places.count
        running: dict[int, Any] = {}
        found: list[Any] = []
        with _progress(text, len(self.jobs)) as progress:
            try:
                for k in range(len(self.jobs)):
                    for j in range(k + len(running), min(k + ahead, len(self.jobs))):
                        running[j] = self._submit(j, function, args[j], 0)
                    found.append(self._result(k, running.pop(k), function, args[k]))
                    progress(k + 1)
            except BaseException as error:
                for future in running.values():
                    future.cancel()
                if self.owned or not isinstance(error, Exception):  # nobody waits for the others
                    self.places.stop()
                raise
        return found

    def _submit(self, k: int, function: Any, args: tuple[Any, ...], attempt: int) -> Any:
        place = k + attempt
        number = place % self.places.count
        job = self.jobs[k]
        if self.places.is_addressed and number in self._sent and not attempt:
            job = Job(Parcel(job.parcel.name, None), job.args, job.token, job.seed)
        self._sent.add(number)
        return self.places.submit(place, function, job, *args)

    def _result(self, k: int, future: Any, function: Any, args: tuple[Any, ...]) -> Any:
        attempt = 0
        while True:
            try:
                return future.result()
            except ParcelMissing:
                self._sent.discard(k % self.places.count)
                future = self._submit(k, function, args, 0)
            except Exception as error:
                if attempt == self.retries:
                    tried = f", tried {attempt + 1} times" if attempt else ""
                    error.add_note(f"in member {k} of parallel.map{tried}")
                    raise
                attempt += 1
                future = self._submit(k, function, args, attempt)


class _Mapped(ad.autograd.Function):
    """The node of a map."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *variables: Tensor) -> tuple[Tensor, ...]:
        ctx.plan = plan
        ctx.save_for_backward(*variables)
        outputs = plan.forward()
        has = [one for mine in plan.differentiable for one in mine]
        ctx.mark_non_differentiable(*(t for t, h in zip(outputs, has, strict=True) if not h))
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
        if ad.is_grad_enabled():
            return (None, *ctx.plan.again(ctx.saved_tensors, list(cotangents)))
        return (None, *ctx.plan.backward(list(cotangents)))


def _variables(tree: Any) -> list[Tensor]:
    return [leaf for leaf in _tree.flatten(tree)[0] if is_variable(leaf)]


def _replaced(tree: Any, variables: Sequence[Tensor]) -> Any:
    leaves, spec = _tree.flatten(tree)
    given = iter(variables)
    return _tree.unflatten(spec, [next(given) if is_variable(x) else x for x in leaves])


def _plain(tree: Any) -> Any:
    leaves, spec = _tree.flatten(tree)
    detached = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return _tree.unflatten(spec, detached)


def _as_it_is(thing: Any, what: str) -> AsItIs:
    return AsItIs(thing)


def _name_of(content: Packed, otherwise: str) -> str:
    """Equal contents have one name, so that a place keeps one of them."""
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else otherwise


def _mixed(seed: int, k: int) -> int:
    """A seed for each member, that has nothing to do with its neighbours'."""
    digest = hashlib.blake2b(f"{seed} {k}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _end(places: Any, owned: bool, tokens: list[str]) -> None:
    """The map is over: graphs that were kept are let go of, and processes of its own end."""
    release(tokens)  # of those that ran in this process
    if owned:
        places.close()
    elif places.is_addressed:
        for number in range(min(places.count, len(tokens))):
            theirs = tokens[number :: places.count]
            call_soon(partial(places.tell, number, release, theirs))


class _progress:
    """Shows how many members are done, if it takes long and somebody sees it."""

    def __init__(self, text: str, total: int) -> None:
        self._start = time.monotonic()
        self._text, self._total = text, total
        self._bar: Bar | None = None

    def __enter__(self) -> Callable[[int], None]:
        return self._show

    def _show(self, done: int) -> None:
        if self._bar is None and time.monotonic() - self._start > _AFTER and is_seen():
            self._bar = Bar(self._text, self._total)
        if self._bar is not None:
            self._bar.show(done)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
