"""Perturbed images of all examples: the very points that the ledger tells of, also after a kill."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from holdfast.attacks import PGD, AutoAttack, Square
from holdfast.corruptions import Clean
from holdfast.data import Split
from holdfast.evaluation import Subject, evaluations
from holdfast.evaluation.points import read_points
from holdfast.losses import cross_entropy
from holdfast.recipe import EvaluateRecipe
from holdfast.results import Ledger
from holdfast.threat import Linf
from tests import zoo


@dataclass(frozen=True, kw_only=True)
class Twice:
    """Two random searches, of which now one and now the other finds the higher loss."""

    threat: Linf

    def components(self):
        return {name: Square(threat=self.threat, queries=4) for name in ("one", "two")}

    def __call__(self, model, x, y, *, target=None, rng=None):
        raise AssertionError("evaluation runs the components themselves")


CHECKS = [PGD(threat=Linf(0.08), steps=3), AutoAttack(threat=Linf(0.08), steps=5, targets=2, queries=20)]
CHECKS += [Twice(threat=Linf(0.15))]
HOW = {"block": 16, "batch_size": 8}


def digits(count=40):
    x, y = zoo.digits()
    order = torch.arange(count).flip(0)  # the ledger is in the order of indices, whatever that of the split
    return Split(x[:count][order], y[:count][order], order)


def run(check, path, model=None, **how):
    checks = [Clean(), check]
    kept = {"ledger": Ledger(path), "points": path, "how": EvaluateRecipe(**{**HOW, **how})}
    return list(evaluations(Subject(model or zoo.digits_mlp(), hash="h"), digits(), checks, **kept))


@pytest.mark.parametrize("check", CHECKS, ids=["plain", "composed", "twice"])
def test_every_part_has_the_points_of_its_rows(tmp_path, check):
    run(check, tmp_path)
    model, x, broken = zoo.digits_mlp(), zoo.digits()[0], 0
    parts = [(path, Ledger(tmp_path).part(path.stem)) for path in Ledger(tmp_path).parts()]
    assert sorted(len(rows) for _, rows in parts) == [8, 8, 16, 16, 16, 16]
    for path, rows in parts:
        if rows["method"][0] == "clean":
            assert not path.with_suffix(".npy").exists()
            continue
        z = torch.from_numpy(read_points(path.with_suffix(".npy")))
        with torch.no_grad():
            logits, y = model(z), torch.tensor(rows["label"].to_list())
        assert logits.argmax(1).tolist() == rows["prediction"].to_list()
        assert cross_entropy(logits, y).tolist() == pytest.approx(rows["loss"].to_list(), rel=1e-4, abs=1e-6)
        assert check.threat.distance(z, x[rows["example"].to_list()]).tolist() == pytest.approx(
            rows["distance"].to_list()
        )
        broken += (~rows["correct"]).sum()
    assert 2 < broken < 40


@pytest.mark.parametrize("check", CHECKS, ids=["plain", "composed", "twice"])
def test_a_kill_changes_no_point(tmp_path, check):
    run(check, tmp_path / "whole")
    model, calls = zoo.digits_mlp(), 0

    def killed(z):
        nonlocal calls
        calls += 1
        if calls > 30:
            raise KeyboardInterrupt
        return model(z)

    with pytest.raises(KeyboardInterrupt):
        run(check, tmp_path / "killed", killed)
    run(check, tmp_path / "killed")
    whole = {path.name: np.load(path) for path in (tmp_path / "whole").glob("*.npy")}
    assert len(whole) == 3
    for name, points in whole.items():
        assert np.array_equal(np.load(tmp_path / "killed" / name), points)


def test_nothing_is_kept_unless_asked(tmp_path):
    checks = [PGD(threat=Linf(0.08), steps=1)]
    how = EvaluateRecipe(**HOW)
    list(evaluations(Subject(zoo.digits_mlp()), digits(), checks, how=how, ledger=Ledger(tmp_path)))
    assert not list(tmp_path.rglob("*.npy"))
