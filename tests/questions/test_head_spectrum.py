"""Where the last layer has its weights, against the energy of the features."""

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.head_spectrum import HeadSpectrum, directions_for, spectrum_of, weight_outside
from holdfast.questions.question import Material
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.table import Table
from tests.zoo import generator, images, labels, normed


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def rotation(size):
    return torch.linalg.qr(random(size, size, seed=5)).Q


def test_of_features_along_known_directions_it_is_as_computed_by_hand():
    """Energies 4, 1 and 1/4 along rotated axes, none along the fourth; weights of two opposite rows along each."""
    axes = rotation(4)
    features = torch.diag(torch.tensor([4.0, 2.0, 1.0, 0.0], dtype=torch.float64)) @ axes.T
    row = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64) @ axes.T
    common = random(1, 4)  # in all rows, so that softmax does not see it
    energy, weight, beyond = spectrum_of(features, torch.stack([row, -row]) + common)
    torch.testing.assert_close(energy, torch.tensor([4.0, 1.0, 0.25], dtype=torch.float64))
    torch.testing.assert_close(weight, torch.tensor([2.0, 8.0, 18.0], dtype=torch.float64))
    assert float(beyond) == pytest.approx(32)


@pytest.mark.parametrize(("count", "size"), [(30, 6), (5, 12)])
def test_nothing_of_the_energy_or_of_the_head_is_lost(count, size):
    features, weight = random(count, size), random(4, size, seed=1)
    energy, along, beyond = spectrum_of(features, weight)
    torch.testing.assert_close(energy.sum(), features.square().sum() / count)
    torch.testing.assert_close(along.sum() + beyond, (weight - weight.mean(0)).square().sum())
    assert (energy.diff() <= 0).all()
    assert len(energy) == min(count, size)
    assert float(beyond) == pytest.approx(0, abs=1e-10) if count > size else float(beyond) > 0.1


def test_gradient_descent_keeps_what_a_head_had_in_directions_without_energy_and_signs_do_not():
    features, weight = random(6, 10), 0.1 * random(3, 10, seed=1)
    _, _, before = spectrum_of(features, weight)
    heads = {"descent": weight.clone(), "signs": weight.clone()}
    y = torch.arange(6) % 3
    for name, head in heads.items():
        for _ in range(50):
            head.requires_grad_()
            (grad,) = torch.autograd.grad(nn.functional.cross_entropy(features @ head.T, y), head)
            head = head.detach() - 0.05 * (grad if name == "descent" else grad.sign())
        heads[name] = head
    assert float(spectrum_of(features, heads["descent"])[2]) == pytest.approx(float(before))
    assert float(spectrum_of(features, heads["signs"])[2]) > 10 * float(before)


RECORD = {"energy": [90.0, 9.0, 1.0], "weight": [1.0, 2.0, 3.0], "beyond": 4.0, "features": 8}


def test_directions_and_what_is_outside_them():
    assert [directions_for(RECORD, share) for share in (0.5, 0.9, 0.95, 0.99, 0.999)] == [1, 1, 2, 2, 3]
    assert [weight_outside(RECORD, k) for k in (0, 1, 2, 3)] == pytest.approx([1, 0.9, 0.7, 0.4])
    assert weight_outside({**RECORD, "weight": [0.0] * 3, "beyond": 0.0}, 1) == 0


def test_the_table_has_them_beside_an_even_head_and_the_chart_ends_at_the_share_within():
    key = AnswerKey(
        question="head_spectrum", settings={}, weights="best", weights_hash="abc", seed=0, examples=3, images="0",
        block=4,
    )  # fmt: skip
    items = list(HeadSpectrum.present(Answers((Answer(key, (RECORD,), run="a"),), ("a",))))
    (table,) = [item for item in items if isinstance(item, Table)]
    ((_, cells),) = table.rows
    assert [cell.value for cell in cells] == pytest.approx([8, 1, 0.9, 2, 0.7, 3, 0.4])
    assert cells[2].note == "87.5\u00a0% if even"
    (chart,) = [item for item in items if isinstance(item, Chart)]
    assert [curve.y[-1] for curve in chart.curves] == pytest.approx([1, 0.6])


def material(model):
    x = images(7)
    return Material(
        model=model, x=x, y=labels(7, 3), index=torch.arange(7), rng=Streams(0, "", 7), seed=0, batch_size=3
    )


def test_networks_without_a_linear_head_are_refused():
    (record,) = HeadSpectrum().measure_records(material(normed()), ())
    assert record["features"] == normed().head.in_features
    with pytest.raises(ModelError, match="head spectrum needs a model with features"):
        list(HeadSpectrum().measure_records(material(nn.Flatten()), ()))
