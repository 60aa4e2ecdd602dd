"""Model alignment: published values, means over witnesses, and witnesses that stay as they are."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.errors import ModelError
from holdfast.models import build
from holdfast.models.cnn import CNN
from holdfast.objectives import EGA, NCE, RKD, Align, Hint
from holdfast.objectives.alignment import AlignmentAtWork, divergence
from holdfast.testing.networks import normed
from tests.zoo import images, labels, linear, smooth

SOURCE = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
WITNESS = torch.tensor([[1.0, 1.5, 0.0], [0.5, 2.0, 1.0]], dtype=torch.float64)
SETTINGS = Align(witnesses=("first", "second"))


@pytest.mark.parametrize(("temperature", "value"), [(4.0, 0.2981572272), (1.0, 0.3279591429)])
def test_the_divergence_has_the_published_value(temperature, value):
    # METHODS.md, chapter 9, and by hand from the definition.
    assert float(divergence(SOURCE, WITNESS, temperature)) == pytest.approx(value, abs=1e-10)


def test_the_divergence_is_that_of_the_witness_from_the_source():
    assert float(divergence(WITNESS, SOURCE, 1.0)) == pytest.approx(0.3358306895, abs=1e-10)


def test_it_is_the_mean_of_the_losses_of_single_witnesses():
    model, x, y = smooth(), images(6), labels(6, 5)
    witnesses = [smooth(seed=seed) for seed in (1, 2)]
    single = [replace(SETTINGS, witnesses=("one",)).on([one])(model, x, y).total for one in witnesses]
    both = SETTINGS.on(witnesses)(model, x, y)
    torch.testing.assert_close(both.total, (single[0] + single[1]) / 2, rtol=0, atol=1e-14)
    mean = lambda z: (witnesses[0](z) + witnesses[1](z)) / 2  # noqa: E731
    assert not torch.allclose(both.total, replace(SETTINGS, witnesses=("one",)).on([mean])(model, x, y).total)


def test_the_loss_is_zero_for_alignment_to_itself():
    model, x, y = smooth(), images(6), labels(6, 5)
    terms = replace(SETTINGS, witnesses=("itself",)).on([copy.deepcopy(model)])(model, x, y)
    assert float(terms.total.detach()) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("embedding", [None, Hint()])
def test_witnesses_answer_in_eval_mode_and_stay_as_they_are(embedding):
    model, witness, x, y = normed().train(), normed().train(), images(6, (1, 4, 4)), labels(6, 3)
    state = copy.deepcopy(witness.state_dict())
    terms = replace(SETTINGS, witnesses=("one",), embedding=embedding).on([witness])(model, x, y)
    torch.autograd.grad(terms.total, list(model.parameters()), allow_unused=True)
    assert all(torch.equal(tensor, state[name]) for name, tensor in witness.state_dict().items())
    assert all(module.training for module in witness.modules())
    assert all(weight.grad is None for weight in witness.parameters())


def statistics(model):
    return {name: tensor.clone() for name, tensor in model.named_buffers()}


@pytest.mark.parametrize("embedding", [None, Hint()])
@pytest.mark.parametrize(("kind", "moves"), [("train", True), ("frozen", False), ("recalibrate", True)])
def test_statistics_of_the_source_move_as_stated(kind, moves, embedding):
    model, x, y = normed(dropout=0.0).train(), images(6, (1, 4, 4)), labels(6, 3)
    before = statistics(model)
    settings = Align(witnesses=("one",), batch_norm=kind, embedding=embedding)
    terms = settings.on([normed()])(model, x, y)
    after = statistics(model)
    assert torch.equal(after["norm.running_mean"], before["norm.running_mean"]) != moves
    assert all(module.training for module in model.modules())
    if kind == "frozen" and embedding is None:
        expected = divergence(copy.deepcopy(model).eval()(x), normed()(x), 4.0)
        torch.testing.assert_close(terms.total, expected, rtol=0, atol=1e-12)


def test_recalibrated_statistics_are_those_of_all_images():
    model, x = normed(dropout=0.3).train(), images(12, (1, 4, 4))
    work = AlignmentAtWork(Align(witnesses=("one",), batch_norm="recalibrate").on([normed()]), model)
    work.hooks.settle(model, [x[:6], x[6:]])
    maps = model.convolution(x).transpose(0, 1)
    torch.testing.assert_close(model.norm.running_mean, maps.flatten(1).mean(1), rtol=0, atol=1e-12)
    each = torch.stack([model.convolution(part).transpose(0, 1).flatten(1).var(1) for part in (x[:6], x[6:])]).mean(0)
    torch.testing.assert_close(model.norm.running_var, each, rtol=0, atol=1e-12)
    assert model.norm.momentum == 0.1
    assert all(module.training for module in model.modules())


def test_the_embedding_is_mapped_to_the_size_of_the_witness_by_trained_weights():
    model = build(CNN(blocks=((4,),), hidden=(), feature_dim=6), (1, 8, 8), 3).double()
    witness = build(CNN(blocks=((4,),), hidden=(), feature_dim=5), (1, 8, 8), 3, seed=1).double().eval()
    settings = Align(witnesses=("one",), output=0.0, embedding=Hint())
    work, x, y = settings.on([witness]).hooks.start(model, 3, torch.arange(4)), images(4, (1, 8, 8)), labels(4, 3)
    (linear_map,) = work.maps
    assert (linear_map.in_features, linear_map.out_features) == (6, 5)
    terms = work(model, x, y)
    expected = F.mse_loss(linear_map(model.features(x)), witness.features(x))
    torch.testing.assert_close(terms.total, expected, rtol=0, atol=1e-12)
    assert terms.parts.keys() == {"embedding"}
    assert [one.shape for one in work.hooks.parameters()] == [(5, 6), (5,)]
    grads = torch.autograd.grad(terms.total, work.hooks.parameters())
    assert all(float(grad.abs().max()) > 0 for grad in grads)
    assert not [name for name in work.state_dict() if not name.startswith("maps.")]


def test_output_and_embedding_add_up():
    model, witness, x, y = linear(3, seed=1), linear(3, seed=2), images(4), labels(4, 3)
    settings = Align(witnesses=("one",), output=0.5, embedding=EGA())
    terms = settings.on([witness])(model, x, y)
    torch.testing.assert_close(terms.total, 0.5 * terms.parts["output"] + terms.parts["embedding"])


def test_labels_may_be_soft_unless_a_distance_needs_classes():
    assert Align(witnesses=("a",)).soft_labels
    assert Align(witnesses=("a",), embedding=RKD()).soft_labels
    assert not Align(witnesses=("a",), embedding=NCE()).on([linear(3)]).soft_labels


def test_a_recipes_objective_without_its_witnesses_says_so():
    with pytest.raises(ModelError, match=r"its witnesses are runs, which are loaded for train\.objective"):
        SETTINGS(linear(3), images(2), labels(2, 3))
    with pytest.raises(ValueError, match="expected 2 witnesses, got 1"):
        SETTINGS.on([linear(3)])
    with pytest.raises(ModelError, match=r"align: a witness needs a model with features\(x\) and head, got Linear"):
        Align(witnesses=("a",), embedding=Hint()).on([nn.Linear(2, 2)])(linear(3), images(2), labels(2, 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"witnesses": ()}, "witnesses: expected directories"),
        ({"witnesses": (" ",)}, "witnesses: expected directories"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"output": -1.0}, "output must be finite"),
        ({"output": 0.0}, "expected a positive weight of the output, or an embedding distance"),
        ({"batch_norm": "eval"}, "batch_norm: unknown name 'eval'"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **fields)
