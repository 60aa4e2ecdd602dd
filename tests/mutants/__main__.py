"""Break the code at random and list the faults that no test notices: `make mutants`, or `python -m tests.mutants`.

Mutation testing: every mutant changes one place of one file; its tests run on it and should fail. A mutant that
survives is a hole in the tests, or equivalent to the original; `equivalent.toml` declares the latter with a reason.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.mutants import choice, trial
from tests.mutants.record import KILLED, SURVIVED, Record, digest

ROOT = Path(__file__).parents[2]
SLACK = 20
"""Seconds that tests of a mutant may take beyond three times those of the original."""


def main():
    """Run mutants until the time is up; print the survivors and what is recorded of each package."""
    options = _options()
    trial.import_libraries()
    record, equivalent = Record(options.record), choice.declared_equivalent()
    with tempfile.TemporaryDirectory() as place:
        root = trial.copy_tree(ROOT, place)
        pile = [m for m in choice.sample(root, options.packages, options.seed) if (m.file, *m.change) not in equivalent]
        runner = Runner(root, record)
        deadline, counts = time.monotonic() + 60 * options.minutes, Counter()
        for mutant in pile:
            counts[package_of(mutant)] += 1
            runner.run(mutant, start=time.monotonic() < deadline and counts[package_of(mutant)] <= options.most)
        summarise(Counter((package_of(mutant), runner.outcome(mutant)) for mutant in pile))


class Runner:
    """Runs mutants that have no outcome yet; the tests of each file must pass on the original first."""

    def __init__(self, root, record):
        self.root, self.record, self.seconds = root, record, {}

    def run(self, mutant, *, start):
        """Find out whether a mutant survives, from the record or (with `start`) from its tests; print it if so."""
        if start and self.outcome(mutant) is None:
            tests = choice.tests_of(self.root, mutant.file)
            limit = 3 * sum(map(self._seconds, tests)) + SLACK
            survives = trial.survives(self.root, mutant, tests, limit)
            self.record.add(mutant, SURVIVED if survives else KILLED, self._digest(mutant))
        if self.outcome(mutant) == SURVIVED:
            print(described(mutant), flush=True)

    def outcome(self, mutant):
        """What is recorded of a mutant and its tests, or None."""
        return self.record.outcome(mutant, self._digest(mutant))

    def _digest(self, mutant):
        return digest(tuple(self.root / test for test in choice.tests_of(self.root, mutant.file)))

    def _seconds(self, test):
        """How long a test file takes on the original, on which it must pass."""
        if test not in self.seconds:
            start = time.monotonic()
            if not trial.passes(self.root, [test], 1800):
                output = (self.root / "output.txt").read_text()
                raise SystemExit(f"mutants: expected tests that pass on the code as it is; got\n{output}")
            self.seconds[test] = time.monotonic() - start
        return self.seconds[test]


def described(mutant):
    """Where a mutant is and what it changes."""
    before, after = (text.replace("\n", "\n      ") for text in mutant.change)
    return f"{mutant.file}:{mutant.line}\n    - {before}\n    + {after}"


def summarise(counts):
    """Print for each package how many mutants there are, were run and were killed, with a 95 % interval."""
    from holdfast.statistics import wilson  # only now: mutants must not find it imported

    print(f"\n{'package':<12} {'mutants':>8} {'run':>6} {'killed':>7}   rate")
    for package in sorted({package for package, _ in counts}):
        killed, survived = counts[package, KILLED], counts[package, SURVIVED]
        run, total = killed + survived, killed + survived + counts[package, None]
        interval = wilson(killed, run) if run else None
        rate = f"{killed / run:.1%} [{interval.low:.1%}, {interval.high:.1%}]" if interval else "-"
        print(f"{package:<12} {total:>8} {run:>6} {killed:>7}   {rate}")


def package_of(mutant):
    """The package below `holdfast` that a mutant is in."""
    return Path(mutant.file).relative_to(choice.SOURCE).parts[0]


def _options():
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", default=choice.PACKAGES, help="Packages or files below src/holdfast.")
    parser.add_argument("--minutes", type=float, default=60, help="After this long no mutant is started (60).")
    parser.add_argument("--most", type=int, default=10**9, help="Most mutants of each package (no limit).")
    parser.add_argument("--seed", type=int, default=0, help="Of the sample (0).")
    parser.add_argument("--record", type=Path, default=ROOT / ".mutants/record.jsonl", help="File of outcomes.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
