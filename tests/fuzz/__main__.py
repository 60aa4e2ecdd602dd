"""Read damaged files of every format until the time is up: `make fuzz`, or `python -m tests.fuzz`.

Every reader gets mutants of valid files in a process of its own. It may return or raise one of holdfast's errors in one
line; anything else is a finding: its file is written to a directory, to be committed to the corpus once it is mended.
"""

import argparse
import contextlib
import importlib.util
import random
import time
from pathlib import Path

from tests.fuzz import guided
from tests.fuzz.series import Tally, merge, run
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
TURN = 60
"""Seconds that a target has before the next has its turn."""
LEAST = 10
"""Seconds that a guided process needs to be worth its start."""
WITH_ATHERIS = importlib.util.find_spec("atheris") is not None


def main():
    """Fuzz all targets, or those given, in turns; exit 1 if anything was found, or a reader was not run."""
    options = _options()
    names = [name for name in TARGETS if not options.targets or name in options.targets]
    if unknown := set(options.targets) - set(TARGETS):
        raise SystemExit(f"fuzz: unknown targets {', '.join(sorted(unknown))}; known: {', '.join(TARGETS)}")
    how = "half of the time guided by atheris" if WITH_ATHERIS else "not guided: atheris is not installed"
    print(f"seed {options.seed}, {len(names)} targets, {options.minutes:g} minutes, {how}", flush=True)
    tallies = {name: Tally() for name in names}
    with contextlib.suppress(KeyboardInterrupt):
        take_turns(tallies, options)
    summarise(tallies)
    raise SystemExit(any(tally.broken or not tally.executions for tally in tallies.values()))


def take_turns(tallies, options):
    """Give each target its time, again and again, and each at least one turn; print what was found."""
    deadline, round_, most = time.monotonic() + 60 * options.minutes, 0, options.executions
    turn = max(1.0, min(TURN, 60 * options.minutes / len(tallies)))
    while open_ := [name for name, tally in tallies.items() if tally.executions < most]:
        round_ += 1
        for name in open_:
            if (now := time.monotonic()) >= deadline and round_ > 1:
                return
            earlier, until = set(tallies[name].broken), now + turn if round_ == 1 else min(deadline, now + turn)
            half = now + (until - now) / (2 if WITH_ATHERIS else 1)
            run(TARGETS[name], f"{options.seed}/{name}/{round_}", until=half, most=most, tally=tallies[name])
            if (left := until - time.monotonic()) >= LEAST and WITH_ATHERIS and tallies[name].executions < most:
                merge(tallies[name], guided.run(name, left, options.seed + round_))
            for outcome in set(tallies[name].broken) - earlier:
                _report(name, outcome, *tallies[name].broken[outcome], options.out)


def _report(name, outcome, content, detail, out):
    """Print a finding and keep its file."""
    place = out / name.replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    file = place / "".join(letter if letter.isalnum() else "-" for letter in outcome)[:80]
    file.write_bytes(content)
    print(f"\n{name}: {outcome} ({len(content)} bytes in {file})\n{detail}", flush=True)


def summarise(tallies):
    """Print what came of each target."""
    print(f"\n{'reader':<30} {'executions':>10} {'per second':>10} {'outcomes':>8} {'findings':>8} {'memory':>9}")
    for name, tally in tallies.items():
        rate = tally.executions / max(tally.seconds, 1e-9)
        memory, broken = f"{tally.memory / 1e6:.1f} MB", len(tally.broken)
        print(f"{name:<30} {tally.executions:>10,} {rate:>10,.0f} {len(tally.outcomes):>8} {broken:>8} {memory:>9}")
    total = sum(tally.executions for tally in tallies.values())
    broken = sum(len(tally.broken) for tally in tallies.values())
    print(f"{'all':<30} {total:>10,} {'':>10} {'':>8} {broken:>8}")
    if missing := [name for name, tally in tallies.items() if not tally.executions]:
        print(f"not run: {', '.join(missing)}")


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="Readers by name (all).")
    parser.add_argument("--minutes", type=float, default=60, help="After this long nothing is executed (60).")
    parser.add_argument("--executions", type=int, default=10**9, help="Most executions of each target (no limit).")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="Of the mutations (random).")
    parser.add_argument("--out", type=Path, default=Path(".fuzz"), help="Directory of files that broke something.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
