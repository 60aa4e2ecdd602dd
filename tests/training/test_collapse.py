"""Growing threats in the loop, and the alarm of a network that ignores its input."""

import math

import pytest
import torch
from torch import nn

from holdfast.errors import RecipeError
from holdfast.objectives.threat_warmup import with_budget_share
from holdfast.recipe import parse_recipes
from holdfast.runs import Run
from holdfast.training import Epoch
from holdfast.training.collapse import CollapseWatch, constant_loss, remedy
from holdfast.training.running_objective import RunningObjective
from tests.training.tiny import RECORDS, TEXT, outcome, recipe, splits, train

PGD = "train.objective={adversarial: {attack: {pgd: {threat: {linf: 0.2}, steps: 2}}}}"
MMA = "train.objective={mma: {threat: {linf: 0.2}, steps: 2, searches: 5}}"
FOAR = "train.objective={foar: {threat: {linf: 0.2}}}"
AWP = "train.objective={awp: {objective: {fast: {threat: {linf: 0.2}}}}}"


class Constant(nn.Module):
    """The same logits for every image."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, x):
        return self.logits.expand(len(x), -1).clone()


@pytest.mark.parametrize("objective", [PGD, MMA, FOAR, AWP], ids=["pgd", "mma", "foar", "awp"])
def test_each_step_has_its_share_of_the_threat(tmp_path, monkeypatch, objective):
    of = recipe(objective, "train.threat_warmup=0.5")
    seen, original = [], RunningObjective.give_budget_share

    def watch(work, share):
        original(work, share)
        seen.append(work.objective.objective if isinstance(work.objective, nn.Module) else work.objective)

    monkeypatch.setattr(RunningObjective, "give_budget_share", watch)
    train(of, tmp_path)
    shares = [1 / 3, 2 / 3, 1.0, 1.0, 1.0, 1.0]  # two epochs of three steps, of which half are the warm-up
    assert seen == [with_budget_share(of.train.objective, share) for share in shares]


@pytest.mark.parametrize("objective", [PGD, MMA, AWP], ids=["pgd", "mma", "awp"])
def test_with_a_growing_threat_it_resumes_to_the_same_bits(tmp_path, objective):
    of = recipe(objective, "train.threat_warmup=0.7")
    train(of, tmp_path / "whole")
    for records in range(1, RECORDS):
        train(of, tmp_path / f"cut {records}", records)
        train(of, tmp_path / f"cut {records}")
        assert outcome(tmp_path / f"cut {records}") == outcome(tmp_path / "whole")


def test_a_growing_threat_makes_another_network(tmp_path):
    for name, share in (("whole", 0), ("growing", 0.9)):
        train(recipe(PGD, f"train.threat_warmup={share}"), tmp_path / name)
    assert outcome(tmp_path / "whole") != outcome(tmp_path / "growing")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.threat_warmup=0.5"], r"threat_warmup: expected an objective with a threat .* got standard"),
        ([PGD, "train.threat_warmup=1.5"], r"threat_warmup must lie in \[0, 1\].* got 1.5"),
        ([PGD, "train.threat_warmup=-0.1"], r"threat_warmup must lie in \[0, 1\].* got -0.1"),
        (["train.objective={policy: {threat: {linf: 0.1}}}", "train.threat_warmup=0.5"], r"got policy"),
    ],
    ids=["no threat", "above one", "negative", "policy"],
)
def test_a_warm_up_that_cannot_be_is_refused(overrides, message):
    with pytest.raises(RecipeError, match=message):
        parse_recipes(TEXT, overrides)


def test_the_loss_of_a_constant_answer_is_the_entropy_of_the_classes():
    assert constant_loss(torch.arange(10)) == pytest.approx(math.log(10))
    assert constant_loss(torch.tensor([0, 0, 0, 1])) == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert constant_loss(torch.zeros(5, dtype=torch.int64)) == 0


def test_a_constant_answer_raises_the_alarm_in_the_second_epoch_and_learning_ends_it():
    watch = CollapseWatch(splits(recipe()).train, "do something")
    constant, trained = Constant([0.0] * 10), nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    assert watch(constant) is None
    alarm = watch(constant) or ""
    assert "for 2 epochs" in alarm
    assert alarm.endswith("do something")
    x, y = watch.split.batch(slice(None))
    optimizer = torch.optim.Adam(trained.parameters(), 0.05)
    for _ in range(50):
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(x), y).backward()
        optimizer.step()
    assert watch(trained) is None
    assert watch(constant) is None  # it counts from the start again


def test_a_network_that_cannot_learn_says_so_in_its_epochs_also_when_resumed(tmp_path):
    of = recipe("train.optimizer.sgd.lr=1.0e-9", "train.epochs=3")
    whole = [record for record in train(of, tmp_path / "whole") if isinstance(record, Epoch)]
    assert [record.alarm is not None for record in whole] == [False, True, True]
    assert "no better than that of a constant answer" in whole[1].alarm
    train(of, tmp_path / "cut", 5)
    train(of, tmp_path / "cut")
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    assert "for 3 epochs" in Run(tmp_path / "cut").metrics.read_text(encoding="utf-8").splitlines()[2]


def test_the_first_remedy_is_a_growing_threat_where_there_is_an_adversary():
    assert "threat_warmup: 0.5" in remedy(adversarial=True, warmup=0)
    assert "longer" in remedy(adversarial=True, warmup=0.2)
    assert "threat" not in remedy(adversarial=False, warmup=0)
