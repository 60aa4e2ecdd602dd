"""Small valid files of runs and searches, and what lies beside them."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np

from tests.fuzz.seeds import KEY, npy_of, trained


@functools.cache
def _evaluated():
    """A run with results, an answer, and everything else it may hold: the content of its files."""
    from holdfast.questions.answers import AnswerKey, Store
    from holdfast.trust.store import stored, write_verdicts
    from tests.questions.test_presentations import COLUMNS
    from tests.report import factory

    right = [True, False, True, True]
    checks = [
        factory.FakeCheck("clean", correct=right),
        factory.noise(0.1, right),
        factory.composed("cabswx"),
        factory.pgd(0.1, right),
        factory.pgd(0.2, right, norm="l2"),
        factory.proved([0.5, None, 0.2, 0.0]),
        factory.nearest("deepfool", 0.5, [0.1, None, 0.3, 0.2], norm="l2"),
    ]
    with tempfile.TemporaryDirectory() as place:
        path = factory.make_run(Path(place) / "run", checks, epochs=2, gallery=checks[3].name)
        write_verdicts(path, stored("digits", "best", "ab12", 0, _verdicts()))
        key = AnswerKey(**KEY)
        Store(path).write(key)
        Store(path).append(
            key, 0, "a", {"example": [0, 1, 2], "label": [0] * 3, **COLUMNS, "reached": [True, False, True]}
        )
        for file in path.rglob("checksums.txt"):
            file.unlink()
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def _verdicts():
    from holdfast.trust import Verdict

    return [
        Verdict(flag="gradients", level="pass", finding="a gradient", evidence="model", value=1.0, limit=0.0),
        Verdict(flag="batch", level="warn", finding="depends", remedy="do", evidence="model"),
    ]


def evaluated_run(place):
    """All but answers."""
    _unpacked(place / "run", lambda name: not name.startswith("answers"))


def answered_run(place):
    _unpacked(place / "run", lambda name: True)


def two_runs(place):
    """The same run twice, without answers."""
    for name in ("run", "other"):
        _unpacked(place / name, lambda file: not file.startswith("answers"))


@functools.cache
def _corrupted():
    """A run with two kinds of corruptions at two severities."""
    from tests.report import factory

    right = [True, False, True, True]
    checks = [
        factory.FakeCheck(
            f"common kind={kind} severity={severity}", "common", {"kind": kind, "severity": severity}, correct=right
        )
        for kind in ("fog", "gaussian_noise")
        for severity in (1, 2)
    ]
    with tempfile.TemporaryDirectory() as place:
        path = factory.make_run(Path(place) / "run", [factory.FakeCheck("clean", correct=right), *checks])
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


CORRUPTED = "run/ledger/best-1.parquet"


def corrupted_parts():
    return [_corrupted()["ledger/best-1.parquet"]]


def two_corrupted_runs(place):
    for name in ("run", "other"):
        _unpacked(place / name, lambda file: not file.endswith("checksums.txt"), _corrupted())


def _unpacked(path, wanted, contents=None):
    for name, content in (contents or _evaluated()).items():
        if wanted(name):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)


def run_json():
    plain = json.loads(_evaluated()["run.json"])
    full = {
        **plain,
        "not_run": {"best": {"pgd": 3}},
        "init_from": {"name": "a", "weights": "best", "epoch": 1, "sha256": "ab"},
        "witnesses": [{"name": "b", "weights": "last", "epoch": 2, "sha256": "cd"}],
        "bases": {"standard": {"neighbours": 10}, "robust": {"name": "b"}},
        "fitted": {"scale": 1.0, "kept": 0.5},
    }
    return [json.dumps(facts).encode() for facts in (plain, full)]


def foreign():
    network = {
        "model": {"cnn": {}},
        "data": {"source": "digits"},
        "weights": None,
        "mean": None,
        "std": None,
        "seed": 0,
    }
    small = {**network, "model": {"mlp": {"hidden": [8]}}, "mean": [0.5], "std": [0.25]}
    return [json.dumps({"name": "a", "network": one}).encode() for one in (network, small)]


def metrics():
    return [_evaluated()["metrics.jsonl"], trained()["metrics.jsonl"]]


def parts():
    return [content for name, content in _evaluated().items() if name.startswith("ledger/")]


def galleries():
    return [_evaluated()["gallery/0.npz"]]


def points():
    return [npy_of(np.zeros((2, 1, 4, 4), np.float32))]


def answers():
    from tests.questions.test_presentations import FLATNESS

    thickness = {**KEY, "records": []}
    flatness = {**KEY, "question": "flatness", "settings": dict(FLATNESS.settings), "records": list(FLATNESS.records)}
    return [json.dumps(one).encode() for one in (thickness, flatness)]


def _name(start):
    return next(name for name in _evaluated() if name.startswith(start) and name.endswith(".parquet"))


ROWS = "run/answers/thickness-best-7bb3917112bc-000000.parquet"


def answer_rows():
    return [_evaluated()[_name("answers/")]]


def answer_key(place):
    _unpacked(place / "run", lambda name: name.startswith("answers/") and name.endswith(".json"))


def verdicts():
    return [_evaluated()["verdicts/best-model.json"]]


def checked_file(place):
    from holdfast.files import write_checked

    write_checked(place / "a file.txt", b"content")


def checksums():
    from holdfast.files import write_checked

    with tempfile.TemporaryDirectory() as place:
        for content in (b"old", b"content"):
            write_checked(Path(place) / "a file.txt", content)
        return [(Path(place) / "checksums.txt").read_bytes()]


def journals():
    from tests.search.tiny import plan, search

    with tempfile.TemporaryDirectory() as place:
        of = plan()
        search(of, Path(place), 6)
        return [(Path(place) / of.name / "search.journal").read_bytes()]


def corruption_facts():
    return [b'{"data": "digits", "fingerprint": "f", "family": "imagenet_c", "severities": [1, 2], "seed": 0}']
