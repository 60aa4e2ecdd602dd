"""Model selection looks at the validation images and at nothing else."""

import dataclasses

import pytest
import torch

from holdfast.attacks import FGSM
from holdfast.corruptions import Bar, GaussianNoise, Linear
from holdfast.data import Split
from holdfast.models import read_metadata
from holdfast.recipe import Selection
from holdfast.runs import Run
from holdfast.threat import Linf
from holdfast.training import Epoch, fit
from holdfast.training.selection import C_BAR, Judge, corrupted_split, validation_scores
from tests.training.tiny import recipe, splits
from tests.zoo import HalfSpace

X = torch.tensor([[0.2], [0.4], [0.6], [0.9], [0.3]])[:, :, None, None]
Y = torch.tensor([0, 0, 1, 1, 1])


def model():
    """Class 1 where x > 1/2; the last example is wrong, and 0.4 and 0.6 fall within 0.15."""
    return HalfSpace(torch.tensor([1.0]), torch.tensor(-0.5)).train()


def split():
    return Split(X, Y, torch.arange(5))


def test_scores_are_those_by_hand():
    judged = model()
    scores = validation_scores(judged, split(), FGSM(threat=Linf(0.15)), 0)
    logit = X.flatten() - 0.5
    loss = torch.log1p(torch.exp(torch.where(Y == 1, -2 * logit, 2 * logit))).mean().item()
    assert scores == {"loss": pytest.approx(loss), "accuracy": 4 / 5, "robust_accuracy": 2 / 5}
    assert judged.training


def test_an_example_that_only_the_attack_puts_right_does_not_count():
    def mirror(model, x, y, *, target=None, rng=None):
        return 1 - x

    assert validation_scores(model(), split(), mirror, 0)["robust_accuracy"] == 0


def test_scores_do_not_depend_on_the_size_of_the_split_in_batches():
    many = Split(X.repeat(150, 1, 1, 1), Y.repeat(150), torch.arange(750))
    assert validation_scores(model(), many, None, 0)["accuracy"] == 4 / 5


def judged(selection, values):
    """Verdicts on models with these accuracies or losses."""
    judge = Judge(selection, split(), 0)
    verdicts = []
    for epoch, value in enumerate(values, start=1):
        if judge.impatient:
            break
        judge_one = HalfSpace(torch.tensor([1.0]), torch.tensor(-value))
        verdicts.append(judge(judge_one, epoch, len(values)).best)
    return verdicts


def test_the_best_is_the_last_of_equals():
    # thresholds 0.5, 0.5, 0.25, 0.5: accuracies 4/5, 4/5, 4/5, ...; 0.35 gets 3/5
    assert judged(Selection(), [0.35, 0.5, 0.5, 0.35, 0.5]) == [True, True, True, False, True]


def test_a_lower_loss_is_better():
    low, high = 0.5, 5.0
    assert judged(Selection(metric="loss"), [high, low, high]) == [True, True, False]


def test_patience_counts_judgements_without_a_better_one():
    assert judged(Selection(patience=2), [0.35, 0.5, 0.35, 0.35, 0.5]) == [True, True, False, False]


def test_an_equal_judgement_does_not_renew_patience():
    assert judged(Selection(patience=2), [0.35, 0.5, 0.5, 0.5, 0.5]) == [True, True, True, True]


def test_judges_every_so_many_epochs_and_the_last():
    judge = Judge(Selection(every=3), split(), 0)
    assert [judge(model(), epoch, 5).scores is not None for epoch in range(1, 6)] == [False, False, True, False, True]


class Untouchable:
    """A test split that must not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(f"the test split was asked for {name}")

    def __len__(self):
        raise AssertionError("the test split was counted")


@pytest.mark.parametrize("metric", ["accuracy", "loss", "robust_accuracy"])
def test_the_best_weights_are_those_of_the_best_validation_score_and_the_test_images_are_never_seen(tmp_path, metric):
    of = recipe("train.epochs=6", f"train.selection={{metric: {metric}, attack: {{fgsm: {{linf: 0.05}}}}}}")
    blind = dataclasses.replace(splits(of), test=Untouchable())
    epochs = [record for record in fit(of, blind, Run(tmp_path)) if isinstance(record, Epoch)]
    values = [epoch.validation[metric] * (-1 if metric == "loss" else 1) for epoch in epochs]
    assert len(set(values)) > 1
    assert int(read_metadata(Run(tmp_path).weights("best"))["epoch"]) == len(values) - values[::-1].index(max(values))
    assert int(read_metadata(Run(tmp_path).weights("last"))["epoch"]) == 6
    assert [epoch.best for epoch in epochs] == [
        value >= max(values[:n], default=-9e9) for n, value in enumerate(values)
    ]


def test_without_validation_images_there_are_only_last_weights(tmp_path):
    of = recipe("data.validation=0")
    assert all(record.validation is None for record in fit(of, splits(of), Run(tmp_path)) if isinstance(record, Epoch))
    assert Run(tmp_path).labels() == ["last"]


def test_every_image_meets_one_of_the_corruptions_in_turn():
    def darker(x, *, rng=None):
        return 0 * x

    def same(x, *, rng=None):
        return x

    found = corrupted_split(split(), (darker, same), 0)
    expected = torch.tensor([0.0, 0.4, 0.0, 0.9, 0.0])
    torch.testing.assert_close(found.x.flatten() / 255, expected, atol=0.51 / 255, rtol=0)
    assert torch.equal(found.y, Y)
    part = corrupted_split(Split(X[3:], Y[3:], torch.tensor([3, 4])), (darker, same), 0)
    assert torch.equal(part.x, found.x[3:])


def test_corrupted_images_are_the_same_in_every_epoch_and_decide():
    judge = Judge(Selection(metric="corrupted_accuracy", corruptions=(GaussianNoise(0.3),)), split(), 0)
    first, second = judge(model(), 1, 2), judge(model(), 2, 2)
    assert first.scores == second.scores
    expected = validation_scores(model(), corrupted_split(split(), (GaussianNoise(0.3),), 0), None, 0)["accuracy"]
    assert first.scores["corrupted_accuracy"] == expected
    grey = Judge(Selection(metric="corrupted_accuracy", corruptions=(Linear(0.0, std=0.0),)), split(), 0)
    assert grey(model(), 1, 2).scores["corrupted_accuracy"] in (2 / 5, 3 / 5)  # all grey: one class for all


def test_without_names_it_is_c_bar():
    assert set(C_BAR) >= {Bar(kind="lines", severity=1), Bar(kind="ripple", severity=5)}
    assert len(C_BAR) == 50
    Selection(metric="corrupted_accuracy")
    with pytest.raises(ValueError, match="corruptions go with the metric corrupted_accuracy, got accuracy"):
        Selection(corruptions=(GaussianNoise(0.1),))
