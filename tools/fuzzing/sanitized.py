"""The environment that a sanitized _core needs. Imports nothing that would load it."""

from __future__ import annotations

import os
import subprocess
import sys

SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")


def restart(module: str) -> None:
    """Run the command again, with the libraries of the sanitizers loaded first."""
    if not SANITIZED:
        again = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, again, environment())


def environment() -> dict[str, str]:
    """The environment of a process that loads the sanitized _core."""
    libraries = [
        subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    return os.environ | {
        # Python leaks on purpose. What is too large is refused, as by the plain allocator.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=512",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": " ".join(libraries),
    }
