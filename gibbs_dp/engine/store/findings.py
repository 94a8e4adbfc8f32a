"""What is found from a gamma's finished blocks: made once, shared out by gamma, kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

from gibbs_dp.engine.executor import in_threads
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.store.archive import Archive, pilot_digest
from gibbs_dp.engine.store.place import AuditIncomplete
from gibbs_dp.engine.store.share import POLL_SECONDS
from gibbs_dp.engine.track import Track

Finding = TypeVar("Finding")
# Much of a finding is NumPy on one core; each holds tables of some hundred megabytes.
MAX_THREADS = 2


def find_all(
    archive: Archive | None,
    kind: type[Finding],
    name: str,
    tracks: Sequence[Track | None],
    make: Callable[[int], Finding],
    progress: Progress,
) -> list[Finding | None]:
    """Return ``make(i)`` for every track, None where there is no track.

    Parameters
    ----------
    archive
        Where findings are kept and shared; None: everything is made here.
    kind
        What is found.
    name
        What it depends on beside the blocks, for the file's name.
    tracks
        The gammas; each process makes the findings of its own.
    make
        From the number of a track to what is found.
    progress
        Advanced once a gamma.

    Returns
    -------
    list
        In the order of the tracks.

    Raises
    ------
    AuditIncomplete
        If some are another process's, and missing.
    """
    found: dict[int, Finding] = {}
    wanted = {rank: track for rank, track in enumerate(tracks) if track is not None}
    progress.skip(len(tracks) - len(wanted))
    missing = []
    for rank, track in wanted.items():
        held = _recall(archive, track, name, kind)
        if held is not None:
            found[rank] = held
            progress.skip(1)
        elif archive is None or _is_mine(archive, rank):
            missing.append(rank)
    with closing(in_threads(missing, lambda _, rank: make(rank), MAX_THREADS)) as finished:
        for rank, held in finished:
            if archive is not None:
                track = wanted[rank]
                archive.save_finding(
                    track.gamma, _named(name, track), pilot_digest(track.tuned), held
                )
            found[rank] = held
            progress.advance(1)
    if archive is not None:
        _collect(archive, kind, name, wanted, found)
    return [found.get(rank) for rank in range(len(tracks))]


def _is_mine(archive: Archive, rank: int) -> bool:
    # A process that only merges the others' blocks does this too, as it takes no sampling.
    store = archive.store
    return store.process_id is None or store.owner(rank) == store.process_id


def _named(name: str, track: Track) -> str:
    return f"{name}-{track.num_reruns}"


def _recall(
    archive: Archive | None, track: Track, name: str, kind: type[Finding]
) -> Finding | None:
    if archive is None:
        return None
    return archive.finding(track.gamma, _named(name, track), pilot_digest(track.tuned), kind)


def _collect(
    archive: Archive,
    kind: type[Finding],
    name: str,
    wanted: dict[int, Track],
    found: dict[int, Finding],
) -> None:
    """Wait for the findings of other processes, as long as the store says."""
    patience = time.monotonic() + archive.store.wait
    while len(found) < len(wanted):
        before = len(found)
        for rank, track in wanted.items():
            if rank in found:
                continue
            held = _recall(archive, track, name, kind)
            if held is not None:
                found[rank] = held
        if len(found) > before:
            patience = time.monotonic() + archive.store.wait
        elif time.monotonic() >= patience:
            missing = tuple(
                f"{kind.__name__.lower()} at gamma={track.gamma:g}"
                for rank, track in wanted.items()
                if rank not in found
            )
            raise AuditIncomplete(
                f"store: all blocks are there; other processes have yet to write the "
                f"{', '.join(missing)}, or putting the store together makes them.",
                missing,
            )
        else:
            time.sleep(min(POLL_SECONDS, archive.store.wait))
