"""Torch's own samples (`op_db`) of every op that both have: values, derivatives, variants, out=.

Two samples of each entry and dtype are replayed here; ADJOINT_OPINFO=all (or a number of samples)
replays more, and `python -m tools.opinfo_report` all of them, from any seed, with a report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import adjoint as ad
from tests.conformance.absent_entries import ABSENT
from tests.conformance.known_differences import known
from tests.conformance.opinfo import database, entries, torch
from tests.conformance.replay import DTYPES, replay

CHOSEN = os.environ.get("ADJOINT_OPINFO", "2")
SAMPLES = None if CHOSEN == "all" else int(CHOSEN)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small calls on a busy machine: waiting threads would take the time of working ones."""
    before = torch.get_num_threads(), ad.get_num_threads()
    torch.set_num_threads(1)
    ad.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    ad.set_num_threads(before[1])


@pytest.mark.parametrize("name", database())
def test_torchs_samples_give_what_they_give_in_torch(name: str) -> None:
    differences = [
        d for dtype in DTYPES for d in replay(name, dtype, SAMPLES).differences if not known(d)
    ]
    assert not differences, "\n".join(map(str, differences))


def test_no_entry_of_torchs_database_is_lost() -> None:
    """An entry that is not here must be listed; the list may only become shorter."""
    missing = entries().keys() - database().keys()
    assert missing <= ABSENT.keys(), f"not listed: {sorted(missing - ABSENT.keys())}"


def test_almost_all_entries_of_torchs_database_are_here() -> None:
    share = len(database()) / len(entries())
    assert share > 0.97, f"{len(database())} of {len(entries())} entries are here ({share:.1%})"
