"""What mpiexec runs for a rank that it has not started: it hands over the place, and waits.

The rank gets the variables of the environment, and the connection to mpiexec if that is an open
file. This process ends when the rank does, well or not, and mpiexec sees that. A program by itself,
without adjoint: `_joining.py` is the other side.
"""

from __future__ import annotations

import json
import os
import socket
import sys

_PREFIXES = ("PMI", "PMIX_", "OMPI_", "OPAL_", "ORTE_", "PRTE_", "MPI_", "MPIR_", "MPICH_")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


def main(folder: str) -> int:
    """Meet the rank at a socket of this folder; the status, when it has ended."""
    rank = next(os.environ[name] for name in _RANKS if name in os.environ)
    place = {k: v for k, v in os.environ.items() if k.startswith(_PREFIXES)}
    files = [int(place["PMI_FD"])] if "PMI_FD" in place else []
    with socket.socket(socket.AF_UNIX) as rank_side:
        rank_side.connect(os.path.join(folder, rank))
        socket.send_fds(rank_side, [json.dumps(place).encode() + b"\n"], files)
        for file in files:
            os.close(file)
        has_said_goodbye = rank_side.recv(1)
        rank_side.recv(1)  # nothing: the process is over
    return 0 if has_said_goodbye else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
