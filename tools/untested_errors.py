"""List the errors and warnings of the library that no test brings about.

    python -m tools.untested_errors                       copies, builds, runs the tests, lists
    python -m tools.untested_errors --add tests/errors    adds what these reach (sources unchanged)
    python -m tools.untested_errors --report              lists again

Works on a copy of the sources in --folder in which each site (error_sites.py) notes in the file
`reached` that it was come to. That tells `if (bad) runtime_error(…)` on one line from the test of
its condition, costs the tests no time, and sees processes that end without saying so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from tools.error_sites import Site, all_sites

ROOT = Path(__file__).resolve().parent.parent

# Sites that no test can reach: (file, part of the line, why).
UNREACHABLE: list[tuple[str, str, str]] = [
    ("src/kernels/", "std::bad_alloc()", "memory that the system refuses while a kernel runs"),
    ("src/tensor/allocator.cpp", "throw ", "memory that the system refuses"),
    ("src/bindings/interop/buffers.cpp", "PyErr_NoMemory()", "memory that the system refuses"),
    ("src/bindings/errors.cpp", "none was set", "would be a bug of the bindings"),
    ("src/bindings/errors.cpp", "PyExc_SystemError, e.what()", "an op that is declared wrongly"),
    ("src/bindings/autograd/saved_hooks.cpp", "collector cleared it", "a collection within a pass"),
    ("src/random/", "", "the op refuses it earlier; tests/native/test_random.cpp comes here"),
    (
        "src/kernels/products/small_products.h",
        "",
        "the op refuses it; tests/native/test_gemm.cpp comes",
    ),
    ("src/tensor/geometry.cpp", "setStorage: sizes", "before the storage: no op asks for that"),
    ("src/tensor/tensor.cpp", "negative strides are", "the op refuses them earlier"),
    ("src/parallel/pool.cpp", "", "the binding refuses it; tests/native/test_pool.cpp comes"),
    (
        "src/bindings/autograd/fresh_thread.cpp",
        "needs another thread",
        "a thread that the system refuses",
    ),
    (
        "src/bindings/tensor/creation.cpp",
        "where a number was",
        "a list that changes while it is read",
    ),
    ("src/ops/shape/copy.cpp", "refuse_reading_batched", "an op that lacks a batch rule"),
    ("python/adjoint/external/", '"unreachable"', "tells the type checker that a loop returns"),
    ("nn/modules/container.py", "raise NotImplementedError", "abstract: subclasses have their own"),
]

CPP_NOTE = """\
// Notes which error sites were reached. Written by tools/untested_errors.py.
#include <fcntl.h>
#include <unistd.h>
#include <mutex>
#include <set>
#include <string>
namespace adjoint_reached {
void at(const char* site) noexcept {
  static std::mutex lock;
  static std::set<const char*> seen;
  std::lock_guard hold(lock);
  if (!seen.insert(site).second) return;
  std::string line = std::string(site) + "\\n";
  int file = open("REACHED", O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (write(file, line.data(), line.size()) < 0) return;
  close(file);
}
}  // namespace adjoint_reached
"""

PYTHON_NOTE = '''\
"""Note which error sites were reached. Written by tools/untested_errors.py."""

_seen: set[str] = set()


def at(site: str) -> None:
    """Append the site to the file, once per process."""
    if site not in _seen:
        _seen.add(site)
        with open("REACHED", "a") as file:
            file.write(site + "\\n")
'''


def marked(path: str, text: str, sites: Iterable[Site]) -> str:
    """Return the text with a note at each of its sites; lines keep their numbers."""
    python = path.endswith(".py")
    notes: list[tuple[int, str]] = []
    for site in sites:
        if python:
            call = f'__import__("adjoint._reached")._reached.at("{site.name}"); '
            notes.append((site.start, call))
        else:
            notes += [(site.start, f'(adjoint_reached::at("{site.name}"), '), (site.end, ")")]
    for position, note in sorted(notes, reverse=True):  # from the end: positions stay right
        text = text[:position] + note + text[position:]
    if not python:
        line = "\n#line 1\n" if text.startswith("#") else " "
        text = "namespace adjoint_reached { void at(const char*) noexcept; }" + line + text
    return text


def write(path: Path, text: str | bytes) -> None:
    """Write a file if that changes it, so that only what differs is built again."""
    data = text.encode() if isinstance(text, str) else text
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy(folder: Path, sites: list[Site]) -> None:
    """Bring the marked copy in `folder` up to date."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    listing = set(listed.stdout.decode().split("\0")) - {"CMakeLists.txt"}
    names = [name for name in listing if (ROOT / name).is_file()]
    by_path = {path: list(group) for path, group in groupby(sites, lambda site: site.path)}
    for name in names:
        data = (ROOT / name).read_bytes()
        if name in by_path:
            data = marked(name, data.decode(), by_path[name]).encode()
        write(folder / name, data)
    for part in ("src", "python/adjoint", "tests"):
        for stale in (folder / part).rglob("*.[chp]*"):
            relative = str(stale.relative_to(folder))
            if stale.suffix in (".cpp", ".h", ".py") and relative not in names:
                stale.unlink()
    # Unoptimised, what is marked builds in a third of the time; a compiler cache has the rest.
    changed = " ".join(path for path in by_path if path.endswith(".cpp"))
    cmake = (ROOT / "CMakeLists.txt").read_text()
    cmake += f"set_source_files_properties({changed} PROPERTIES COMPILE_OPTIONS -O0)\n"
    write(folder / "CMakeLists.txt", cmake)
    reached = str(folder / "reached")
    write(folder / "src/tensor/reached.cpp", CPP_NOTE.replace("REACHED", reached))
    write(folder / "python/adjoint/_reached.py", PYTHON_NOTE.replace("REACHED", reached))


def build(folder: Path) -> None:
    """Build the copy's extension module into its python/adjoint."""
    cmake = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DADJOINT_DEV=ON"]
    if not (folder / "build" / "build.ninja").exists():
        subprocess.run([*cmake, f"-DPython_EXECUTABLE={sys.executable}"], cwd=folder, check=True)
    subprocess.run(["ninja", "-C", "build", "-j2"], cwd=folder, check=True)


def run(folder: Path, tests: list[str]) -> None:
    """Run the tests on the copy; failures are shown, and do not end the count."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "python")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "", "-p", "no:cacheprovider"]
    subprocess.run([*command, *tests], cwd=folder, env=environment, check=False)


def report(folder: Path, sites: list[Site]) -> int:
    """Print what was not reached, by file; return how many that are."""
    record = folder / "reached"
    reached = set(record.read_text().splitlines()) if record.exists() else set()
    missing = [site for site in sites if site.name not in reached]
    reasons = {site: why for site in missing for why in reasons_for(site)}
    open_sites = [site for site in missing if site not in reasons]
    for path, group in groupby(open_sites, lambda site: site.path):
        print(path)
        for site in group:
            print(f"  {site.line}: {site.text}")
    print(
        f"{len(sites)} sites, {len(sites) - len(missing)} reached by tests, "
        f"{len(reasons)} that no test can reach, {len(open_sites)} untested"
    )
    return len(open_sites)


def reasons_for(site: Site) -> list[str]:
    """Return why no test can reach the site, if that is known."""
    return [why for path, part, why in UNREACHABLE if path in site.path and part in site.text]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build-errors", help="the copy")
    parser.add_argument("--add", action="store_true", help="keep what earlier runs reached")
    parser.add_argument("--report", action="store_true", help="list again without running")
    parser.add_argument("tests", nargs="*", help="what to run; all but tests/conformance")
    options = parser.parse_args()
    folder = options.folder.resolve()
    sites = all_sites(ROOT)
    if not options.report:
        copy(folder, sites)
        build(folder)
        if not options.add:
            (folder / "reached").unlink(missing_ok=True)
        run(folder, options.tests or ["tests", "--ignore=tests/conformance"])
    return 1 if report(folder, sites) else 0


if __name__ == "__main__":
    sys.exit(main())
