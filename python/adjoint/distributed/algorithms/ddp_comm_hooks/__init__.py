"""Hooks for the communication of gradients. Read next: default_hooks.py."""

from __future__ import annotations

from . import default_hooks as default_hooks
from . import post_localSGD_hook as post_localSGD_hook
