"""Accuracy that noise in bands of frequencies takes: closed forms, the noise of the check, and what is shown."""

import math
from dataclasses import replace

import polars as pl
import pytest
import torch
from scipy.stats import norm

from holdfast.corruptions import BandNoise
from holdfast.errors import DataError
from holdfast.frequency import bands, dct, inverse_dct
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.bands import Bands, drops_of
from holdfast.results.band_drops import band_drops
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.table import Table
from tests import chance
from tests.results.test_band_drops import rows
from tests.zoo import images, labels, linear

SHAPE = (1, 8, 8)


def answer(measured, question, run="a", place=0, weights="best"):
    count = len(measured["right"])
    columns = {name: values.tolist() for name, values in measured.items()}
    common = {"run": run, "weights": weights, "weights_hash": "0", "seed": 0, "label": 0}
    frame = pl.DataFrame({"example": list(range(count)), **columns}).with_columns(
        **{name: pl.lit(value) for name, value in common.items()}
    )
    key = AnswerKey(
        question="bands", settings=vars(question), weights=weights, weights_hash="0", seed=0, examples=count,
        images="0", block=1,
    )  # fmt: skip
    return Answer(key, (), frame, run, place)


def measured(question, model, x, y):
    return question.measure(model, x, y, rng=Streams(3, "bands", len(x)))


class OneFrequency(torch.nn.Module):
    """A classifier that sees one coefficient of the cosine transform: the second class where it is positive."""

    def __init__(self, place):
        super().__init__()
        self.place = place

    def forward(self, x):
        value = dct(x.double())[:, 0][:, *self.place]
        return torch.stack((-value, value), dim=1)


def test_noise_in_the_band_of_the_one_frequency_that_counts_takes_what_the_normal_law_says():
    """At the distance m from the boundary a share Phi(-m / sigma) is wrong; noise in other bands changes nothing."""
    question = Bands(bands=4, variance=0.25, draws=20)
    place, margin, count = (3, 4), 0.3, 500
    coefficients = torch.zeros(count, *SHAPE, dtype=torch.float64)
    coefficients[:, 0, *place] = margin
    x, y = inverse_dct(coefficients), torch.ones(count, dtype=torch.int64)
    (only,) = [answer(measured(question, OneFrequency(place), x, y), question)]
    own = int(bands(8, 8, 4)[place])
    taken = norm.cdf(-margin / math.sqrt(question.variance))
    for row in drops_of(only):
        assert (row["clean"], row["examples"], row["draws"]) == (1, count, 20)
        if row["band"] == own:
            assert abs(row["drop"] - taken) < chance.share_error(20 * count, taken)
            assert row["low"] < row["drop"] < row["high"]
        else:
            assert (row["drop"], row["low"], row["high"]) == (0, -3 / count, 3 / count)  # none of so many


@pytest.mark.parametrize("settings", [{}, {"clip": True}, {"variance": 0.5, "bands": 5}])
def test_the_noise_is_that_of_the_check(settings):
    """Column by column the answers of `BandNoise` with the same streams; so the statistics are those of a ledger."""
    question = Bands(**{"bands": 3, "variance": 0.2, "draws": 4, **settings})
    model, x, y = linear(3, SHAPE), images(40, SHAPE), labels(40, 3)
    columns = measured(question, model, x, y)
    fields = {name: getattr(question, name) for name in ("bands", "variance", "rule", "clip")}
    ledger, hits = [rows(columns["right"])], torch.zeros_like(columns["right_in_band"])
    for band in range(question.bands):
        for draw in range(question.draws):
            z = BandNoise(band=band, draw=draw, **fields)(x, rng=Streams(3, "bands", 40))
            right = model(z).argmax(1) == y
            hits[:, band] += right
            ledger.append(rows(right, band=band, draw=draw, **fields))
    assert torch.equal(columns["right_in_band"], hits)
    assert torch.equal(columns["right"], model(x).argmax(1) == y)
    assert 0 < int(hits.sum()) < hits.numel() * question.draws
    expected = band_drops(pl.concat(ledger))
    assert pl.DataFrame(drops_of(answer(columns, question)), schema=expected.schema).equals(expected)


def test_published_bands_are_refused_for_other_sizes():
    with pytest.raises(DataError, match="rule: rank"):
        measured(Bands(rule="radius", draws=1), linear(3, SHAPE), images(2, SHAPE), labels(2, 3))


def test_the_defaults_are_those_of_the_thesis():
    assert Bands() == Bands(bands=10, variance=0.01, draws=10, rule="rank", clip=False)


@pytest.mark.parametrize("fields", [{"bands": 0}, {"draws": 0}, {"variance": -1.0}, {"variance": math.inf}])
def test_fields_that_mean_nothing_are_refused(fields):
    with pytest.raises(ValueError, match=f"{next(iter(fields))}: expected"):
        Bands(**fields)


def shown(*answers):
    items = list(Bands.present(Answers(answers, tuple(one.run for one in answers))))
    charts = [item for item in items if isinstance(item, Chart)]
    drops, basis = ([table for table in items if isinstance(table, Table)][kind::2] for kind in (0, 1))
    return charts, drops, basis


@pytest.fixture(scope="module")
def one():
    question = Bands(bands=3, draws=2, variance=0.3)
    return answer(measured(question, linear(3, SHAPE), images(30, SHAPE), labels(30, 3)), question)


def test_networks_stand_side_by_side_in_one_table_and_chart(one):
    (chart,), (table,), (basis,) = shown(one, replace(one, run="b", place=1))
    assert list(table.columns) == ["a (best)", "b (best)"]
    assert [name for name, _ in table.rows] == ["0", "1", "2"]
    expected = drops_of(one)
    for (_, cells), row in zip(table.rows, expected, strict=True):
        assert [cell.value for cell in cells] == [row["drop"]] * 2
        assert cells[0].note == f"[{100 * row['low']:z.1f},\u00a0{100 * row['high']:z.1f}]"
    assert [(curve.run, curve.x) for curve in chart.curves] == [(0, (0, 1, 2)), (1, (0, 1, 2))]
    assert chart.curves[0].y == tuple(row["drop"] for row in expected)
    assert chart.curves[0].low == tuple(row["low"] for row in expected)
    assert [cell.value for cell in basis.rows[0][1]] == [expected[0]["clean"], 30, 2]
    assert chart.share
    heat = [cell.heat for _, cells in table.rows for cell in cells]
    assert (min(heat), max(heat)) == (0, 1)
    assert not any(cell.good for _, cells in table.rows for cell in cells)  # the more is taken, the worse


def test_other_noise_has_a_chart_and_tables_of_its_own(one):
    question = Bands(bands=2, draws=2, variance=0.3, clip=True)
    other = answer(measured(question, linear(3, SHAPE), images(30, SHAPE), labels(30, 3)), question)
    charts, tables, _ = shown(one, other)
    assert [chart.title.partition(", ")[2] for chart in charts] == [
        "3 bands, variance 0.3",
        "2 bands, variance 0.3, clipped",
    ]
    assert [len(table.rows) for table in tables] == [3, 2]


def test_one_image_has_no_interval(one):
    single = replace(one, rows=one.rows.head(1))
    (chart,), (table,), _ = shown(single)
    assert chart.curves[0].low == ()
    assert table.rows[0][1][0].note == ""
