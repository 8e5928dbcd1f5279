"""Files: `save` and `load`.

A file of `save` is what PyTorch's ``save`` writes: a zip archive with a pickle and the storages of
tensors (`_torch_files`, `_pickling`). `load` reads it, PyTorch's own files and older ones
(`_torch_legacy`) with a machine for the pickle's instructions (`_pickle_machine`) that makes data
and refuses everything else (`_torch_names`); with ``weights_only=False`` an unpickler makes any
object (`_unpickling`).

A name that ends in ``.safetensors`` makes a safetensors file (`_memory`): its tensors are the
storages of what was saved; its metadata has one key, ``adjoint``, with the structure as JSON
(`_encode`, `_decode`). Any safetensors reader sees the tensors.

Either takes its place when it is whole (`adjoint.serialization._replace`).
"""

from __future__ import annotations

from adjoint.serialization._errors import LoadError
from adjoint.serialization._files import (
    DEFAULT_PROTOCOL,
    get_unsafe_globals_in_checkpoint,
    load,
    save,
)
from adjoint.serialization._locations import (
    default_restore_location,
    location_tag,
    register_package,
)
from adjoint.serialization._rebuild import _get_layout as _get_layout
from adjoint.serialization._safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from adjoint.serialization._settings import (
    LoadEndianness,
    SourceChangeWarning,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from adjoint.serialization._torch_places import StorageType

__all__ = [
    "DEFAULT_PROTOCOL",
    "LoadEndianness",
    "LoadError",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]
