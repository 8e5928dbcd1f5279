"""Ctrl-C ends what runs long on little input: every call here would take minutes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

CHILD = """
import adjoint as ad
wide = lambda *shape: ad.ones((1,) * len(shape)).expand(shape)
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", ad.ones(3).sum().item(), wide(2**22).sum().item())
"""

CALLS = [
    "wide(2**44).sum()",
    "wide(2, 2**44).max()",
    "wide(100, 2**44).mean(1)",
    "ad.arange(3.0).expand(2**44, 3).sum(0)",
    "wide(2**44).std()",
    "wide(2**44).all()",
    "wide(2**44).dot(wide(2**44))",
    "while True: wide(2**25).split(1)",
    "while True: wide(2**25).unbind()",
    "while True: wide(2**26).tolist()",
    "while True: ad.combinations(ad.arange(50), 6)",
    "while True: ad.tril_indices(2**14, 2**13)",
    "ad.ones(400_000).diff(n=399_000)",
]


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_is_heard(call: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(call=call)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert said == "interrupted 3.0 4194304.0\n" and child.returncode == 0


def test_a_handler_may_change_the_tensor_in_hand() -> None:
    code = (
        "import signal\nimport adjoint as ad\nx = ad.zeros(0, 0).resize_(2**22, 1)\n"
        "signal.signal(signal.SIGALRM, lambda *_: x.resize_(()))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n"
        "try:\n    while True: x.unbind(0)\n"
        "except (RuntimeError, IndexError) as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "another shape by a signal handler" in done.stdout or "dimension" in done.stdout


def test_a_handler_that_does_not_raise_changes_nothing() -> None:
    code = (
        "import signal\nimport adjoint as ad\nseen = []\n"
        "signal.signal(signal.SIGALRM, lambda *_: seen.append(1))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)\n"
        "x = ad.ones(1).expand(3, 2**28)\n"
        "assert x.sum(1).tolist() == [2.0**28] * 3 and x.sum() == 3 * 2**28\n"
        "print(len(seen) > 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n", done.stderr
