"""Finished blocks and findings in a store: what it has, what is this process's, what others owe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TypeVar

from gibbs_dp.engine.executor import in_threads
from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.store.archive import Archive, AuditIncomplete, Store, pilot_digest
from gibbs_dp.engine.track import Track
from gibbs_dp.engine.view import Block

Blocks = list[tuple[Track, int]]

POLL_SECONDS = 0.5
# Missing blocks that a message lists one by one.
LISTED = 4


def recall(archive: Archive, blocks: Blocks, progress: Progress) -> Blocks:
    """Take in every block that the store has; return those of this process that it lacks."""
    missing = _absorb(archive, blocks, progress)
    owners = _owners(archive.store, blocks)
    return [blocks[rank] for rank in missing if owners[rank] == archive.store.process_id]


def save(archive: Archive, track: Track, first: int, block: Block) -> None:
    """Write a block, with what quantities may want of the first datasets, now or later."""
    if block.kept is not None:
        stored = track.settings.num_stored
        past = {name: None for name in block.kept._fields if first >= stored[name]}
        block = block._replace(kept=block.kept._replace(**past))
    pilot = pilot_digest(track.tuned)
    archive.save_block(track.gamma, track.num_reruns, first, pilot, block)


def collect(archive: Archive, blocks: Blocks, progress: Progress) -> None:
    """Take in the blocks of other processes, waiting as long as the store says."""
    missing = _unfinished(blocks)
    patience = time.monotonic() + archive.store.wait
    if missing:
        progress.stage("waiting for other processes")
        progress.expect(len(missing))
    while missing:
        _absorb(archive, blocks, progress)
        left = _unfinished(blocks)
        if len(left) < len(missing):
            patience = time.monotonic() + archive.store.wait
        missing = left
        if missing and time.monotonic() >= patience:
            raise _incomplete(archive.store, blocks, missing)
        if missing:
            time.sleep(min(POLL_SECONDS, archive.store.wait))


def _unfinished(blocks: Blocks) -> list[int]:
    return [rank for rank, (track, first) in enumerate(blocks) if first not in track.blocks]


def _absorb(archive: Archive, blocks: Blocks, progress: Progress) -> list[int]:
    """Load what the store has of the unfinished blocks; return the ranks that it lacks."""
    tracks = {id(track): track for track, _ in blocks}
    there = {key: archive.firsts(t.gamma, t.num_reruns) for key, t in tracks.items()}
    pilots = {key: pilot_digest(track.tuned) for key, track in tracks.items()}
    missing = []
    for rank in _unfinished(blocks):
        track, first = blocks[rank]
        key = id(track)
        found = None
        if first in there[key]:
            given = track.gamma, track.num_reruns, first, pilots[key], track.settings.traced
            found = archive.block(*given)
        if found is None or _lacks(found, track, first):
            missing.append(rank)
            continue
        track.add(first, found)
        progress.skip(1)
    return missing


def _lacks(block: Block, track: Track, first: int) -> bool:
    """Whether a quantity wants something of these datasets that was not kept."""
    wanted = [name for name, count in track.settings.num_kept.items() if first < count]
    return any(getattr(block.kept, name, None) is None for name in wanted)


def _incomplete(store: Store, blocks: Blocks, missing: list[int]) -> AuditIncomplete:
    named = tuple(f"gamma={blocks[r][0].gamma:g} from dataset {blocks[r][1]}" for r in missing)
    listed = ", ".join(named[:LISTED]) + (", ..." if len(named) > LISTED else "")
    whose = _whose(store, blocks, missing)
    return AuditIncomplete(
        f"store: {len(missing)} of {len(blocks)} blocks are missing ({listed}){whose}; run what "
        "should have made them again, unless it is still at work.",
        named,
    )


def _owners(store: Store, blocks: Blocks) -> list[int]:
    """Deal each gamma's blocks to all processes in turn: gammas may differ in cost."""
    gammas = [track.gamma for track, _ in blocks]
    order = sorted(range(len(blocks)), key=lambda rank: (gammas[rank], blocks[rank][1]))
    owners = [0] * len(blocks)
    for turn, rank in enumerate(order):
        owners[rank] = store.owner(turn)
    return owners


def _whose(store: Store, blocks: Blocks, missing: Iterable[int]) -> str:
    if store.num_processes == 1:
        return ""
    owners = _owners(store, blocks)
    numbers = sorted({owners[rank] for rank in missing})
    return f", all of process {', '.join(map(str, numbers))} of {store.num_processes}"


# What is found from a gamma's finished blocks: made once, shared out by gamma, kept.

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
    """Return ``make(i)`` for every track, None where there is no track."""
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
