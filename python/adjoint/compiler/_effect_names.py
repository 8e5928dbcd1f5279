"""Functions and methods that a replay cannot stand for, by name, and why. Read next: `_effects`."""

from __future__ import annotations

import collections

OTHER = "gives another value at each call"
ONCE = "would not happen again in a replay"
_FINE = ""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _all_but(why: str, fine: str = "") -> dict[str, str]:
    return {"*": why} | dict.fromkeys(_names(fine), _FINE)


def _these(why: str, names: str) -> dict[str, str]:
    return dict.fromkeys(_names(names), why)


_SYSTEM = _all_but(ONCE, "fspath getpid cpu_count") | _these(OTHER, "urandom getcwd times")

# By the module that defines a function: which of its names, and why. "*" stands for all others;
# "package.*" for every module of a package.
BY_MODULE: dict[str, dict[str, str]] = {
    "builtins": _these(ONCE, "print open breakpoint") | _these(OTHER, "input"),
    "time": _all_but(OTHER, "strftime strptime mktime") | _these(ONCE, "sleep"),
    "io": _these(ONCE, "open open_code"),
    "_io": _these(ONCE, "open open_code FileIO"),
    "secrets": _all_but(OTHER),
    "uuid": _these(OTHER, "uuid1 uuid4 getnode"),
    "subprocess": _all_but(ONCE, "list2cmdline"),
    "_posixsubprocess": _all_but(ONCE),
    "socket": _all_but(ONCE),
    "logging": _all_but(ONCE, "getLogger getLevelName"),
    "threading": _these(ONCE, "start Timer settrace setprofile"),
    "_thread": _these(ONCE, "start_new_thread"),
    "shutil": _all_but(ONCE),
    "tempfile": _all_but(ONCE),
    "signal": _all_but(ONCE),
    "atexit": _all_but(ONCE),
    "posix": _SYSTEM,
    "nt": _SYSTEM,
    "os": _these(OTHER, "getenv getenvb walk")
    | _these(ONCE, "popen fdopen makedirs removedirs renames execvp spawnl spawnv"),
    "sys": _these(ONCE, "exit settrace setprofile setrecursionlimit"),
    "gc": _these(ONCE, "collect enable disable"),
    "pickle": _these(ONCE, "dump load"),
    "_pickle": _these(ONCE, "dump load"),
    "json": _these(ONCE, "dump load"),
    "importlib": _these(ONCE, "reload"),
    "weakref": _these(ONCE, "finalize"),
    "warnings": _these(ONCE, "warn warn_explicit simplefilter filterwarnings resetwarnings"),
    "_warnings": _these(ONCE, "warn warn_explicit"),
    "concurrent.*": _all_but(ONCE),
    "multiprocessing.*": _all_but(ONCE, "cpu_count current_process"),
    "asyncio.*": _all_but(ONCE),
    "numpy": _these(
        ONCE,
        "load save savez savez_compressed loadtxt savetxt genfromtxt fromfile memmap seterr "
        "setbufsize set_printoptions",
    ),
}

# Of adjoint: what sets or reads a state that belongs to the whole program.
OWN_STATE = _names(
    "manual_seed seed initial_seed set_rng_state get_rng_state set_default_dtype "
    "set_default_device set_default_tensor_type set_num_threads set_num_interop_threads "
    "set_printoptions set_anomaly_enabled set_warn_always use_deterministic_algorithms save load"
)

CLOCK_METHODS = _names("now today utcnow")  # of the classes of datetime
FILE_METHODS = _names("write writelines read readline readlines flush seek close truncate")
PATH_METHODS = _names(
    "open read_text read_bytes write_text write_bytes exists is_file is_dir mkdir rmdir unlink "
    "touch iterdir glob rglob stat lstat rename replace symlink_to hardlink_to chmod resolve cwd "
    "home samefile"
)

# Methods that change the object they belong to.
_ITEMS = _names("__setitem__ __delitem__ __iadd__ __imul__ __ior__ __iand__ __isub__ __ixor__")
_SEQUENCE = _ITEMS | _names("append extend insert pop remove clear reverse sort")
MUTATORS: dict[type, frozenset[str]] = {
    list: _SEQUENCE,
    dict: _ITEMS | _names("clear pop popitem setdefault update"),
    set: _ITEMS
    | _names(
        "add clear discard pop remove update difference_update intersection_update "
        "symmetric_difference_update"
    ),
    bytearray: _SEQUENCE,
    collections.deque: _SEQUENCE | _names("appendleft extendleft popleft rotate"),
    collections.OrderedDict: _names("move_to_end"),
}
ARRAY_MUTATORS = _ITEMS | _names("fill sort put itemset partition resize setfield setflags")

# Functions that change their first argument, by module and name.
FIRST_CHANGED = frozenset(
    {("builtins", "next"), ("_heapq", "*")}
    | {("_bisect", name) for name in _names("insort insort_left insort_right")}
    | {("_operator", name) for name in _names("setitem delitem iadd iconcat imul ior isub iand")}
    | {("numpy", name) for name in _names("copyto put place putmask fill_diagonal")}
)
