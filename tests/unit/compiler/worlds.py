"""A function eagerly and compiled, in two worlds that are built alike.

Everything that can be seen afterwards must be the same, whether a call was replayed or refused. A
world is built by a function: it returns what is compiled, and what calls it for the k-th time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from tests.unit.compiler.programs import same_bits

World = Callable[[], tuple[Callable[..., Any], Callable[[Any, int], Any]]]


class Worlds(dict[str, World]):
    """By name, as a decorator adds them."""

    def __call__(self, build: World) -> World:
        self[build.__name__] = build
        return build


def draw(*shape: int, **options: Any) -> ad.Tensor:
    return ad.randn(*shape, **options)


def seen(thing: Any) -> Any:
    """A copy of everything that can be seen of a result."""
    if isinstance(thing, ad.Tensor):
        return thing.detach().clone(), thing.requires_grad, thing.is_leaf
    if isinstance(thing, dict):
        return {k: seen(v) for k, v in thing.items()}
    if isinstance(thing, list | tuple):
        return [seen(v) for v in thing]
    return thing


def same(a: Any, b: Any) -> bool:
    if isinstance(a, ad.Tensor):
        return isinstance(b, ad.Tensor) and same_bits(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def history(build: World, compiled: bool) -> tuple[list[Any], Any]:
    """Everything that is seen over a few calls."""
    ad.manual_seed(1)
    f, drive = build()
    g = ad.compile(f) if compiled else f
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [seen(drive(g, k)) for k in range(4)], g


def check(build: World, replayed: bool) -> None:
    """Compare both; `replayed` says whether there must be a program."""
    want, _ = history(build, False)
    got, compiled = history(build, True)
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert same(a, b), f"call {k}: {a} instead of {b}"
    assert bool(compiled.programs) == replayed, "replayed, or not"
    assert not _core._is_recording() and not _core._is_unusual_mode()
