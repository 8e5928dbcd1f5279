"""`torch.hub`: refused. adjoint does not download and run code."""

from __future__ import annotations

import os
from typing import Any

from adjoint._missing import missing as _missing
from adjoint._refused import refused

__path__: list[str] = []  # nothing lies below, and importing it says so
__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url"]

_WHY = "adjoint does not download and run code"
_FIX = (
    "install the model's own package (pip), or download its source; load its weights with "
    "torch.load(path, weights_only=True) and load_state_dict"
)

load = refused("hub.load", _WHY, _FIX)
list = refused("hub.list", _WHY, _FIX)
help = refused("hub.help", _WHY, _FIX)
load_state_dict_from_url = refused(
    "hub.load_state_dict_from_url", "adjoint downloads nothing", _FIX
)
download_url_to_file = refused("hub.download_url_to_file", "adjoint downloads nothing", _FIX)
set_dir = refused("hub.set_dir", _WHY, _FIX)


def get_dir() -> str:
    """Where PyTorch keeps what it downloaded."""
    home = os.environ.get("TORCH_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch"
    )
    return os.path.join(os.path.expanduser(home), "hub")


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
