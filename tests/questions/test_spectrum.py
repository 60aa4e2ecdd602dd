"""The spectrum of a data set: images of known frequencies, Parseval's identity, and what is shown."""

from dataclasses import replace

import pytest
import torch

from holdfast.data import Split
from holdfast.frequency import dct_matrix
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.presenting import presented
from holdfast.questions.question import Context, Material
from holdfast.questions.spectrum import InParts, Spectrum, coefficients_with
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.table import Table
from tests.zoo import images, labels


def record(x, train=None, batch_size=3):
    index = torch.arange(len(x))
    material = Material(
        model=None, x=x, y=index, index=index, rng=Streams(0, "spectrum", index), seed=0, batch_size=batch_size
    )
    (only,) = InParts(train).measure_records(material, ())
    return only


def answer(x, run="a", place=0, **settings):
    kept = {name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in record(x).items()}
    key = AnswerKey(
        question="spectrum", settings={"part": "test", **settings}, weights="data", weights_hash="", seed=0,
        examples=len(x), images="0", block=1,
    )  # fmt: skip
    return Answer(key, (kept,), run=run, place=place)


def context(train):
    return Context(
        model=None, weights_hash="", recipe={}, checks=(), test=None, train=train, classes=(), seed=0, load=None,
        describe=None,
    )  # fmt: skip


def test_an_image_of_one_frequency_has_only_this():
    """Amplitudes of both signs, in two channels, on a plane of different sides."""
    rows, columns = (dct_matrix(size, torch.zeros(0, dtype=torch.float64)) for size in (4, 6))
    wave = torch.einsum("h,w->hw", rows[1], columns[5])
    x = torch.stack([torch.stack([2 * wave, -4 * wave]), torch.stack([wave, wave])])
    only = record(x)
    expected = torch.zeros(4, 6, dtype=torch.float64)
    expected[1, 5] = (2 + 4 + 1 + 1) / 4
    torch.testing.assert_close(only["magnitude"], expected, atol=1e-12, rtol=0)
    expected[1, 5] = (4 + 16 + 1 + 1) / 4
    torch.testing.assert_close(only["energy"], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_energy_is_that_of_the_pixels(batch_size):
    x = images(7)
    only = record(x, batch_size=batch_size)
    assert float(only["energy"].sum()) == pytest.approx(float(x.double().square().sum()) / (7 * x.shape[1]), rel=1e-9)
    assert (only["energy"] >= only["magnitude"].square() - 1e-12).all()
    assert only["images"] == 7


def test_training_images_are_asked_about_where_there_are_some():
    train = Split(images(5, seed=1), labels(5, 3), torch.arange(5))
    measurement = Spectrum(part="train").prepared(context(train)).measurement
    index = torch.arange(2)
    material = Material(model=None, x=images(2), y=index, index=index, rng=None, seed=0, batch_size=2)
    (only,) = measurement.measure_records(material, ())
    torch.testing.assert_close(only["energy"], record(images(5, seed=1))["energy"], atol=1e-6, rtol=1e-6)
    assert only["images"] == 5
    with pytest.raises(ValueError, match="part: expected test, for data without training images; got train"):
        Spectrum(part="train").prepared(context(None))


def test_how_many_coefficients_have_a_share_of_the_energy():
    energies = [4.0, 3.0, 2.0, 1.0]
    assert [coefficients_with(energies, share) for share in (0.4, 0.41, 0.7, 0.9, 1.0)] == [1, 2, 2, 3, 4]
    assert coefficients_with([0.0, 0.0], 0.5) == 0


def test_runs_on_the_same_images_share_a_row_and_others_have_their_own():
    same = [answer(images(3), run=run, place=place) for place, run in enumerate("ab")]
    items = list(Spectrum.present(Answers((*same, answer(images(4, seed=1), run="c", place=2)), ("a", "b", "c"))))
    (table,) = (item for item in items if isinstance(item, Table))
    assert [name for name, _ in table.rows] == ["a, 3 images and b, 3 images", "c, 4 images"]
    assert [cells[0].value for _, cells in table.rows] == [3, 4]
    (chart,) = (item for item in items if isinstance(item, Chart))
    assert [curve.kind for curve in chart.curves] == ["a, 3 images and b, 3 images", "c, 4 images"]
    assert sum(isinstance(item, Figure) for item in items) == 2
    assert presented(Spectrum, Answers((same[0],)))[0] == "Measured on 3 images."


def test_the_diagonal_of_a_wide_image_goes_along_both_sides():
    x = torch.zeros(1, 1, 2, 6, dtype=torch.float64)
    x[..., 0, 0] = 1.0
    one = answer(x)
    values = one.records[0]["magnitude"]
    (chart,) = (item for item in Spectrum.present(Answers((one,))) if isinstance(item, Chart))
    assert chart.curves[0].y == tuple(
        values[row][column] for row, column in zip([0, 0, 0, 1, 1, 1], range(6), strict=True)
    )


def test_black_images_and_answers_under_way_can_be_shown():
    black = answer(torch.zeros(2, 1, 4, 4, dtype=torch.float64))
    assert any(isinstance(item, Table) for item in Spectrum.present(Answers((black,))))
    assert list(Spectrum.present(Answers((replace(black, records=()),)))) == []
    assert Spectrum.rests_on(replace(black, records=())) == 0
