"""What holds for all tests."""

from __future__ import annotations

import gc
import signal


def pytest_configure() -> None:
    """Let Ctrl-C raise: a shell starts what it runs in the background with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests themselves: thousands that it would walk each time."""
    gc.collect()
    gc.freeze()
