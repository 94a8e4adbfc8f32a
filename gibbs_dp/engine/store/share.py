"""One process's share of a stage: what the store has, what is its own, what others still owe."""

from __future__ import annotations

import time
from collections.abc import Iterable

from gibbs_dp.engine.progress import Progress
from gibbs_dp.engine.store.archive import Archive, pilot_digest
from gibbs_dp.engine.store.place import AuditIncomplete, Store
from gibbs_dp.engine.summary import Block
from gibbs_dp.engine.track import Track

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
    if first >= track.settings.num_stored:
        block = block._replace(kept=None)
    pilot = pilot_digest(track.tuned)
    archive.save_block(track.gamma, track.num_reruns, first, pilot, block)


def collect(archive: Archive, blocks: Blocks, progress: Progress) -> None:
    """Take in the blocks of other processes, waiting as long as the store says.

    Raises
    ------
    AuditIncomplete
        If some are still missing then.
    """
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


def nothing_tuned(store: Store, gamma: float) -> AuditIncomplete:
    """Describe a store that lacks the very first files of a gamma."""
    text = f"gamma={gamma:g}: all of it"
    return AuditIncomplete(
        f"store: {str(store.path)!r} has nothing of gamma={gamma:g} yet; run its processes.",
        (text,),
    )


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
        if found is None or (found.kept is None and first < track.settings.num_kept):
            missing.append(rank)
            continue
        track.add(first, found)
        progress.skip(1)
    return missing


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
