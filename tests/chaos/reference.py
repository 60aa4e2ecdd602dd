"""The run that nobody disturbs, and what other runs must have in common with it."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from holdfast.questions.answers import Store
from holdfast.runs import Run
from holdfast.trust import read_verdicts
from holdfast.trust.store import flat
from tests.chaos.nursery import CALLS
from tests.end_to_end.command import results

RECIPE = """
name: tiny
data: {source: digits, validation: 0.1, subset: 160, test_subset: 40}
model: {mlp: {hidden: [8]}}
train: {epochs: 4, batch_size: 24, optimizer: {sgd: {lr: 0.1}}, ema: 0.9}
checks:
  - clean
  - gaussian_noise: 0.2
  - pgd: {threat: {linf: 0.1}, steps: 2}
  - smoothing: {sigma: 0.1, n0: 10, n: 40}
  - common: {kind: fog, severity: {each: [1, 2]}}
analyses:
  - gradient_norm
  - flatness
evaluate: {block: 20, batch_size: 20}
"""
OTHER = RECIPE.replace("lr: 0.1", "lr: 0.2")
"""Another recipe of the same name."""

RUN = "runs/tiny/seed-0"
COMMAND = ("run", "tiny.yaml")
EXTRA = (("analyse", "stability", RUN, "--sigma", "0.1"), ("analyse", "curvature", RUN, "--first", "20"))
"""Commands that leave the kinds of files that a recipe does not."""

READERS = (
    ("report", RUN, "--out", "page.html"),
    ("compare", RUN, "other", "--out", "page.html"),
    ("select", RUN, "--by", "clean", "--accuracy", "0.5", "--within", "0.5"),
    ("evaluate", RUN),
)
"""Commands that only read, or that have nothing left to do."""


@dataclass(frozen=True)
class Reference:
    """Undisturbed runs.

    Args:
        place: a directory with the finished run of `RECIPE`, with more analyses, and a copy of it called `other`.
        seconds: how long the run took.
        calls: how many calls of the system it made that may be disturbed.
        out: what it printed.
        outcome: what it left.
        finished: what it left together with the answers to `EXTRA`.
        other: what the run of `OTHER` left.
        read: what each of `READERS` printed and wrote.
    """

    place: Path
    seconds: float
    calls: int
    out: str
    outcome: dict
    finished: dict
    other: dict
    read: tuple


def make_reference(nursery, root):
    """Run what nobody disturbs; the second time, when everything is warm, is timed."""
    succeed(nursery, fresh(root / "warm"), *COMMAND)
    other = fresh(root / "different", OTHER)
    succeed(nursery, other, *COMMAND)
    place = fresh(root / "whole")
    seconds, out = succeed(nursery, place, *COMMAND)
    calls = int((place / CALLS).read_text())
    whole, different = outcome(place / RUN), outcome(other / RUN)
    for argv in EXTRA:
        succeed(nursery, place, *argv)
    finished = outcome(place / RUN)
    shutil.copytree(place / RUN, place / "other")
    read = tuple(reading(nursery, place, argv) for argv in READERS)
    assert all(ended.code == 0 for ended, _ in read), read
    assert outcome(root / "warm" / RUN) == whole != different
    assert outcome(place / RUN) == finished != whole
    return Reference(place, seconds, calls, out, whole, finished, different, read)


def succeed(nursery, place, *argv):
    """Seconds and output of a command that must succeed."""
    ended = nursery.run(*argv, cwd=place)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.seconds, ended.out


def fresh(place, recipe=RECIPE):
    """A directory with a recipe only."""
    place.mkdir(parents=True)
    (place / "tiny.yaml").write_text(recipe)
    return place


def reading(nursery, place, argv):
    """How a command that reads ends, and the page that it wrote."""
    page = place / "page.html"
    page.unlink(missing_ok=True)
    ended = nursery.run(*argv, cwd=place)
    return ended, page.read_bytes() if page.exists() else None


def outcome(path):
    """Everything that a run of the recipe leaves and that a repetition must reproduce: all but times."""
    facts = json.loads((path / "run.json").read_text())
    answers = [(asdict(one.key), one.records, one.rows.to_dicts()) for one in Store(path).read_all()]
    values = {
        **results(path),
        "answers": answers,
        "verdicts": [flat(one) for one in read_verdicts(path)],
        "recipe": (path / "recipe.yaml").read_text(),
        "facts": {name: value for name, value in facts.items() if name != "seconds"},
        "labels": Run(path).labels(),
    }
    return comparable(values)


def comparable(value):
    """The same value with numbers that are equal if their bits are: NaN equals NaN, and 0 is not -0."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {comparable(name): comparable(inner) for name, inner in value.items()}
    return [comparable(inner) for inner in value] if isinstance(value, list | tuple) else value
