"""Checkpoints of distributed runs: each rank writes its part, any number of ranks reads.

A checkpoint is a folder of safetensors files and an index of what is where. Read next: _format.py.
"""

from __future__ import annotations

from ._blocks import Block
from ._format import FileSystemReader, FileSystemWriter
from ._loading import load, load_state_dict, read
from ._saving import async_save, save, save_state_dict

__all__ = [
    "Block",
    "FileSystemReader",
    "FileSystemWriter",
    "async_save",
    "load",
    "load_state_dict",
    "read",
    "save",
    "save_state_dict",
]
