"""Inject faults into a short run and list the promises that they break: `make chaos`, or `python -m tests.chaos`.

Each fault has a directory, a random generator and a number of its own, so that `--only NUMBER` with the same seed
repeats it. What must be true after each is in `ground.py`; the kinds of faults are in `faults.py`.
"""

import argparse
import itertools
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from tests.chaos.faults import KINDS
from tests.chaos.ground import NAMED, SAME, Ground, Violation
from tests.chaos.mounts import enter_namespace
from tests.chaos.process import Nursery
from tests.chaos.reference import make_reference

ROOT = Path(__file__).parents[2]
NEEDS_MOUNTS = ("disk full", "read-only disk")


def main():
    """Inject faults until enough were or the time is up; print a table, and exit with 1 if promises were broken."""
    mounts = enter_namespace()
    options = _options()
    shutil.rmtree(options.directory, ignore_errors=True)
    kinds = plan(options.faults, options.seed, mounts=mounts)
    nursery, counts, started = Nursery(), Counter(), time.monotonic()
    try:
        reference = make_reference(nursery, options.directory)
        print(f"seed {options.seed}; undisturbed: {reference.seconds:.1f} s, {reference.calls} calls", flush=True)
        for number, kind in enumerate(kinds):
            if options.only not in (None, number):
                continue
            if time.monotonic() - started > 60 * options.minutes:
                print(f"time is up before fault {number}", flush=True)
                break
            ground = Ground(
                nursery, reference, random.Random(f"{options.seed} {number}"), options.directory / f"fault-{number}",
                turn=kinds[:number].count(kind),
            )  # fmt: skip
            counts[kind, None] += 1
            counts[kind, inject(kind, number, ground, options)] += 1
            if number % 25 == 24:
                print(f"{number + 1} faults, {time.monotonic() - started:.0f} s", flush=True)
    finally:
        nursery.close()
    summarise(counts, mounts=mounts)
    sys.exit(1 if any(result == "violations" for _, result in counts) else 0)


def plan(faults, seed, *, mounts):
    """The kind of each fault: all in proportion, in random order."""
    kinds = {kind: share for kind, (_, share) in KINDS.items() if mounts or kind not in NEEDS_MOUNTS}
    total, ends = sum(kinds.values()), list(itertools.accumulate(kinds.values()))
    places = [n * total / faults for n in range(faults)]
    chosen = [next(kind for kind, end in zip(kinds, ends, strict=True) if place < end) for place in places]
    random.Random(seed).shuffle(chosen)
    return chosen


def inject(kind, number, ground, options):
    """Make one fault; print how to repeat it if a promise was broken, and keep its directory then."""
    try:
        result = KINDS[kind][0](ground)
    except (Violation, OSError) as violation:
        again = f"--faults {options.faults} --seed {options.seed} --only {number}"
        print(f"VIOLATION {kind}: {ground.remark}{violation}", flush=True)
        print(f"    python -m tests.chaos {again}    left {ground.place}", flush=True)
        return "violations"
    finally:
        ground.end_all()
    shutil.rmtree(ground.place)
    return result


def summarise(counts, *, mounts):
    """Print a table by kind of fault."""
    columns = (None, SAME, NAMED, "violations")
    print(f"\n{'fault':<24}" + "".join(f"{column or 'injected':>20}" for column in columns))
    for kind in KINDS:
        if mounts or kind not in NEEDS_MOUNTS:
            print(f"{kind:<24}" + "".join(f"{counts[kind, column]:>20}" for column in columns))
        else:
            print(f"{kind:<24}  not possible here: no disk can be mounted")
    totals = [sum(counts[kind, column] for kind in KINDS) for column in columns]
    print(f"{'all':<24}" + "".join(f"{total:>20}" for total in totals))


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int, default=500, help="How many (500).")
    parser.add_argument("--seed", type=int, default=0, help="Of everything random (0).")
    parser.add_argument("--minutes", type=float, default=60, help="After this long no fault is injected (60).")
    parser.add_argument("--only", type=int, help="Inject only the fault of this number.")
    parser.add_argument("--directory", type=Path, default=ROOT / ".chaos", help="Where it works; is emptied (.chaos).")
    return parser.parse_args()


if __name__ == "__main__":
    main()
