"""Coverage-guided mutants: atheris drives one target, for a stated time, and leaves what it found in a file.

Atheris is no requirement: it is used where it is installed.

`python -m tests.fuzz.guided TARGET SECONDS SEED OUTPUT` is a process of its own: atheris instruments holdfast while it
is imported, and never returns.
"""

import contextlib
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz.series import ASLEEP, START

BEYOND = 4_000_000_000
"""Bytes of address space: atheris keeps a corpus in memory, and never gives back what it traced."""


def run(name, seconds, seed):
    """The tally of a target after some seconds in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "tally"
        command = [sys.executable, "-m", "tests.fuzz.guided", name, str(max(1, int(seconds))), str(seed), str(output)]
        errors = Path(place) / "errors.txt"
        with errors.open("wb") as words, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=words, check=False, timeout=2 * seconds + START + ASLEEP
            )
        last = errors.read_bytes()[-3000:].decode(errors="replace")
        tally = pickle.loads(output.read_bytes()) if output.exists() else None
        if tally is None:
            raise SystemExit(f"fuzz: atheris could not run: {last[-500:]}")
        for number, file in enumerate(sorted(Path(place).glob("tally-*"))):
            tally.broken[f"death under atheris #{number}"] = file.read_bytes(), last
        tally.seconds = seconds
    return tally


def main():
    """Execute until the time is up; the tally is written as it grows."""
    import atheris

    name, seconds, seed, output = sys.argv[1:5]
    with atheris.instrument_imports(include=["holdfast"]):
        import holdfast.cli  # noqa: F401  all that readers import
        from tests.fuzz.series import Tally
        from tests.fuzz.targets import TARGETS
        from tests.fuzz.trial import executed, limited_memory, prepared
    target, tally, written = TARGETS[name], Tally(), [time.monotonic()]
    with (
        tempfile.TemporaryDirectory() as directory,
        tempfile.TemporaryDirectory() as corpus,
        contextlib.ExitStack() as limits,
    ):
        prepared(target, Path(directory))
        seeds = list(target.seeds())
        for number, content in enumerate(seeds):
            (Path(corpus) / str(number)).write_bytes(content)

        def execute(content):
            if not tally.executions:  # before, atheris maps large libraries of its own
                limits.enter_context(limited_memory(BEYOND))
            tally.add(content, executed(target, Path(directory), content))
            if time.monotonic() - written[0] > 1:
                written[0] = time.monotonic()
                Path(output).write_bytes(pickle.dumps(tally))

        def mutate(content, most, number):
            return target.mutant(random.Random(number), [content], seeds)[:most]

        options = [f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=100000", "-timeout=60", "-rss_limit_mb=0"]
        atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={output}-", corpus], execute, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001  atheris waits for ever where Python ends in the usual way
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
