"""What a library costs before it computes: the time to import it and its bytes on disk."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT

IMPORT_MARK = 0.060  # seconds beyond `import numpy`
EXTENSION_MARK = 12e6  # bytes of the extension module, stripped


@dataclass
class Startup:
    """`seconds` is beyond `import numpy`; `extension` is None unless there is one `_core`."""

    lib: str
    seconds: float
    megabytes: float
    extension: float | None


def measure(lib: str, rounds: int) -> Startup:
    size, extension = sizes(lib)
    return Startup(lib, import_seconds(lib, rounds), size / 1e6, extension)


def import_seconds(lib: str, rounds: int) -> float:
    code = (
        f"import time, numpy; t = time.process_time(); import {lib}; print(time.process_time() - t)"
    )
    # The first import compiles bytecode; the best of the rest is the steady cost. Waiting threads
    # of NumPy's BLAS would be counted too.
    times = []
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"PYTHONPYCACHEPREFIX": folder, "OPENBLAS_NUM_THREADS": "1"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(rounds + 1):
            command = [sys.executable, "-c", code]
            out = subprocess.run(
                command, capture_output=True, text=True, check=True, cwd=ROOT, env=env
            )
            times.append(float(out.stdout))
    return min(times[1:])


def sizes(lib: str) -> tuple[float, float | None]:
    spec = importlib.util.find_spec(lib)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"{lib} is not installed")
    folder = Path(spec.origin).parent
    files = [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    cores = [p.stat().st_size for p in folder.glob("_core*.so")]
    return float(sum(p.stat().st_size for p in files)), cores[0] if cores else None
