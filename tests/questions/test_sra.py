"""Smoothed robustness analysis: closed forms on half-spaces, and the three special cases."""

import dataclasses

import polars as pl
import pytest
import torch
from scipy import stats

from holdfast.losses import margin
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.sra import SmoothedRobustness
from holdfast.questions.sra.measurement import CRITERIA, sra, sra_map, zero_one
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.threat import L2, Linf
from tests import chance
from tests.zoo import half_space, images, linear

COUNT = 12


def batch():
    """A half-space, images well inside the box, and their distances to the boundary (negative where wrong)."""
    model, x = half_space(9), images(COUNT, (1, 3, 3), low=0.4, high=0.6)
    y = torch.ones(COUNT, dtype=torch.int64)
    with torch.no_grad():
        distance = model.signed(x) / model.weight.norm()
    return model, x, y, distance


def test_without_noise_it_is_the_worst_case():
    model, x, y, distance = batch()
    found = sra(model, x, y, sigma=0.0, region=L2(0.2), steps=30)
    slope = 2 * float(model.weight.detach().norm())  # the logits are -m and +m
    torch.testing.assert_close(found.value, slope * (0.2 - distance), rtol=1e-3, atol=1e-4)
    assert torch.equal(found.safe, found.value < 0)


def test_without_region_it_is_the_average_case():
    model, x, y, distance = batch()
    found = sra(model, x, y, criterion=CRITERIA["zero_one"], sigma=0.3, region=None, draws=16_000)
    expected = torch.from_numpy(stats.norm.cdf(-distance.numpy() / 0.3))
    torch.testing.assert_close(found.value, expected, rtol=0, atol=chance.share_error(16_000, 0.5, count=len(x)))
    assert torch.equal(found.point, x)


@pytest.mark.parametrize("eps", [0.1, 0.2])
def test_with_both_and_the_zero_one_loss_it_is_the_error_of_randomized_smoothing(eps):
    model, x, y, distance = batch()
    found = sra(model, x, y, criterion=CRITERIA["zero_one"], sigma=0.3, region=L2(eps), draws=3000)
    expected = torch.from_numpy(stats.norm.cdf((eps - distance.numpy()) / 0.3))
    torch.testing.assert_close(found.value, expected, rtol=0, atol=chance.share_error(3000, 0.5, count=len(x)))
    assert float(L2(eps).distance(found.point, x).max()) <= eps + 1e-9


def test_the_point_found_is_judged_with_fresh_noise():
    # A search profits from the luck of its draws; the value it reports must not.
    model, x, y, _ = batch()
    seen = []
    found = sra(lambda z: seen.append(z.detach()) or model(z), x, y, sigma=1.0, region=L2(0.1), draws=3, steps=2)
    searched, judged = (
        (points.view(3, COUNT, 1, 3, 3) - centre) for points, centre in ((seen[0], x), (seen[-1], found.point))
    )
    assert float((searched - judged).abs().min()) > 1e-6
    torch.testing.assert_close(found.value, margin(model(seen[-1]), y.repeat(3)).view(3, -1).mean(0).detach())


def test_same_streams_same_value_whatever_the_batch():
    model, x, y, _ = batch()
    whole = sra(model, x, y, sigma=0.2, region=L2(0.1), draws=5, steps=4, rng=Streams(3, "", COUNT))
    part = sra(model, x[4:7], y[4:7], sigma=0.2, region=L2(0.1), draws=5, steps=4, rng=Streams(3, "", range(4, 7)))
    torch.testing.assert_close(whole.value[4:7], part.value)
    torch.testing.assert_close(whole.point[4:7], part.point)


def test_the_map_grows_with_the_region_whatever_the_batch():
    model, x = linear(3), images(COUNT)
    with torch.no_grad():
        y = model(x).argmax(1)
    options = {"eps": (0.0, 0.05, 0.2), "sigma": (0.0, 0.1), "region": L2(1.0), "steps": 10, "draws": 16}
    rng = Streams(3, "sra", COUNT)
    value, safe = sra_map(model, x, y, rng=rng, **options)
    assert value.shape == safe.shape == (COUNT, 3, 2)
    assert safe[:, 0, 0].all()
    assert (value.mean(0).diff(dim=0) > 0).all()
    assert (safe.double().mean(0).diff(dim=0) <= 0).all()
    with torch.no_grad():
        torch.testing.assert_close(value[:, 0, 0], margin(model(x), y))
    single = sra(model, x, y, sigma=0.1, region=L2(0.2), steps=10, draws=16, rng=rng)
    assert torch.equal(value[:, 2, 1], single.value)
    for start in range(0, COUNT, 5):
        part, _ = sra_map(model, x[start : start + 5], y[start : start + 5], rng=rng[start : start + 5], **options)
        torch.testing.assert_close(part, value[start : start + 5])


def test_zero_one_counts_wrong_answers():
    assert zero_one(torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([1, 1])).tolist() == [0.0, 1.0]


def test_impossible_arguments_are_refused():
    model, x, y, _ = batch()
    with pytest.raises(ValueError, match="sigma and steps must not be negative"):
        sra(model, x, y, sigma=-0.1, region=None)


def test_the_question_searches_every_size_and_deviation_in_order_and_once():
    model, x, y, _ = batch()
    rng = Streams(3, "sra", COUNT)
    question = SmoothedRobustness(eps=(0.2, 0.0, 0.2), sigma=(0.1, 0.0), norm="linf", steps=3, draws=4)
    columns = question.measure(model, x, y, rng=rng)
    criterion = CRITERIA["zero_one"]
    for row, region in enumerate((None, Linf(0.2))):
        for column, sigma in enumerate((0.0, 0.1)):
            one = sra(model, x, y, criterion=criterion, sigma=sigma, region=region, steps=3, draws=4, rng=rng)
            assert torch.equal(columns["value"][:, row, column], one.value)
            assert torch.equal(columns["safe"][:, row, column], one.safe)


def answer(settings, value, safe, run="a", place=0):
    """An answer of two images."""
    rows = pl.DataFrame({"example": [0, 1], "value": value, "safe": safe})
    key = AnswerKey(
        question="sra", settings=settings, weights="best", weights_hash="abc", seed=0, examples=2, images="0", block=4
    )
    return Answer(key, (), rows, run, place)


SETTINGS = {"eps": [0.5, 0.0, 0.0], "sigma": [0.0], "norm": "l2", "loss": "zero_one", "steps": 1, "draws": 1}
ANSWER = answer(SETTINGS, [[[0.0], [0.2]], [[0.4], [0.6]]], [[[True], [True]], [[True], [False]]])


def test_the_map_and_the_curve_have_the_share_of_each_size_with_its_interval():
    explanation, chart, table, details = SmoothedRobustness.present(Answers((ANSWER,), ("a",)))
    assert "average case" in explanation
    assert "may miss the worst point" in explanation
    (curve,) = chart.curves
    assert (curve.kind, curve.x, curve.y) == ("noise of 0", (0.0, 0.5), (1.0, 0.5))
    assert (curve.low[1], curve.high[1]) == (pytest.approx(0.0945, abs=1e-4), pytest.approx(0.9055, abs=1e-4))
    assert chart.x_title == "size of the region (ℓ2)"
    assert table.caption == "Smoothed robust: a (best), zero-one loss"
    assert table.columns == ["noise of 0"]
    assert [(name, cells[0].text, cells[0].heat) for name, cells in table.rows] == [
        ("0", "100.0\u00a0%", 1.0), ("0.5", "50.0\u00a0%", 0.0),
    ]  # fmt: skip
    assert table.rows[1][1][0].note == "[9.5,\u00a090.5]"
    (losses,) = details.items
    assert [cells[0].value for _, cells in losses.rows] == [pytest.approx(0.2), pytest.approx(0.4)]


def test_answers_of_different_norms_have_charts_of_their_own():
    other = dataclasses.replace(ANSWER, key=dataclasses.replace(ANSWER.key, settings={**SETTINGS, "norm": "linf"}))
    items = list(SmoothedRobustness.present(Answers((ANSWER, other), ("a",))))
    charts = [item for item in items if isinstance(item, Chart)]
    assert [(chart.x_title, len(chart.curves)) for chart in charts] == [
        ("size of the region (ℓ2)", 1), ("size of the region (ℓ∞)", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eps": ()}, "eps: expected numbers from 0 on"),
        ({"eps": (float("inf"),)}, "eps: expected numbers from 0 on"),
        ({"sigma": (-1.0,)}, "sigma: expected numbers from 0 on"),
        ({"steps": -1}, "steps: expected at least 0"),
        ({"draws": 0}, "draws: expected at least 1"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SmoothedRobustness(**fields)
