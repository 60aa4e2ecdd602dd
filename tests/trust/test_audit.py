"""The audit as a whole: honest networks pass, masked ones are caught by the flags that are meant for them."""

import itertools

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD
from holdfast.errors import DataError, ModelError
from holdfast.losses import margin
from holdfast.threat import L1, L2, Linf
from holdfast.trust import FLAGS
from holdfast.trust.audit import audit, before
from tests import zoo


def some(count=40):
    x, y = zoo.digits()
    return x[:count], y[:count]


def levels(verdicts):
    return {verdict.flag: verdict.level for verdict in verdicts}


@pytest.mark.parametrize("make", [zoo.digits_cnn, pytest.param(zoo.digits_robust, marks=pytest.mark.slow)])
def test_an_honest_network_passes_every_flag(make):
    found = list(audit(make(), *some(), threat=Linf(0.1)))
    assert [verdict.flag for verdict in found] == list(FLAGS)
    assert [verdict.finding for verdict in found if verdict.level != "pass"] == []


@pytest.mark.slow
@pytest.mark.parametrize("threat", [Linf(0.15), L2(0.5), L1(2.0)])
def test_an_adversarially_trained_network_raises_no_alarm_in_any_norm(threat):
    found = levels(audit(zoo.digits_robust(), *some(200), threat=threat))
    assert "fail" not in found.values(), found


def test_a_masked_network_is_caught_by_its_gradient_and_by_every_attack_that_does_without_it():
    found = levels(audit(zoo.Masked(zoo.digits_mlp(), 8), *some(), threat=Linf(0.1)))
    failed = {flag for flag, level in found.items() if level == "fail"}
    assert failed >= {"gradients", "black-box", "transfer", "unbounded"}
    assert found["randomness"] == found["batch"] == found["probabilities"] == found["train-mode"] == "pass"


@pytest.mark.parametrize(
    ("wrap", "caught"),
    [
        (lambda model: model, set()),
        (lambda model: nn.Sequential(nn.Dropout(0.5), model).train(), set()),
        (zoo.Masked, {"gradients"}),
        (zoo.Saturated, {"gradients"}),
        (zoo.Confident, {"probabilities"}),
        (zoo.Jittery, {"randomness"}),
        (zoo.Forgetful, {"randomness", "train-mode"}),
        (zoo.Social, {"batch", "train-mode"}),
    ],
)
def test_every_slip_is_caught_by_its_flag_before_any_attack_and_by_no_other(wrap, caught):
    found = list(before(wrap(zoo.digits_mlp()), *some()))
    assert {verdict.flag for verdict in found if verdict.level == "fail"} == caught
    assert all(verdict.remedy for verdict in found if verdict.level == "fail")
    assert all(verdict.level in ("pass", "fail", "not tested") for verdict in found)


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1.0, 1e4])
def test_of_a_network_that_gives_one_answer_only_that_is_said(scale):
    """Constant logits, whatever their size: a gradient of zero is no masking there, and standing no robustness."""
    answer = scale * torch.eye(10)[3]
    found = list(audit(lambda x: answer + 0 * x.flatten(1)[:, :10], *some(60), threat=Linf(0.1)))
    assert [verdict.flag for verdict in found] == list(FLAGS)
    assert [verdict.flag for verdict in found if verdict.level == "fail"] == ["chance"]
    assert found[0].remedy.startswith("check the normalisation (--mean and --std")
    assert not any("BPDA" in verdict.remedy or "masked" in verdict.remedy for verdict in found)
    assert {verdict.level for verdict in found[1:]} == {"pass", "not tested"}


def test_whoever_knows_of_chance_level_from_more_images_decides():
    dead = lambda x: 0 * x.flatten(1)[:, :10]  # noqa: E731
    assert levels(before(dead, *some(60), at_chance=False))["gradients"] == "fail"
    alive = list(before(zoo.digits_mlp(), *some(60), at_chance=True))
    assert [verdict.flag for verdict in alive] == list(FLAGS)[1:8]
    assert [verdict.level for verdict in alive] == [*["pass"] * 3, *["not tested"] * 4]


def test_a_gradient_that_is_not_finite_is_not_said_to_be_masked():
    def model(x):
        return zoo.digits_mlp()(x) + (x - x).sqrt().sum((1, 2, 3))[:, None]

    found = {verdict.flag: verdict for verdict in before(model, *some())}
    assert (found["gradients"].level, found["chance"].level) == ("fail", "pass")
    assert "NaN" in found["gradients"].finding
    assert "derivative is not finite" in found["gradients"].remedy


def test_leaves_modes_weights_and_the_global_random_state_alone():
    model = zoo.Jittery(zoo.digits_mlp()).train()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.zero_grad()
    state = torch.random.get_rng_state()
    for _ in audit(model, *some(6), threat=Linf(0.1)):
        assert model.training
        assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.slow
def test_the_same_seed_gives_the_same_verdicts_also_on_a_random_network():
    model = zoo.Jittery(zoo.digits_mlp())
    first, again = (list(audit(model, *some(6), threat=Linf(0.1), seed=3)) for _ in range(2))
    assert first == again
    assert first[:8] != list(before(model, *some(6), seed=4))


def test_images_out_of_range_are_reported_and_not_attacked():
    x, y = some(12)
    found = levels(audit(zoo.digits_mlp(), 255 * x, y))
    assert found["input-range"] == "fail"
    attacked = ("confidence", "eps", "unbounded", "convergence", "black-box", "transfer")
    assert {found[flag] for flag in attacked} == {"not tested"}


def test_a_model_without_any_gradient_gets_a_verdict_instead_of_an_error():
    def detached(x):
        return zoo.digits_mlp()(x).detach()

    found = {verdict.flag: verdict for verdict in audit(detached, *some(12), threat=Linf(0.1))}
    assert found["gradients"].level == "fail"
    assert "no gradient" in found["gradients"].finding
    assert found["black-box"].level == found["confidence"].level == "not tested"


def test_the_attack_in_question_is_the_one_that_is_judged():
    """From the clean image, without a gradient, an attack goes nowhere even when everything is allowed."""
    attack = PGD(threat=Linf(0.1), steps=3, random_start=False)
    found = {v.flag: v for v in audit(zoo.Masked(zoo.digits_mlp(), 8), *some(20), attack=attack)}
    x, y = some(20)
    clean = int((zoo.digits_mlp()(x).argmax(1) == y).sum())
    assert found["unbounded"].value == clean / 20
    assert found["eps"].level == "warn"
    with pytest.raises(ValueError, match="a threat or an attack"):
        next(audit(zoo.digits_mlp(), x, y, attack=attack, threat=Linf(0.2)))


def test_the_gradient_in_question_is_that_of_the_loss_that_the_attack_climbs():
    attack = PGD(threat=Linf(0.1), steps=1, loss=margin)
    found = levels(itertools.islice(audit(zoo.Saturated(zoo.digits_mlp()), *some(20), attack=attack), 8))
    assert found["gradients"] == "pass"


def test_a_surrogate_replaces_the_student():
    x, y = some(20)
    masked = zoo.Masked(zoo.digits_mlp(), 8)
    found = {v.flag: v for v in audit(masked, x, y, threat=Linf(0.15), surrogate=zoo.digits_mlp())}
    assert "surrogate" in found["transfer"].finding
    assert found["transfer"].level == "fail"


def test_what_cannot_be_audited_is_refused():
    x, y = some(4)
    with pytest.raises(DataError, match="float type"):
        next(before(zoo.digits_mlp(), (255 * x).byte(), y))
    with pytest.raises(DataError, match="4 images and 3 labels"):
        next(before(zoo.digits_mlp(), x, y[:3]))
    with pytest.raises(ModelError, match="shape"):
        next(before(lambda x: x.flatten(1)[:, :2], x, y))
    with pytest.raises(ModelError, match="not finite"):
        next(before(lambda x: x.flatten(1)[:, :10] / 0, x, y))
