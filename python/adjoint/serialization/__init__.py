"""Files that hold data, not code: `save` and `load`.

A file of `save` is a safetensors file (`_memory`). Its tensors are the storages of what was saved;
its metadata has one key, ``adjoint``, with the structure as JSON (`_encode`, `_decode`). Any
safetensors reader sees the tensors; nothing is executed. It takes its place when it is whole
(`adjoint.serialization._replace`).

PyTorch's own files are zip archives with a pickle in them (`_torch_files`), or older ones
(`_torch_legacy`): a machine for the pickle's instructions (`_pickle_machine`) rebuilds tensors and
plain containers (`_torch_names`), and refuses everything else.
"""

from __future__ import annotations

from adjoint.serialization._errors import LoadError
from adjoint.serialization._files import load, save

__all__ = ["LoadError", "load", "save"]
