"""Training of a head alone."""

import numpy as np
import pytest
import torch
from torch import nn

from holdfast.errors import RecipeError
from holdfast.models import read_state
from holdfast.runs import Run
from holdfast.training.freezing import Frozen
from holdfast.training.loop import _Loop
from tests.training.tiny import outcome, recipe, splits, train
from tests.zoo import Normed

NETWORK = "model={resnet10: {width: 0.05, norm: batch}}"
FROZEN = (NETWORK, "train.freeze=features", "train.optimizer.sgd={lr: 0.1, weight_decay: 0.01}")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    place = tmp_path_factory.mktemp("pretrained") / "run"
    train(recipe(NETWORK, "train.epochs=1"), place)
    return place


def parts(path, label="last"):
    """Weights of the head, and all others with the statistics."""
    state = read_state(path / f"{label}.safetensors")
    return [{name: state[name] for name in state if name.startswith("head.") == head} for head in (True, False)]


def equal(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("train.objective={adversarial: {pgd: {threat: {linf: 0.1}, steps: 2}}}",),
        ("train.objective={adversarial: {attack: {pgd: {threat: {linf: 0.1}, steps: 2}}, batch_stats: mixed}}",),
        ("train.objective={sam: {rho: 0.1}}", "train.l1=1e-3", "train.clip=1.0"),
        ("train.optimizer={adam: {lr: 0.01}}", "train.ema=0.9"),
    ],
    ids=["plain", "adversarial", "mixed", "sam", "ema"],
)
def test_features_and_their_statistics_stay_to_the_bit_and_the_head_moves(tmp_path, pretrained, more):
    train(recipe(*FROZEN, f"train.init_from={pretrained}", "seed=1", *more), tmp_path / "run")
    head, features = parts(tmp_path / "run")
    before, expected = parts(pretrained, "best")
    assert any("running_mean" in name for name in features)
    assert equal(features, expected)
    assert not equal(head, before)


def test_without_it_they_move(tmp_path, pretrained):
    train(recipe(NETWORK, f"train.init_from={pretrained}"), tmp_path / "run")
    assert not equal(parts(tmp_path / "run")[1], parts(pretrained, "best")[1])


def test_the_head_is_that_of_the_new_runs_seed(tmp_path, pretrained):
    of = recipe(*FROZEN, f"train.init_from={pretrained}", "seed=1")
    (tmp_path / "run").mkdir()
    loop = _Loop(of, splits(of), Run(tmp_path / "run"))
    other = recipe(NETWORK, "seed=1")
    (tmp_path / "other").mkdir()
    fresh = _Loop(other, splits(other), Run(tmp_path / "other"))
    assert torch.equal(loop.raw.head.weight, fresh.raw.head.weight)
    assert [name for name, weight in loop.raw.named_parameters() if weight.requires_grad] == [
        "head.weight",
        "head.bias",
    ]
    assert all(weight.requires_grad for weight in fresh.raw.parameters())


def test_the_other_run_may_have_had_other_classes(tmp_path):
    file, classes = tmp_path / "three.npz", torch.arange(60) % 3
    x = torch.rand(60, 8, 8, generator=torch.Generator().manual_seed(0)).numpy()
    np.savez(file, x_train=x, y_train=classes.numpy(), x_test=x, y_test=classes.numpy())
    train(recipe(NETWORK, f"data={{source: {{npz: {file}}}, validation: 0.2}}", "train.epochs=1"), tmp_path / "three")
    train(recipe(*FROZEN, f"train.init_from={tmp_path / 'three'}"), tmp_path / "ten")
    assert equal(parts(tmp_path / "ten")[1], parts(tmp_path / "three", "best")[1])
    assert read_state(tmp_path / "ten" / "last.safetensors")["head.weight"].shape[0] == 10
    with pytest.raises(RecipeError, match="weights do not fit the model"):
        train(recipe(NETWORK, f"train.init_from={tmp_path / 'three'}"), tmp_path / "thawed", 1)


def test_interrupted_anywhere_it_ends_with_the_same_bits(tmp_path, pretrained):
    of = recipe(*FROZEN, f"train.init_from={pretrained}")
    train(of, tmp_path / "whole")
    for stop in (1, 5):
        train(of, tmp_path / str(stop), stop)
        train(of, tmp_path / str(stop))
        assert outcome(tmp_path / str(stop)) == outcome(tmp_path / "whole")


def test_only_the_head_is_in_train_mode():
    model = Normed(classes=3, dropout=0.5)
    frozen = Frozen(model, "features")
    frozen.train(model)
    assert not model.norm.training
    assert model.head.training
    Frozen(model, None).train(model)
    assert all(module.training for module in model.modules())


def test_a_network_without_a_head_is_refused():
    for model in (nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), nn.Flatten()):
        with pytest.raises(RecipeError, match=r"train\.freeze: expected a network with a head to train, got"):
            Frozen(model, "features")
    with pytest.raises(RecipeError, match="freeze"):
        recipe("train.freeze=head")
