"""Reading any object, with ``weights_only=False``: the file's pickle runs what it says.

The unpickler is the standard library's, or the caller's. PyTorch's names lead to adjoint's classes
(`_torch_places`) and persistent ids to storages; everything else is imported as pickles do.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from adjoint.serialization._torch_places import found_in_torch

__all__ = ["unpickled"]


def unpickled(
    data: bytes,
    module: Any,
    persistent: Callable[[Any], Any],
    options: dict[str, Any],
    start: int = 0,
) -> tuple[Any, int]:
    """The object of a pickle, and where the pickle ends.

    Parameters
    ----------
    data
        The pickle, and perhaps more behind it.
    module
        Has an ``Unpickler``.
    persistent
        Makes an object of a persistent id.
    options
        For the unpickler.
    start
        Where the pickle begins in ``data``.
    """

    class Loader(module.Unpickler):  # type: ignore[misc]
        def find_class(self, module_name: str, name: str) -> Any:
            if module_name == "torch" or module_name.startswith("torch."):
                return _in_torch(module_name, name)
            return super().find_class(module_name, name)

        def persistent_load(self, pid: Any) -> Any:
            return persistent(pid)

    file = io.BytesIO(data)
    file.seek(start)
    return Loader(file, **options).load(), file.tell()


def _in_torch(module: str, name: str) -> Any:
    if module == "torch.return_types":
        from adjoint.serialization._torch_names import result_builder

        return result_builder(name)
    return found_in_torch(module, name)
