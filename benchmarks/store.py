"""What a store costs, what limits a sweep of many processes, and sweeps killed at random moments.

``python benchmarks/store.py`` asks all of it (kills take about ten minutes, overhead, merge and
processes a few); ``... kills`` and so on ask one.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

NUM_KILLS = 50
SWEEP = (
    "audit linear-regression --n 20 --gammas 0.1 1 3 --num-datasets 1024 --num-information 128 "
    "--block-size 32 --json"
)
NUM_BLOCKS = 3 * 1024 // 32
# For a first look: a smaller sweep, fewer kills, sizes and processes.
QUICK_SWEEP = (
    "audit linear-regression --n 10 --gammas 1 --num-datasets 64 --num-information 0 "
    "--block-size 32 --json"
)


def command(*words, quick=False):
    """Command line of the sweep."""
    sweep = QUICK_SWEEP if quick else SWEEP
    return [sys.executable, "-m", "gibbs_dp.cli.main", *sweep.split(), *map(str, words)]


def files(store):
    """Count files that are finished."""
    return sum(1 for _ in Path(store).glob("*/gamma-*/**/*.npz"))


def kills(quick):
    """Kill a sweep 50 times at random moments, finish it, and compare with an undisturbed one."""
    rows, goal_kills = [], 2 if quick else NUM_KILLS
    blocks = 2 if quick else NUM_BLOCKS
    rng = random.Random(2016)
    begin = time.perf_counter()
    whole = subprocess.run(
        command("--quiet", quick=quick), stdout=subprocess.PIPE, check=True
    ).stdout
    print(f"undisturbed: {time.perf_counter() - begin:.1f} s, {len(whole)} bytes of JSON")
    killed, finished, moments = 0, 0, []
    while killed < goal_kills or moments:
        store = Path(tempfile.mkdtemp(prefix="gibbs_dp_kills_"))
        moments = []
        while killed < goal_kills and len(moments) < 10:
            process = subprocess.Popen(
                command("--store", store, "--quiet", quick=quick), stdout=subprocess.DEVNULL
            )
            # At a random count of files (pilots, blocks, information), or a random time.
            goal, pause = files(store) + rng.randrange(max(2, blocks // 5)), rng.uniform(0, 0.1)
            limit = time.monotonic() + (rng.uniform(0, 6) if rng.random() < 0.2 else 300)
            while files(store) < goal and time.monotonic() < limit and process.poll() is None:
                time.sleep(0.001)
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
            if process.wait() != -signal.SIGKILL:
                break  # it had finished
            killed += 1
            moments.append(files(store))
        resumed = subprocess.run(
            command("--store", store, "--quiet", quick=quick), stdout=subprocess.PIPE, check=True
        ).stdout
        assert resumed == whole, f"different numbers after kills at {moments} files"
        finished += 1
        rows.append({"question": "kills", "kills": killed, "files": str(moments), "same": True})
        print(f"{killed} kills, files there at each kill {moments}: same {len(whole)} bytes")
        shutil.rmtree(store)
        moments = [] if killed >= goal_kills else moments
    print(f"{killed} kills in {finished} sweeps, every report the same, bit for bit")
    return rows


def overhead(quick):
    """Time an audit with and without a store, and the writing and reading of one block."""
    import gibbs_dp as gdp
    from gibbs_dp.engine.store.archive import Archive
    from gibbs_dp.problems import build_problem

    rows = []
    problem = build_problem("logistic-regression", dim=10)
    spent = []
    save = Archive.save_block

    def timed(*arguments):
        begin = time.perf_counter()
        save(*arguments)
        spent.append(time.perf_counter() - begin)

    Archive.save_block = timed
    for num_information in (0,) if quick else (0, 1024):
        for label in ("compile", "no store", "store", "no store", "store", "rerun"):
            folder = None
            if label in ("store", "rerun"):
                folder = Path(tempfile.gettempdir()) / f"gibbs_dp_overhead_{num_information}"
            if label == "store":
                shutil.rmtree(folder, ignore_errors=True)
            del spent[:]
            begin = time.perf_counter()
            gdp.audit(
                problem.posterior,
                problem.population,
                200,
                [0.1, 1.0],
                num_datasets=64 if quick else 2048,
                learn=[*gdp.DEFAULT, gdp.MutualInformation(num_information)],
                store=folder,
                progress=False,
            )
            seconds = time.perf_counter() - begin
            text = f"num_information={num_information}, {label:>9}: {seconds:7.3f} s"
            row = {"question": "overhead", "num_information": num_information, "run": label}
            rows.append(row | {"seconds": seconds})
            if spent:
                size = sum(f.stat().st_size for f in folder.glob("*/*/blocks-0/*")) / len(spent)
                mean = 1e3 * sum(spent) / len(spent)
                text += f", {len(spent)} block files of {size / 1e3:.0f} kB, {mean:.2f} ms each"
                rows[-1] |= {"block_files": len(spent), "block_bytes": size, "block_ms": mean}
            print(text)
    Archive.save_block = save
    return rows


def merge(quick):
    """Time putting together 100, 1,000 and 10,000 block files of one gamma."""
    rows = []
    import gibbs_dp as gdp
    from gibbs_dp.engine.store.archive import Archive, pilot_digest
    from gibbs_dp.problems import build_problem

    problem = build_problem("logistic-regression", dim=10)

    def audit(num_datasets, folder):
        return gdp.audit(
            problem.posterior,
            problem.population,
            200,
            [1.0],
            num_datasets=num_datasets,
            learn=[*gdp.DEFAULT, gdp.MutualInformation(0)],
            sampler=gdp.Chains(num_warmup=16),
            block_size=64,
            store=gdp.Store(folder),
            progress=False,
        )

    sync = os.fsync
    with tempfile.TemporaryDirectory() as folder:
        audit(64, folder)
        held = json.loads((Path(folder) / "configuration.json").read_text())
        archive = Archive(gdp.Store(folder), held)
        tuned, _ = archive.tuned(1.0)
        block = archive.block(1.0, 0, 0, pilot_digest(tuned))
        written = 1
        for count in (10,) if quick else (100, 1_000, 10_000):
            os.fsync = lambda handle: None
            for number in range(written, count):  # the first block under every name
                archive.save_block(1.0, 0, 64 * number, pilot_digest(tuned), block)
            os.fsync, written = sync, count
            begin = time.perf_counter()
            audit(64 * count, folder)
            seconds = time.perf_counter() - begin
            print(f"{count} block files: {seconds:.2f} s, {1e3 * seconds / count:.2f} ms a file")
            begin = time.perf_counter()
            audit(64 * count, folder)
            again = time.perf_counter() - begin
            print(f"the same again, from the finished report: {again:.3f} s")
            rows.append(
                {"question": "merge", "files": count, "seconds": seconds, "again_seconds": again}
            )
    return rows


def processes(quick):
    """Split one sweep among 1, 2 and 4 processes, kill one of four, and compare the numbers."""
    found, rows = {}, []
    for count in (1, 2) if quick else (1, 2, 4):
        store = Path(tempfile.mkdtemp(prefix="gibbs_dp_shares_"))
        shares = [("--num-processes", count, "--process-id", i) for i in range(count)]
        lines = [command("--store", store, "--quiet", *share, quick=quick) for share in shares]
        running = [subprocess.Popen(line, stdout=subprocess.DEVNULL) for line in lines]
        if count == 4:
            while files(store) < 20:
                time.sleep(0.01)
            running[2].send_signal(signal.SIGKILL)
        for process in running:
            process.wait()
        if count == 4:
            subprocess.run(lines[2], stdout=subprocess.DEVNULL, check=True)
        words = [sys.executable, "-m", "gibbs_dp.cli.main", "merge", store, "--json", "--quiet"]
        out = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, check=True).stdout
        found[count] = [json.loads(line) for line in out.splitlines()]
        worst = max(
            abs(row[name] / one[name] - 1)
            for row, one in zip(found[count], found[1], strict=True)
            for name in one
            if isinstance(one[name], float) and one[name]
        )
        print(f"{count} processes: largest relative difference from 1 process {worst:.1e}")
        rows.append(
            {"question": "processes", "processes": count, "relative_difference": float(worst)}
        )
    return rows


QUESTIONS = {"kills": kills, "overhead": overhead, "merge": merge, "processes": processes}


def main():
    """Answer the questions asked, all by default, and save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=", ".join(QUESTIONS))
    parser.add_argument("--quick", action="store_true", help="small sweeps, two kills")
    parser.add_argument("--out", help="folder (default: benchmarks/results)")
    parsed = parser.parse_args()
    asked = parsed.questions or list(QUESTIONS)
    for name in set(asked) - set(QUESTIONS):
        parser.error(f"unknown question {name!r}; choose from {', '.join(QUESTIONS)}.")
    rows = machine.rows_of_others("store", "question", asked, parsed.out)
    for name in asked:
        rows += QUESTIONS[name](parsed.quick)
    settings = {"sweep": QUICK_SWEEP if parsed.quick else SWEEP}
    print("saved", machine.save("store", rows, settings, parsed.out))


if __name__ == "__main__":
    main()
