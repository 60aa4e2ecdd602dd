"""Lipschitz constants, norms of weights and slopes, in closed form on linear networks and small perceptrons."""

import math

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import lipschitz_bound
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.lipschitz import Lipschitz, weight_norm
from holdfast.questions.question import Material
from holdfast.rng import Streams
from holdfast.show.items import Details, Note
from holdfast.show.table import Table
from tests.zoo import generator

ORDER = {"l1": 1, "l2": 2, "linf": math.inf}
DUAL = {"l1": math.inf, "l2": 2, "linf": 1}


def layers(*weights):
    """Linear layers without biases, one after the other."""
    network = nn.Sequential(nn.Flatten())
    for weight in weights:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
        layer.weight.data = weight
        network.append(layer)
    return network.eval()


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def record(model, x, y, batch_size=3, **fields):
    index = torch.arange(len(x))
    material = Material(
        model=model, x=x, y=y, index=index, rng=Streams(0, "lipschitz", index), seed=0, batch_size=batch_size
    )
    (only,) = Lipschitz(**fields).measure_records(material, ())
    return only


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_of_two_linear_layers_the_bound_is_the_norm_of_their_product_and_the_product_that_of_their_norms(norm):
    first, second = random(5, 6), random(3, 5, seed=1)
    x, y = random(4, 1, 2, 3, seed=2), torch.arange(4) % 3
    only = record(layers(first, second), x, y, norm=norm)
    norms = [float(torch.linalg.matrix_norm(weight, ORDER[norm])) for weight in (first, second)]
    assert only["product"] == pytest.approx(math.prod(norms), rel=1e-9)
    assert [layer["norm"] for layer in only["layers"]] == pytest.approx(norms, rel=1e-9)
    exact = float(torch.linalg.matrix_norm(second @ first, ORDER[norm]))
    assert only["upper"] == pytest.approx(exact, rel=1e-9)
    assert only["lower"] == pytest.approx(exact, rel=1e-6)
    assert only["lower"] <= only["upper"] < only["product"]


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_slopes_of_a_linear_network_by_hand(norm, batch_size):
    """Two classes: the loss has the gradient (p - 1) (w_y - w_other), the margin w_y - w_other."""
    weight = random(2, 6)
    x, y = random(8, 1, 2, 3, seed=1), torch.arange(8) % 2
    only = record(layers(weight), x, y, batch_size, norm=norm, lower_steps=0)
    apart = torch.linalg.vector_norm(weight[0] - weight[1], DUAL[norm])
    margins = (x.flatten(1) @ (weight[0] - weight[1])) * (1 - 2 * y)
    slopes = torch.sigmoid(-margins) * apart
    assert only["gradient"] == pytest.approx(float(slopes.mean()))
    assert only["gradient_half"] == pytest.approx(1.959964 * float(slopes.std()) / 8**0.5)
    right = margins > 0
    assert 0 < int(right.sum()) < 8
    assert only["relative"] == pytest.approx(float((apart / margins[right]).quantile(0.5)))
    assert only["images"] == 8
    assert only["lower"] is None


def test_the_norm_of_the_weights_counts_layers_and_neither_biases_nor_scales():
    network = nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    for parameter in network.parameters():
        parameter.data.fill_(3.0)
    assert weight_norm(network) == pytest.approx(3 * math.sqrt(8 + 4))
    assert weight_norm(lambda x: x) == 0


def test_batchnorm_is_a_layer_of_the_product_and_part_of_the_convolution_before_it_in_the_bound():
    network = nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3)).double().eval()
    network[1].running_var.copy_(torch.tensor([0.25, 1.0, 4.0]))
    network[1].eps = 0.0
    x = random(2, 4)
    separate, merged = (lipschitz_bound(network, x, merge=merge).upper for merge in (False, True))
    weight = network[0].weight.detach()
    assert separate == pytest.approx(2 * float(torch.linalg.matrix_norm(weight, 2)))
    assert merged == pytest.approx(float(torch.linalg.matrix_norm(weight * torch.tensor([[2], [1], [0.5]]), 2)))


def test_a_network_that_is_never_right_has_no_relative_slope():
    only = record(layers(torch.zeros(2, 6, dtype=torch.float64)), random(4, 1, 2, 3), torch.ones(4, dtype=torch.int64))
    assert only["relative"] is None
    assert only["gradient"] == 0


class Multiplied(nn.Module):
    """A product of two values of the input, which has no bound."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3, dtype=torch.float64)

    def forward(self, x):
        logits = self.linear(x.flatten(1))
        return logits * logits


def test_of_a_network_without_a_bound_it_says_why_and_measures_the_rest():
    only = record(Multiplied().eval(), random(4, 1, 2, 3), torch.arange(4) % 3)
    with pytest.raises(ModelError) as error:
        lipschitz_bound(Multiplied().eval(), random(4, 1, 2, 3))
    assert only["refused"] == str(error.value)
    assert (only["product"], only["upper"], only["layers"]) == (None, None, [])
    assert only["lower"] > 0
    assert only["gradient"] > 0


def test_what_is_shown():
    x, y = random(4, 1, 2, 3), torch.arange(4) % 3
    kept = [record(layers(random(3, 6)), x, y), record(Multiplied().eval(), x, y)]
    key = AnswerKey(
        question="lipschitz", settings={}, weights="best", weights_hash="0", seed=0, examples=4, images="0", block=1
    )
    answers = Answers(
        tuple(Answer(key, (one,), run=name, place=n) for n, (name, one) in enumerate(zip("ab", kept, strict=True)))
    )
    items = list(Lipschitz.present(answers))
    (table,) = (item for item in items if isinstance(item, Table))
    assert [cells[1].value for _, cells in table.rows] == [kept[0]["upper"], None]
    assert table.rows[0][1][3].value == pytest.approx(1, rel=1e-6)
    (note,) = (item for item in items if isinstance(item, Note))
    assert note.text.startswith("b (best): lipschitz bound: ")
    (details,) = (item for item in items if isinstance(item, Details))
    assert len(details.items) == 1


@pytest.mark.parametrize("fields", [{"lower_steps": -1}, {"starts": 0}])
def test_impossible_fields_are_refused(fields):
    with pytest.raises(ValueError, match="lower_steps must be at least 0 and starts at least 1"):
        Lipschitz(**fields)
