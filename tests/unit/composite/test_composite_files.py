"""Composites in safetensors files: classes come back, and loading runs nothing of theirs."""

from __future__ import annotations

import io
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import adjoint as ad


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Body:
    position: Any
    name: str = "b"
    made: int = field(init=False, default=3)

    def __post_init__(self) -> None:
        CALLS.append(self.name)


@dataclass(slots=True)
class Slots:
    x: Any


@ad.composite
class Own:
    def __init__(self, a: Any) -> None:
        self.a = a


class Methods:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __tree_flatten__(self) -> Any:
        return (self.x,), "meta"

    @classmethod
    def __tree_unflatten__(cls, metadata: Any, children: Any) -> Methods:
        CALLS.append(metadata)
        return cls(*children)


@dataclass
class Ending:
    x: Any

    def __del__(self) -> None:
        CALLS.append("del")


CALLS: list[str] = []


def saved(obj: Any) -> io.BytesIO:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.safetensors")
        ad.save(obj, path)
        return io.BytesIO(path.read_bytes())


def test_classes_come_back() -> None:
    w = ad.ones(2, requires_grad=True)
    state = {"p": Pair(w, [Body(w), Slots(ad.zeros(1))]), "o": Own(ad.tensor(1)), "n": None}
    CALLS.clear()
    again = ad.load(saved(state))
    assert CALLS == []
    assert type(again["p"]) is Pair and type(again["p"].y[0]) is Body
    assert type(again["p"].y[1]) is Slots and type(again["o"]) is Own
    assert again["p"].y[0].name == "b" and again["p"].y[0].made == 3
    assert again["p"].x.requires_grad and ad.allclose(ad.detach(again), ad.detach(state))


@dataclass
class Grown:
    x: Any
    later: Any = field(init=False)  # has no value until it gets one
    made: int = field(init=False, default=3)  # is in the class alone


def test_attributes_come_back_whichever_there_are() -> None:
    value = Grown([1])
    assert vars(ad.load(saved(value))) == {"x": [1], "made": 3}
    value.more, value.tensor = [2], ad.ones(2)  # type: ignore[attr-defined]
    back = ad.load(saved(value))
    assert back.more == [2] and back.tensor.tolist() == [1.0, 1.0] and not hasattr(back, "later")
    value.later = 5
    assert ad.load(saved(value)).later == 5


def test_defaultdicts_keep_builtin_factories_only() -> None:
    again = ad.load(saved(defaultdict(list, a=[ad.ones(1)])))
    assert again.default_factory is list and again["a"][0].item() == 1.0
    assert ad.load(saved(defaultdict(None, a=1))) == {"a": 1}
    with pytest.raises(
        TypeError, match=r"the default_factory of a defaultdict must be None or one"
    ):
        saved(defaultdict(lambda: 3))


def test_classes_that_run_code_must_be_given() -> None:
    CALLS.clear()
    for obj in (Methods(ad.ones(1)), Ending(ad.ones(1))):
        file = saved(obj)
        with pytest.raises(RuntimeError, match=rf"fix: load\(f, classes=\[{type(obj).__name__}\]"):
            ad.load(file)
        assert CALLS == []
        file.seek(0)
        assert ad.load(file, classes=[type(obj)]).x.item() == 1.0
        CALLS.clear()
    del obj


def test_classes_that_are_not_imported_are_named() -> None:
    def local() -> type:
        @dataclass
        class Local:
            x: Any

        return Local

    cls = local()
    file = saved(cls(ad.ones(1)))
    with pytest.raises(
        RuntimeError, match=r"Local, and no such composite class or enum is imported"
    ):
        ad.load(file)
    file.seek(0)
    assert type(ad.load(file, classes=[cls])) is cls


def test_fields_that_changed_are_refused() -> None:
    file = saved(Slots(ad.ones(1)))

    @dataclass
    class Other:
        x: Any
        y: Any

    Other.__qualname__ = "Slots"
    with pytest.raises(RuntimeError, match=r"with the fields x, but the class has x, y"):
        ad.load(file, classes=[Other])


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(TypeError, match=r"cannot save the object.x\[0\].*not function"):
        saved(Slots([lambda: 1]))
    body = Slots([])
    body.x.append(body)
    with pytest.raises(ValueError, match=r"contains itself"):
        saved(body)
