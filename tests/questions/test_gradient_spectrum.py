"""The first-order heat map: directional derivatives along every wave, from one backward pass."""

from dataclasses import replace

import pytest
import torch
from scipy.fft import dctn

from holdfast.frequency import fourier_wave
from holdfast.losses import cross_entropy, margin
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.fourier_map import independent
from holdfast.questions.gradient_spectrum import GradientSpectrum
from holdfast.questions.gradient_spectrum.measurement import gradient_maps
from holdfast.questions.question import Material
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.table import Table
from tests.zoo import images, labels, linear, smooth

SHAPES = [(1, 4, 4), (2, 5, 5), (1, 4, 7), (3, 6, 4), (1, 1, 6)]


def directional(model, x, y, wave, channel, loss=cross_entropy):
    """Derivative of the loss of each image by how much of a wave is added to one channel."""
    amount = torch.zeros(len(x), 1, 1, 1, dtype=x.dtype, requires_grad=True)
    direction = torch.zeros_like(x[:1])
    direction[:, channel] = wave
    (along,) = torch.autograd.grad(loss(model(x + amount * direction), y).sum(), amount)
    return along.flatten()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_linear_model_has_the_mean_derivative_along_every_wave(shape):
    """Of autograd along the wave and of finite differences, for even and odd sizes and sides of different length."""
    model, x, y = linear(3, shape), images(5, shape), labels(5, 3)
    fourier, _ = gradient_maps(model, x, y, batch_size=2)
    assert fourier.shape == shape[1:]
    for i in range(shape[1]):
        for j in range(shape[2]):
            wave = fourier_wave(*shape[1:], i, j)
            along = torch.stack([directional(model, x, y, wave, channel).abs() for channel in range(shape[0])])
            assert float(fourier[i, j]) == pytest.approx(float(along.mean()), rel=1e-9, abs=1e-12)
    step = torch.zeros_like(x)
    step[:, 0] = 1e-6 * wave
    with torch.no_grad():
        difference = (cross_entropy(model(x + step), y) - cross_entropy(model(x - step), y)) / 2e-6
    torch.testing.assert_close(directional(model, x, y, wave, 0), difference, atol=1e-8, rtol=1e-6)


def test_a_half_space_along_a_wave_has_this_wave_alone():
    """The margin's gradient is the difference of two rows, here four times a wave: no other wave sees it."""
    wave = fourier_wave(5, 6, 2, 1)
    model = linear(2, (1, 5, 6))
    with torch.no_grad():
        model.weight.copy_(torch.stack((2 * wave, -2 * wave)).flatten(1))
    fourier, cosine = gradient_maps(model, images(4, (1, 5, 6)), labels(4, 2), loss=margin)
    expected = torch.zeros(5, 6, dtype=torch.float64)
    expected[2, 1] = expected[3, 5] = 4
    torch.testing.assert_close(fourier, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(cosine, torch.as_tensor(abs(dctn(4 * wave.numpy(), norm="ortho"))), atol=1e-12, rtol=0)


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_magnitudes_are_averaged_over_images_and_channels_in_any_batch(batch_size):
    model, x, y = smooth(3, (2, 4, 5)), images(8, (2, 4, 5)), labels(8, 3)
    whole = gradient_maps(model, x, y, batch_size=batch_size)
    alone = [gradient_maps(model, x[[n]], y[[n]]) for n in range(8)]
    for together, each in zip(whole, zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(together, torch.stack(each).mean(0), atol=1e-12, rtol=1e-10)


def answer(run="a", place=0, shape=(1, 4, 6), **settings):
    question = GradientSpectrum(**settings)
    x = images(6, shape)
    material = Material(
        model=linear(3, shape), x=x, y=labels(6, 3), index=torch.arange(6), rng=None, seed=0, batch_size=4
    )
    assert question.count(material) == 1
    (record,) = question.measure_records(material, ())
    record["cosine"] = record["cosine"].tolist()
    key = AnswerKey(
        question="gradient_spectrum", settings={"loss": None}, weights="best", weights_hash="0", seed=0, examples=6,
        images="0", block=1,
    )  # fmt: skip
    return Answer(key, (record,), run=run, place=place)


def test_the_loss_is_a_field():
    assert answer().records == answer(loss=cross_entropy).records
    assert answer().records != answer(loss=margin).records


def test_records_have_the_independent_frequencies_and_networks_stand_side_by_side():
    one = answer()
    (record,) = one.records
    assert (record["size"], len(record["fourier"])) == ([4, 6], len(independent(4, 6)))
    items = list(GradientSpectrum.present(Answers((one, replace(one, run="b", place=1)), ("a", "b"))))
    (table,) = (item for item in items if isinstance(item, Table))
    assert [name for name, _ in table.rows] == ["a (best)", "b (best)"]
    assert [len(cells) for _, cells in table.rows] == [3, 3]
    by_radius, diagonal = (item for item in items if isinstance(item, Chart))
    assert [curve.run for curve in by_radius.curves] == [curve.run for curve in diagonal.curves] == [0, 1]
    assert diagonal.curves[0].y[0] == record["cosine"][0][0]
    assert [(chart.share, chart.log_y) for chart in (by_radius, diagonal)] == [(False, True)] * 2
    fourier, cosine, *others = (item.spec["data"][0] for item in items if isinstance(item, Figure))
    assert len(others) == 2
    assert fourier["reversescale"] is cosine["reversescale"] is True  # high values are worse in both
    assert (fourier["zmin"], fourier["zmax"]) == (0, 1)
    assert max(value for row in fourier["z"] for value in row) == 1


def test_without_answers_there_is_nothing_to_show():
    assert list(GradientSpectrum.present(Answers((replace(answer(), records=()),), ("a",)))) == []


def test_a_network_without_any_gradient_can_be_shown():
    one = answer()
    flat = {"size": [4, 6], "fourier": [0.0] * len(independent(4, 6)), "cosine": [[0.0] * 6] * 4}
    items = list(GradientSpectrum.present(Answers((replace(one, records=(flat,)),), ("a",))))
    assert any(isinstance(item, Table) for item in items)
