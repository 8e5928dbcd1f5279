"""Where tensors of a file go: ``map_location``. All of them come to the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.device import device, require_cpu
from adjoint._tensor.storage import TypedStorage, UntypedStorage
from adjoint.serialization._errors import CallersError

__all__ = [
    "check_location",
    "default_restore_location",
    "is_meta",
    "location_tag",
    "register_package",
    "restorer",
]

Restorer = Callable[[Tensor, str], Tensor]
_packages: list[tuple[int, Callable[[Any], Any], Callable[[Any, str], Any]]] = []


def register_package(
    priority: int, tagger: Callable[[Any], Any], deserializer: Callable[[Any, str], Any]
) -> None:
    """Remember how another library names and restores its storages.

    Parameters
    ----------
    priority : int
        Lower ones are asked first.
    tagger
        Of a storage makes the name of its place, or None.
    deserializer
        Of a storage and such a name makes a storage, or None.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """The name of the place of a storage."""
    for _, tagger, _ in _packages:
        found = tagger(storage)
        if found:
            return str(found)
    return "cpu"


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage, at the place of this name: the CPU, or what was registered for it."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    require_cpu(location)
    return storage


def check_location(map_location: Any) -> None:
    """Refuse another device than the CPU before a file is opened."""
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii", "replace")
    if isinstance(map_location, str | device):
        if not is_meta(map_location):
            require_cpu(map_location)
    elif not (map_location is None or isinstance(map_location, dict) or callable(map_location)):
        raise TypeError(
            "load(): map_location must be a function, a device, a string or a dict, not "
            f"{type(map_location).__name__}"
        )


def is_meta(map_location: Any) -> bool:
    """Whether tensors are wanted without their values."""
    if isinstance(map_location, bytes):
        map_location = map_location.decode("ascii", "replace")
    return isinstance(map_location, str | device) and str(map_location) == "meta"


def restorer(map_location: Any) -> Restorer | None:
    """What is done with the bytes of a storage and its place; None: nothing."""
    if map_location is None or isinstance(map_location, str | bytes | device):
        return None
    if isinstance(map_location, dict):

        def look_up(data: Tensor, location: str) -> Tensor:
            try:
                if location in map_location:
                    require_cpu(map_location[location])
            except Exception as error:
                raise CallersError from error
            return data

        return look_up

    def ask(data: Tensor, location: str) -> Tensor:
        try:
            found = map_location(UntypedStorage.of(data), location)
            if not (found is None or isinstance(found, UntypedStorage | TypedStorage)):
                raise TypeError(
                    f"load(): map_location returned a {type(found).__name__}, not a storage"
                )
        except Exception as error:
            raise CallersError from error
        return data if found is None else _core._whole(found._tensor)

    return ask
