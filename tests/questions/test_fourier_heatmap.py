"""Fourier heat maps: half-spaces whose errors are known, signs of the waves, resuming, and what is shown."""

from dataclasses import replace

import pytest
import torch

from holdfast.frequency import fourier_wave
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.asking import _plain
from holdfast.questions.fourier_heatmap import TOGETHER, FourierHeatmap
from holdfast.questions.fourier_map import independent
from holdfast.questions.gradient_spectrum.measurement import gradient_maps
from holdfast.questions.question import Material
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.table import Table
from tests import chance
from tests.zoo import images, labels, linear

SIZE = (6, 9)
FREQUENCIES = independent(*SIZE)


def material(model, x, y, batch_size=7):
    index = torch.arange(len(x))
    return Material(
        model=model, x=x, y=y, index=index, rng=Streams(0, "fourier_heatmap", index), seed=0, batch_size=batch_size
    )


def asked(question, about, earlier=()):
    """Records as they are stored."""
    return [_plain(record) for record in question.measure_records(about, earlier)]


def errors(question, about):
    return [value for record in asked(question, about)[1:] for value in record["errors"]]


class Along(torch.nn.Module):
    """Right (class 0) as long as the image's part along a direction of length 1 is below a limit."""

    def __init__(self, direction, limit):
        super().__init__()
        self.direction, self.limit = direction, limit

    def forward(self, x):
        beyond = (x * self.direction).sum((1, 2, 3)) - self.limit
        return torch.stack((-beyond, beyond), dim=1)


@pytest.mark.parametrize("frequency", [(0, 0), (2, 3), (3, 0), (4, 8)])
def test_a_half_space_along_a_wave_is_wrong_for_this_wave_alone_and_for_one_of_its_signs(frequency):
    """The wave moves the image by its length: beyond the limit if longer, in one of two directions."""
    wave = fourier_wave(*SIZE, *frequency)
    place = FREQUENCIES.index(min(frequency, (-frequency[0] % 6, -frequency[1] % 9)))
    x, y = torch.zeros(400, 1, *SIZE, dtype=torch.float64), torch.zeros(400, dtype=torch.int64)
    for limit, share in ((0.49, 0.5), (0.51, 0.0)):
        measured = errors(FourierHeatmap(length=0.5, clip=False), material(Along(wave, limit), x, y, batch_size=100))
        assert abs(measured.pop(place) - share) <= (chance.share_error(400, share) if share else 0)
        assert measured == [0] * (len(FREQUENCIES) - 1)


def test_every_channel_has_a_sign_of_its_own():
    """Both channels must go up to be wrong: a quarter of the images, not half."""
    wave = fourier_wave(*SIZE, 2, 3)
    model = Along(wave.expand(2, *SIZE), 0.9)
    x, y = torch.zeros(600, 2, *SIZE, dtype=torch.float64), torch.zeros(600, dtype=torch.int64)
    measured = errors(FourierHeatmap(length=0.5, clip=False), material(model, x, y, batch_size=600))
    assert abs(measured[FREQUENCIES.index((2, 3))] - 0.25) < chance.share_error(600, 0.25)


def test_waves_have_signs_of_their_own():
    """At each wave another half of the images is wrong."""
    x, y = torch.zeros(60, 1, *SIZE, dtype=torch.float64), torch.zeros(60, dtype=torch.int64)
    seen = []

    class Watching(Along):
        def forward(self, z):
            seen.append(z[:, 0, 0, 0] > 0)  # where a wave of phase 0 is largest
            return super().forward(z)

    errors(FourierHeatmap(length=0.5, clip=False), material(Watching(fourier_wave(*SIZE, 0, 0), 9), x, y, 60))
    signs = torch.stack(seen[-len(FREQUENCIES) :])
    assert len(signs.unique(dim=0)) == len(FREQUENCIES)
    assert abs(float(signs.double().mean()) - 0.5) < chance.share_error(signs.numel(), 0.5)


def test_images_with_a_wave_are_cut_to_the_box_unless_told_not_to():
    class InBox(torch.nn.Module):
        def forward(self, x):
            outside = ((x < 0) | (x > 1)).flatten(1).any(1).double() + 0 * x.sum((1, 2, 3))
            return torch.stack((1 - outside, outside), dim=1)

    about = material(InBox(), images(5, (1, *SIZE)), torch.zeros(5, dtype=torch.int64))
    assert set(errors(FourierHeatmap(length=9.0), about)) == {0}
    assert set(errors(FourierHeatmap(length=9.0, clip=False), about)) == {1}


@pytest.mark.parametrize("clip", [True, False])
def test_what_is_asked_about_is_the_image_with_a_wave(clip):
    """Images of several greys and a wave of frequency 0, which is the same everywhere: up or down."""
    seen = []

    class Watching(Along):
        def forward(self, z):
            seen.append(z.detach())
            return super().forward(z)

    x = torch.tensor([0.05, 0.5, 0.9], dtype=torch.float64).view(3, 1, 1, 1).expand(3, 1, *SIZE)
    model = Watching(fourier_wave(*SIZE, 0, 0), 9)
    errors(FourierHeatmap(length=0.2 * 54**0.5, clip=clip), material(model, x, torch.zeros(3, dtype=torch.int64)))
    moved = seen[2]  # after the gradient and the images themselves
    allowed = torch.stack((x - 0.2, x + 0.2))
    allowed = allowed.clamp(0, 1) if clip else allowed
    assert float((moved - allowed).abs().amin(0).max()) < 1e-12


def test_records_continue_where_an_interruption_has_left_them():
    question, about = FourierHeatmap(length=1.0), material(linear(3, (2, 12, 11)), images(9, (2, 12, 11)), labels(9, 3))
    whole = asked(question, about)
    assert question.count(about) == len(whole) == 1 + 3
    assert [len(record["errors"]) for record in whole[1:]] == [TOGETHER, TOGETHER, len(independent(12, 11)) - 64]
    for done in range(1, len(whole)):
        assert asked(question, about, whole[:done]) == whole[done:]


def test_the_first_record_has_the_first_order_map_and_the_errors_without_waves():
    model, x, y = linear(3, (1, *SIZE)), images(9, (1, *SIZE)), labels(9, 3)
    first, *_ = asked(FourierHeatmap(), material(model, x, y))
    fourier, _ = gradient_maps(model, x, y, batch_size=7)
    assert first["first_order"] == [float(fourier[place]) for place in FREQUENCIES]
    assert first["clean"] == float((model(x).argmax(1) != y).double().mean())
    assert first["size"] == [6, 9]


def test_the_defaults_are_those_of_published_maps_for_cifar():
    assert FourierHeatmap() == FourierHeatmap(length=4.0, clip=True, images=200)
    assert FourierHeatmap(images=1).prepared(None).examples == 1


@pytest.mark.parametrize("fields", [{"length": 0.0}, {"length": float("inf")}, {"images": 0}])
def test_fields_that_mean_nothing_are_refused(fields):
    with pytest.raises(ValueError, match=f"{next(iter(fields))}: expected"):
        FourierHeatmap(**fields)


def answer(errors, first_order, *, run="a", place=0, examples=200, length=4.0, halves=None):
    records = [
        {"size": [6, 9], "clean": 0.1, "first_order": list(first_order)},
        {"errors": list(errors), "halves": halves or [list(errors), list(errors)]},
    ]
    key = AnswerKey(
        question="fourier_heatmap", settings={"length": length, "clip": True}, weights="best", weights_hash="0", seed=0,
        examples=examples, images="0", block=1,
    )  # fmt: skip
    return Answer(key, tuple(records), run=run, place=place)


RISING = [place / 100 for place in range(len(FREQUENCIES))]


def tables(*answers):
    items = list(FourierHeatmap.present(Answers(answers, tuple(one.run for one in answers))))
    return items, [item for item in items if isinstance(item, Table)]


def test_the_rank_correlation_and_the_costs_of_both_maps_are_reported():
    same = answer(RISING, [2**value for value in RISING])
    other = answer(RISING, RISING[::-1], run="b", place=1, examples=50, halves=[RISING, RISING[::-1]])
    _, (by_third, first_order) = tables(same, other)
    assert [[cell.value for cell in cells] for _, cells in first_order.rows] == [
        [pytest.approx(1), pytest.approx(1), 200 * 28, 200, 28],
        [pytest.approx(-1), pytest.approx(-1), 50 * 28, 50, 28],
    ]
    assert [name for name, _ in by_third.rows] == ["a (best), 200 images", "b (best), 50 images"]
    assert [cell.text for cell in first_order.rows[0][1]][:2] == ["1.00", "1.00"]
    clean, *thirds, highest = by_third.rows[0][1]
    assert (clean.value, len(thirds), highest.value) == (0.1, 3, 0.27)
    assert highest.note == "at (-3, 4)"


def test_maps_of_errors_have_one_scale():
    low, high = answer([0.2] * 28, RISING), answer([0.3] * 27 + [0.9], RISING, run="b", place=1)
    items, _ = tables(low, high)
    drawn = [item.spec["data"][0] for item in items if isinstance(item, Figure)]
    assert [(trace["zmin"], trace["zmax"]) for trace in drawn] == [(0.2, 0.9), (0, 1)] * 2
    assert drawn[1]["z"][3][4] == 0  # the first-order map at frequency 0
    (chart,) = (item for item in items if isinstance(item, Chart))
    assert chart.share
    assert chart.curves[0].y == pytest.approx([0.2] * len(chart.curves[0].x))


def test_a_map_under_way_shows_what_there_is():
    part = answer(RISING[:10], RISING)
    items, (by_third, first_order) = tables(part)
    assert [cell.text for cell in by_third.rows[0][1]][1:4] == ["", "", ""]
    assert first_order.rows[0][1][2].value == 200 * 10
    (drawn, _) = (item.spec["data"][0]["z"] for item in items if isinstance(item, Figure))
    assert sum(value is None for row in drawn for value in row) > 30
    items, none = tables(replace(part, records=part.records[:1]))
    assert [type(item) for item in items] == [Figure]  # the first order
    assert none == []


@pytest.mark.parametrize("halves", [[RISING, [0.5] * 28], [RISING, [None] * 28]])  # the second of a single image
def test_constant_maps_and_empty_halves_have_no_correlation(halves):
    _, (_, first_order) = tables(answer([0.5] * 28, RISING, halves=halves))
    assert [cell.text for cell in first_order.rows[0][1]][:2] == ["", ""]


def test_halves_are_every_second_image():
    x, y = torch.zeros(7, 1, *SIZE, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0, 1, 0])
    model = Along(fourier_wave(*SIZE, 0, 0), 9.0)  # answers 0 whatever the wave
    _, record = asked(FourierHeatmap(length=1.0, clip=False), material(model, x, y))
    assert record["halves"] == [[0.0] * 28, [1.0] * 28]
    assert record["errors"] == pytest.approx([3 / 7] * 28)
    _, record = asked(FourierHeatmap(length=1.0, clip=False), material(model, x[:1], y[:1]))
    assert record["halves"] == [[0.0] * 28, [None] * 28]
