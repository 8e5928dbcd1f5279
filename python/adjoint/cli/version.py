"""`adjoint --version`: the version and what this build consists of, for reports of faults."""

from __future__ import annotations

import platform
import sys


def text() -> str:
    """One line with the version, then one for each part."""
    import adjoint as ad
    from adjoint import _core

    build = _core._build_info()
    parts = {
        "build": f"{build['kind']}, {build['compiler']}, {platform.machine()} {sys.platform}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "instruction set": _core.instruction_set(),
        "BLAS": build["blas"].strip(),
        "threads": str(ad.get_num_threads()),
    }
    width = max(map(len, parts))
    lines = (f"  {name:<{width}}  {words}" for name, words in parts.items())
    return "\n".join([f"adjoint {ad.__version__}", *lines])
