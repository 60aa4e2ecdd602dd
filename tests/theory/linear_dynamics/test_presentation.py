"""Figures and tables: their numbers are those of the mathematics."""

import math

import pytest
import torch

from holdfast.show.figures import figure
from holdfast.theory.linear_dynamics.descent import descend
from holdfast.theory.linear_dynamics.optimisers import GD, SignGD
from holdfast.theory.linear_dynamics.partitions import end_regions, start_regions
from holdfast.theory.linear_dynamics.predictions import predicted_shift, risk_ratio
from holdfast.theory.linear_dynamics.presentation import (
    end_chart,
    end_table,
    error_chart,
    ratio_chart,
    risk_chart,
    shift_chart,
    sign_table,
    spatial_table,
    start_chart,
)
from holdfast.theory.linear_dynamics.problem import dct_basis, standard_risk, thesis_problem, thesis_start, vector

EPS = math.sqrt(2)


@pytest.fixture(scope="module")
def paths():
    optimisers = {"GD": GD(rate=0.01), "signGD": SignGD(rate=0.01)}
    return {
        name: descend(thesis_problem(), optimiser, thesis_start(), steps=1500, basis=dct_basis(3))
        for name, optimiser in optimisers.items()
    }


def curve(chart, run, kind):
    (match,) = (curve for curve in chart.curves if (curve.run, curve.kind) == (run, kind))
    return dict(zip(match.x, match.y, strict=True))


def test_figure_4_7_shows_the_irrelevant_error_growing_under_sign_descent_alone(paths):
    chart = error_chart(thesis_problem(), paths)
    assert curve(chart, 0, "|e2|")[1500.0] == pytest.approx(0.02)
    assert curve(chart, 1, "|e2|")[1500.0] == pytest.approx(4.29926691)
    assert curve(chart, 1, "|e0|")[1.0] == pytest.approx(4.99 - 0.01 * math.sqrt(3))
    assert len(curve(chart, 0, "|e0|")) < 250
    assert figure(chart, list(paths), "errors").spec["layout"]["xaxis"]["type"] == "log"


def test_figure_4_7_shows_both_risks(paths):
    chart = risk_chart(thesis_problem(), paths, EPS)
    assert curve(chart, 1, "standard")[1500.0] < 1e-5
    assert curve(chart, 1, "adversarial")[1500.0] == pytest.approx(143.2, abs=0.3)


def test_the_table_of_ends_compares_with_the_limit_of_gradient_descent(paths):
    problem = thesis_problem()
    table = end_table(problem, paths, EPS)
    assert [name for name, _ in table.rows] == ["GD", "signGD"]
    first, second = (dict(zip(table.columns, (cell.value for cell in cells), strict=True)) for _, cells in table.rows)
    assert first["standard"] == pytest.approx(float(standard_risk(problem, paths["GD"][-1])))
    assert first["standard"] > 0.1  # after 1,500 steps it has hardly begun
    assert second["w2"] == pytest.approx(-4.29926691)
    assert second["over GD's limit"] == pytest.approx(second["adversarial"] / 125.0004)
    assert second["|w|²"] == pytest.approx(143.2, abs=0.2)


def test_table_4_8_has_the_printed_rows():
    rows = {name: [cell.text for cell in cells] for name, cells in spatial_table().rows}
    assert len(rows) == 7
    assert rows["X1"] == ["+√(1/2) X1", "0", "-√(1/2) X1"]
    assert rows["X0, X2"] == ["+√(1/3) X0 +√(1/6) X2", "+√(1/3) X0 -√(2/3) X2", "+√(1/3) X0 +√(1/6) X2"]
    assert rows["X0, X1"] == ["+√(1/3) X0 +√(1/2) X1", "+√(1/3) X0", "+√(1/3) X0 -√(1/2) X1"]


def test_table_4_9_has_the_printed_rows():
    rows = {name: [cell.text for cell in cells] for name, cells in sign_table().rows}
    assert len(rows) == 27
    assert sum(cells[0] == "impossible" for cells in rows.values()) == 14
    assert rows["+1 +1 -1"] == ["+√(1/3)", "+√(2)", "-√(2/3)", "|A| < |B|"]
    assert rows["-1 0 -1"] == ["-√(4/3)", "+√(1/2)", "+√(1/6)", "|A| = |B|"]
    assert rows["0 0 0"] == ["0", "0", "0", "|A| = |B|"]


@pytest.mark.parametrize(
    ("chart", "regions"),
    [
        (end_chart(1.0), lambda a, b: end_regions(a, b, 1.0)),
        (start_chart(1.0), lambda a, b: start_regions(a, b, 1.0)),
        (start_chart(1 / 9), lambda a, b: start_regions(a, b, 1 / 9)),
    ],
    ids=["R", "P steep", "P flat"],
)
def test_partitions_are_drawn_point_by_point(chart, regions):
    points = [curve for curve in chart.curves if curve.form == "points"]
    for curve in points:
        a, b = (torch.tensor(values, dtype=torch.float64) for values in (curve.x, curve.y))
        assert bool(regions(a, b)[curve.kind].all())
    assert {curve.kind for curve in points} == set(regions(*torch.zeros(2, 1).double()))
    assert sum(len(curve.x) for curve in points) == 1600
    assert sum(curve.kind == "path of signGD" for curve in chart.curves) == len(points)


def test_shifts_and_ratios_are_drawn_over_their_predictions():
    starts = torch.stack([vector(0, 0, 1), vector(1, 2, -1)])
    predicted = predicted_shift(thesis_problem(), starts)
    observed = predicted + 0.1
    line, points = shift_chart(thesis_problem(), starts, observed).curves
    assert (points.x, points.y) == (tuple(predicted.tolist()), tuple(observed.tolist()))
    assert line.x == line.y == (float(predicted.min()), float(predicted.max()))
    _, points = ratio_chart(thesis_problem(), starts, observed).curves
    assert points.y == tuple(risk_ratio(thesis_problem(), starts, observed).tolist())
