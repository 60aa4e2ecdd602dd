"""Tiny searches on the digits: a few trials of a few steps each."""

from pathlib import Path

from holdfast.search import Ended, open_study, parse_plan, read_findings, work
from holdfast.search.sampler import trials

TEXT = """
name: tiny
data: {source: digits, validation: 0.4, subset: 60}
model: {mlp: {hidden: [8]}}
train:
  epochs: 3
  batch_size: 12
  optimizer: {sgd: {lr: {search: log, low: 0.01, high: 1}, momentum: {search: uniform, low: 0.1, high: 0.9}}}
search:
  trials: 4
"""


def plan(*overrides, text=TEXT):
    return parse_plan(text, overrides, file=Path("tiny.yaml"))


def search(of, out, records=None, **options):
    """Work to the end, or until so many records were seen; returns what was found."""
    working, seen = work(of, out, **options), []
    while records is None or len(seen) < records:
        record = next(working, None)
        if record is None:
            break
        seen.append(record)
    working.close()
    return [record for record in seen if isinstance(record, Ended)]


def findings(of, out, storage=None):
    return read_findings(open_study(of, out / of.name, storage), of, trials(of))


def outcome(found):
    """Everything about the trials that a repetition must reproduce: all but the times."""
    return [
        (t.number, t.state, dict(t.drawn), t.values, t.steps, t.epochs, t.planned, dict(t.scores or {}), t.error)
        for t in found.trials
    ]
