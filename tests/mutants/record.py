"""Outcomes of mutants, kept in a file so that the next run goes on where this one ended."""

import functools
import hashlib
import json

KILLED, SURVIVED = "killed", "survived"


class Record:
    """One line of JSON per outcome; the last one of a mutant counts.

    An outcome counts as long as the mutated file is the same, and a survivor only as long as its tests are the same.
    """

    def __init__(self, path):
        self.path, self.outcomes = path, {}
        for line in path.read_text().splitlines() if path.exists() else []:
            entry = json.loads(line)
            self.outcomes[entry["mutant"]] = entry

    def outcome(self, mutant, tests):
        """What is recorded of a mutant, or None; `tests` is the digest of its tests."""
        entry = self.outcomes.get(_key(mutant))
        stale = entry is None or (entry["outcome"] == SURVIVED and entry["tests"] != tests)
        return None if stale else entry["outcome"]

    def add(self, mutant, outcome, tests):
        """Record an outcome."""
        place = {"mutant": _key(mutant), "file": mutant.file, "line": mutant.line, "change": mutant.change}
        entry = {**place, "outcome": outcome, "tests": tests}
        self.outcomes[entry["mutant"]] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


@functools.cache
def digest(files):
    """One digest of the contents of several files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def _key(mutant):
    source = hashlib.sha256(mutant.source).hexdigest()
    text = f"{mutant.file} {source} {mutant.start} {mutant.end} ".encode() + mutant.text
    return hashlib.sha256(text).hexdigest()[:16]
