"""Networks that answer with a record, as those of Hugging Face do."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import holdfast
from holdfast.attacks import PGD
from holdfast.errors import ModelError
from holdfast.models import LogitsOf, load_weights, normalised, with_logits
from holdfast.models.external import Python
from holdfast.threat import Linf
from holdfast.trust.audit import audit
from tests.zoo import images, labels, linear, normed

X, Y = images(8), labels(8, 3)


@dataclass
class ImageClassifierOutput:
    """The record of the library `transformers`, of which only `logits` is always there."""

    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Transformer(nn.Module):
    """Answers as image classifiers of `transformers` do; the argument has another name than usual."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pixel_values=None, labels=None):
        return ImageClassifierOutput(self.network(pixel_values))


def make():
    return Transformer(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))


def test_the_logits_of_a_record_are_taken_and_other_networks_stay():
    model = Transformer(linear(3))
    assert torch.equal(with_logits(model, X[:1])(X), linear(3)(X))
    assert torch.equal(with_logits(lambda x: model(x), X[:1])(X), linear(3)(X))
    plain = linear(3)
    assert with_logits(plain, X[:1]) is plain
    assert with_logits(plain, torch.zeros(1, 7, dtype=torch.float64)) is plain  # cannot be called on this


def test_asking_moves_no_statistics_and_no_random_state():
    model = Transformer(normed()).train()
    before, state = model.network.norm.running_mean.clone(), torch.get_rng_state()
    assert isinstance(with_logits(model, X[:1]), LogitsOf)
    assert torch.equal(model.network.norm.running_mean, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training


def test_evaluations_and_audits_take_it_as_it_is():
    model, plain = Transformer(linear(3)), linear(3)
    attack = PGD(threat=Linf(0.1), steps=2)
    found, expected = (holdfast.evaluate(normalised(each, 0.1), X, Y, attack).rows for each in (model, plain))
    assert found.drop("seconds", "steps").equals(expected.drop("seconds", "steps"))
    verdicts = [list(audit(each, X, Y, attack=attack, surrogate=plain)) for each in (model, plain)]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("mean", [None, (0.5,)])
def test_factories_may_return_it_and_its_weights_are_read_by_their_own_names(tmp_path, mean):
    model = Python(factory="tests.models.test_logits:make", mean=mean)((1, 4, 4), 3)
    trained = make()
    torch.save(trained.state_dict(), tmp_path / "weights.pt")
    load_weights(model, tmp_path / "weights.pt")
    x = X.float()
    expected = trained.network(x if mean is None else x - 0.5)
    assert torch.equal(model(x), expected)
    torch.save(model.state_dict(), tmp_path / "whole.pt")
    again = Python(factory="tests.models.test_logits:make", mean=mean)((1, 4, 4), 3)
    load_weights(again, tmp_path / "whole.pt")
    assert torch.equal(again(x), expected)


def test_an_attack_says_what_to_do_about_a_record():
    attack = PGD(threat=Linf(0.1), steps=2, random_start=False)
    with pytest.raises(ModelError, match=r"as a tensor; got a ImageClassifierOutput; wrap it in .*LogitsOf"):
        attack(Transformer(linear(3)), X, Y)
    assert torch.equal(attack(LogitsOf(Transformer(linear(3))), X, Y), attack(linear(3), X, Y))
    assert torch.equal(
        attack(normalised(LogitsOf(Transformer(linear(3))), [0.0], [1.0]).double(), X, Y), attack(linear(3), X, Y)
    )
