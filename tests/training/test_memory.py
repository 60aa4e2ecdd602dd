"""Training that runs out of memory: validation continues with fewer images, a step stops with one line."""

import re

import pytest
import torch

from holdfast.attacks import FGSM
from holdfast.data import Split
from holdfast.errors import TrainingError
from holdfast.halving import Halved
from holdfast.recipe import Selection
from holdfast.runs import Run
from holdfast.threat import Linf
from holdfast.training import Epoch, Step
from holdfast.training.selection import Judge
from tests import zoo
from tests.cramped import ERRORS, Cramped, cramp
from tests.training.tiny import metrics, outcome, recipe, train


def split():
    x = zoo.images(40, (1, 8, 8), dtype=torch.float32)
    return Split(x, zoo.labels(40, 5), torch.arange(40))


def judge():
    return Judge(Selection(attack=FGSM(threat=Linf(0.1)), metric="corrupted_accuracy"), split(), 0)


def test_scores_are_the_same_with_fewer_images_at_once():
    expected, judging, cramped = judge(), judge(), Cramped(zoo.smooth(shape=(1, 8, 8)).float(), 3)
    plenty = expected(Cramped(zoo.smooth(shape=(1, 8, 8)).float()), 1, 2)
    first, second = judging(cramped, 1, 2), judging(cramped, 2, 2)
    assert first.scores == second.scores == plenty.scores
    assert (first.halved, second.halved, plenty.halved) == (Halved(40, 2), None, None)


def test_epochs_say_that_memory_ran_out_and_keep_what_they_would_have_kept(tmp_path, monkeypatch):
    expected = train(recipe(), tmp_path / "plenty")
    cramp(monkeypatch, lambda network, x: not network.training and len(x) > 4)
    records = train(recipe(), tmp_path / "cramped")
    assert next(one.halved for one in records if isinstance(one, Epoch)) == Halved(16, 4)
    assert len(records) == len(expected)
    one, other = outcome(tmp_path / "cramped"), outcome(tmp_path / "plenty")
    assert one["weights"] == other["weights"]
    assert "halved" not in metrics(tmp_path / "cramped")[0]


@pytest.mark.parametrize("fail", ERRORS.values(), ids=ERRORS)
def test_a_step_that_does_not_fit_is_one_line_with_the_remedy(tmp_path, monkeypatch, fail):
    cramp(monkeypatch, lambda network, x: network.training, fail)
    with pytest.raises(TrainingError) as caught:
        train(recipe(), tmp_path)
    expected = (
        r"tiny/seed-0: step 1 \(epoch 1\): out of memory with a batch of 8 images\. .*nothing was saved before.*"
        r"--set train\.batch_size=4 --fresh"
    )
    assert re.fullmatch(expected, str(caught.value))


def test_training_that_ran_out_of_memory_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    calls = []
    with monkeypatch.context() as patched:
        cramp(patched, lambda network, x: network.training and calls.append(x))
        train(recipe(), tmp_path / "plenty")
    last = len(calls)
    calls.clear()
    with monkeypatch.context() as patched:
        cramp(patched, lambda network, x: network.training and (calls.append(x) or len(calls) == last))
        with pytest.raises(TrainingError, match=r"step 6 \(epoch 2\).*it continues from the state that was saved last"):
            train(recipe(), tmp_path / "cramped")
    assert Run(tmp_path / "cramped").state.exists()
    records = train(recipe(), tmp_path / "cramped")
    assert [one.step for one in records if isinstance(one, Step)] == [4, 5, 6]  # the second epoch
    one, other = outcome(tmp_path / "cramped"), outcome(tmp_path / "plenty")
    assert one == other
