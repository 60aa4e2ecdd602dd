"""The question of linear dynamics: paths, predictions and partitions are those of the theory; tables and figures."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.linear_dynamics import DOMAINS, OPTIMISERS, STATEMENTS, LinearDynamics
from holdfast.questions.linear_dynamics.measurement import Measurement
from holdfast.questions.presenting import presented
from holdfast.rng import Streams
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.items import Details
from holdfast.show.table import Table
from holdfast.theory import linear_dynamics as theory
from holdfast.theory.linear_dynamics.partitions import end_regions, start_regions

PAGE = (Path(__file__).parent.parent.parent / "docs" / "optimisers.md").read_text(encoding="utf-8")
SHORT = LinearDynamics(steps=40, problems=5)


def asked(question, earlier=()):
    """Records as they are stored."""
    return json.loads(json.dumps([dict(record) for record in question.measure_records(None, earlier)]))


def answer(question, run="theory", place=0, records=None):
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(question).items()}
    key = AnswerKey(
        question="linear_dynamics", settings=settings, weights="data", weights_hash="", seed=0, examples=0, images="0",
        block=1,
    )  # fmt: skip
    return Answer(key, tuple(asked(question) if records is None else records), run=run, place=place)


@pytest.fixture(scope="module")
def thesis():
    return answer(LinearDynamics())


def items_of(*answers):
    items = list(LinearDynamics.present(Answers(answers, tuple(one.run for one in answers))))
    inside = [item for each in items if isinstance(each, Details) for item in each.items]
    return items, [item for item in (*items, *inside) if isinstance(item, Table)], inside


def cells(table):
    return {name: dict(zip(table.columns, row, strict=True)) for name, row in table.rows}


def part(one, *name):
    (record,) = (record for record in one.records if record["part"] == list(name))
    return record


def traces(figure, start):
    """Data of the curves whose name begins like this, by the rest of their name."""
    return {
        trace["name"].removeprefix(start).lstrip(", "): dict(zip(trace["x"], trace["y"], strict=True))
        for trace in figure.spec["data"]
        if trace["name"].startswith(start)
    }


def test_the_defaults_are_the_problem_of_the_thesis():
    question, problem = LinearDynamics(), theory.thesis_problem()
    assert list(question.variances) == problem.variances.tolist()
    assert list(question.target) == problem.target.tolist()
    assert list(question.start) == theory.thesis_start().tolist()
    assert question.eps == math.sqrt(2)


def test_paths_are_those_of_the_theory():
    """Of gradient descent in closed form, in both domains; of signGD in the one that it works in."""
    question, problem, start = SHORT, theory.thesis_problem(), theory.thesis_start()
    measurement = Measurement(question)
    expected = torch.stack([theory.gd_weights(problem, start, 0.01, step) for step in range(41)])
    for domain in DOMAINS:
        torch.testing.assert_close(measurement.path(domain, "GD"), expected, atol=1e-12, rtol=1e-9)
    signed = theory.descend(problem, theory.SignGD(rate=0.01), start, steps=40, basis=torch.eye(3).double())
    assert torch.equal(measurement.path("frequency", "signGD"), signed)
    assert not torch.equal(measurement.path("spatial", "signGD"), signed)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_each_optimiser_is_the_one_of_its_name(name):
    """After one step from the same start: along the gradient, or of the rate in each coordinate."""
    question = replace(SHORT, steps=1, rate=0.5)
    (_, after) = Measurement(question).path("frequency", name)
    problem, start = theory.thesis_problem(), theory.thesis_start()
    gradient = problem.variances * (start - problem.target)
    along = {"GD": gradient, "momentum": gradient, "signGD": gradient.sign(), "Adam": gradient.sign()}
    step = along.get(name, gradient.sign() * 10)  # of RMSProp, whose first mean square is a hundredth
    torch.testing.assert_close(after, start - 0.5 * step, atol=1e-5, rtol=1e-5)


def test_momentum_remembers():
    one, two = (Measurement(replace(SHORT, steps=2)).path("spatial", name)[-1] for name in ("GD", "momentum"))
    assert (one[:2] < two[:2]).all()


def test_records_hold_errors_and_risks_along_the_path_and_at_its_end():
    one = answer(replace(SHORT, eps=0.5))
    record, path = part(one, "spatial", "Adam"), Measurement(SHORT).path("spatial", "Adam")
    problem = theory.thesis_problem()
    assert (record["steps"][0], record["steps"][-1]) == (1, 40)
    assert record["weights"] == path[-1].tolist()
    assert record["norm"] == float(path[-1].square().sum())
    risk = theory.adversarial_risk(problem, path, 0.5)
    assert record["adversarial"] == pytest.approx(risk[record["steps"]].tolist(), rel=1e-5)
    assert record["standard"] == pytest.approx(theory.standard_risk(problem, path)[record["steps"]].tolist(), rel=1e-5)
    assert record["end"]["adversarial"] == float(risk[-1])
    assert record["limit"] == pytest.approx(0.125 * 125.0004)
    assert record["errors"][-1] == pytest.approx((path[-1] - problem.target).abs().tolist(), rel=1e-5)


def test_samples_are_the_same_for_all_optimisers_and_have_a_seed():
    question = replace(SHORT, samples=3)
    moments = theory.sampled_moments(theory.thesis_problem(), 40, 3)
    for name, rule in (("GD", theory.GD(rate=0.01)), ("RMSProp", theory.RMSProp(rate=0.01))):
        expected = theory.descend(
            theory.thesis_problem(), rule, theory.thesis_start(), steps=40, basis=theory.dct_basis(3), moments=moments
        )
        assert torch.equal(Measurement(question).path("spatial", name), expected)
    other = Measurement(replace(question, seed=1)).path("spatial", "GD")
    assert not torch.equal(other, Measurement(question).path("spatial", "GD"))
    assert part(answer(replace(SHORT, seed=1)), "random") != part(answer(SHORT), "random")


def test_an_interrupted_answer_goes_on_with_the_parts_that_follow():
    whole = asked(SHORT)
    assert len(whole) == SHORT.count(None) == len(DOMAINS) * len(OPTIMISERS) + len(STATEMENTS)
    for done in (3, 10, 12):
        assert asked(SHORT, whole[:done]) == whole[done:]


@pytest.mark.parametrize(
    "variances",
    [
        (0.01, 0.02), (0.01, 0.0025, 0.001), (0.01, 0.03, 0.0), (0.0, 0.01, 0.0), (0.01, 0.0, 0.0),
        (0.01, 0.0, 0.0, 0.0),
    ],
)  # fmt: skip
def test_other_problems_have_paths_alone(variances):
    question = replace(SHORT, variances=variances, target=(1.0,) * len(variances), start=(0.0,) * len(variances))
    assert not question.predictable
    one = answer(question)
    assert [record["part"] for record in one.records] == [[domain, name] for domain in DOMAINS for name in OPTIMISERS]
    items, tables, inside = items_of(one)
    assert [len(table.rows) for table in tables] == [5, 5]
    assert sum(isinstance(item, Figure) for item in items) == 4
    assert inside == []


def test_a_path_that_diverges_is_shown_as_far_as_it_goes():
    question = replace(SHORT, rate=1e200, variances=(0.01,), target=(1.0,), start=(0.0,))
    records = json.dumps([dict(record) for record in question.measure_records(None, ())])
    records = json.loads(re.sub(r"-?Infinity|NaN", "null", records))  # as they are stored
    _, (table, _), _ = items_of(answer(question, records=records))
    assert cells(table)["GD"]["Adversarial risk"].text == ""


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target": (1.0,)}, r"target: expected 3 numbers, one per variance; got \[1.0\]"),
        ({"start": (1.0, math.nan, 0.0)}, "start: expected 3 numbers"),
        ({"variances": (-1.0, 0.0, 0.0)}, "variances: expected numbers from 0 on"),
        ({"variances": (0.0, 0.0, 0.0)}, "variances: expected one above 0"),
        ({"rate": 0.0}, "rate: expected a positive number"),
        ({"eps": -1.0}, "eps: expected a number from 0 on"),
        ({"steps": 0}, "steps: expected at least 1"),
        ({"problems": 0}, "problems: expected at least 1"),
        ({"samples": -1}, "samples: expected at least 0"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        LinearDynamics(**fields)


def test_the_tables_of_ends_compare_with_the_limit_of_gradient_descent(thesis):
    _, (spatial, frequency, *_), _ = items_of(thesis)
    assert [name for name, _ in spatial.rows] == list(OPTIMISERS)
    rows = cells(spatial)
    assert rows["GD"]["Standard risk"].value > 0.1  # after 3,000 steps it has hardly begun
    assert rows["signGD"]["w2"].value == pytest.approx(-4.29926691)
    assert rows["signGD"]["|w|²"].value == pytest.approx(143.2, abs=0.2)
    assert rows["signGD"]["Over GD's limit"].value == pytest.approx(rows["signGD"]["Adversarial risk"].value / 125.0004)
    assert cells(frequency)["signGD"]["w2"].value == 0.02
    assert cells(frequency)["Adam"]["w2"].value == 0.02


def test_the_table_of_the_documentation_is_that_of_the_question(thesis):
    """docs/optimisers.md shows where the optimisers end after 3,000 steps with gradients of the population."""
    _, (spatial, frequency, *_), _ = items_of(thesis)
    for (name, in_space), (_, in_frequency) in zip(spatial.rows, frequency.rows, strict=True):
        shown = [in_space[i].text for i in (2, 3, 6)] + [in_frequency[i].text for i in (2, 6)]
        assert f"| {name} | {' | '.join(shown)} |" in PAGE


def test_the_code_of_the_documentation_prints_what_it_says(capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/optimisers.md", "exec"), {})
    printed = [float(number) for number in re.findall(r"-?\d+\.\d+", capsys.readouterr().out.replace("float64", ""))]
    expected = [
        float(x)
        for line in code.splitlines()
        if "print" in line
        for x in re.findall(r"-?\d\.\d+", line.partition("#")[2])
    ]
    assert len(printed) == len(expected) == 6
    assert printed == pytest.approx(expected, abs=6e-4)


def test_figure_4_7_shows_the_irrelevant_error_growing_under_signs_alone(thesis):
    items, _, _ = items_of(thesis)
    errors, risks, *_ = (item for item in items if isinstance(item, Figure))
    assert [key.label for key in errors.keys] == [*OPTIMISERS, "|e0|", "|e1|", "|e2|"]
    assert traces(errors, "GD")["|e2|"][3000.0] == pytest.approx(0.02)
    assert traces(errors, "signGD")["|e2|"][3000.0] == pytest.approx(4.29926691, rel=1e-5)
    assert traces(errors, "signGD")["|e0|"][1.0] == pytest.approx(4.99 - 0.01 * math.sqrt(3))
    assert len(traces(errors, "GD")["|e0|"]) < 250
    assert errors.spec["layout"]["xaxis"]["type"] == "log"
    assert traces(risks, "signGD")["standard"][3000.0] < 1e-5
    assert min(min(trace["y"]) for trace in risks.spec["data"]) == 1e-8
    assert traces(risks, "signGD")["adversarial"][3000.0] == pytest.approx(143.2, abs=0.3)


def test_signgd_is_compared_with_what_is_predicted_of_it(thesis):
    items, (_, _, prediction, random, *_), _ = items_of(thesis)
    problem, start = theory.thesis_problem(), theory.thesis_start()
    rows = cells(prediction)
    shift = float(theory.predicted_shift(problem, start))
    assert rows["Shift of the irrelevant weight"]["Predicted"].value == pytest.approx(shift)
    assert rows["Shift of the irrelevant weight"]["Observed"].value == pytest.approx(-4.29926691 - 0.02)
    ratio = float(theory.risk_ratio(problem, start, torch.tensor(shift)))
    assert rows["Adversarial risk over GD's limit"]["Predicted"].value == pytest.approx(ratio)
    count, error, bound, share = cells(random)["random problems"].values()
    assert (count.value, count.note) == (400, "of 400")
    assert 0.1 < error.value < bound.value == pytest.approx(3 * math.sqrt(6))
    assert 0.5 < share.value < 0.9
    shifts, ratios = (item for item in items if isinstance(item, Chart))
    for chart, kind in ((shifts, "shift"), (ratios, "ratio")):
        line, points = chart.curves
        predicted, observed = part(thesis, "random")[kind]
        assert (points.x, points.y) == (tuple(predicted), tuple(observed))
        assert line.x == line.y == (min(predicted), max(predicted))
    assert share.value == sum(ratio > 1 for ratio in observed) / 400


def test_random_problems_have_the_spectrum_of_the_question_and_its_rate():
    question = replace(SHORT, variances=(0.02, 0.01, 0.0), rate=0.02, steps=2000, problems=30)
    record = part(answer(question), "random")
    predicted, observed = map(torch.tensor, record["shift"])
    assert float((predicted - observed).abs().max()) < 3 * math.sqrt(6) * 0.02
    assert len(set(record["shift"][0])) == 30


def test_what_is_known_reaches_up_to_twice_the_first_variance():
    question = replace(SHORT, variances=(0.01, 0.02, 0.0))
    assert question.predictable
    assert len(answer(question).records) == question.count(None) == 17


def test_random_problems_have_targets_of_three_times_their_starts():
    draws = Streams(0, "problems", 5).normal(torch.empty(5, 2, 3, dtype=torch.float64))
    target, start = 3 * draws[:, 0] * theory.vector(1, 1, 0), draws[:, 1]
    problem = theory.Problem(variances=theory.vector(*SHORT.variances), target=target)
    assert part(answer(SHORT), "random")["shift"][0] == theory.predicted_shift(problem, start).tolist()


def test_random_problems_take_all_steps_whatever_is_in_memory_at_once(monkeypatch):
    whole = part(answer(SHORT), "random")
    monkeypatch.setattr("holdfast.questions.linear_dynamics.measurement.TOGETHER", 7)
    assert part(answer(SHORT), "random") == whole
    assert part(answer(replace(SHORT, steps=41)), "random") != whole


def test_table_4_8_has_the_printed_rows(thesis):
    _, tables, _ = items_of(thesis)
    rows = {name: [cell.text for cell in row] for name, row in tables[-2].rows}
    assert len(rows) == 7
    assert rows["X1"] == ["+√(1/2) X1", "0", "-√(1/2) X1"]
    assert rows["X0, X2"] == ["+√(1/3) X0 +√(1/6) X2", "+√(1/3) X0 -√(2/3) X2", "+√(1/3) X0 +√(1/6) X2"]
    assert rows["X0, X1"] == ["+√(1/3) X0 +√(1/2) X1", "+√(1/3) X0", "+√(1/3) X0 -√(1/2) X1"]


def test_table_4_9_has_the_printed_rows(thesis):
    _, tables, _ = items_of(thesis)
    rows = {name: [cell.text for cell in row] for name, row in tables[-1].rows}
    assert len(rows) == 27
    assert sum(row[0] == "impossible" for row in rows.values()) == 14
    assert rows["+1 +1 -1"] == ["+√(1/3)", "+√(2)", "-√(2/3)", "|A| < |B|"]
    assert rows["-1 0 -1"] == ["-√(4/3)", "+√(1/2)", "+√(1/6)", "|A| = |B|"]
    assert rows["0 0 0"] == ["0", "0", "0", "|A| = |B|"]


@pytest.mark.parametrize(
    ("place", "title", "regions"),
    [
        (0, "Partition R, slope 1", lambda a, b: end_regions(a, b, 1.0)),
        (1, "Partition P, slope 1", lambda a, b: start_regions(a, b, 1.0)),
        (2, "Partition P, slope 0.1111", lambda a, b: start_regions(a, b, 1 / 9)),
    ],
)
def test_partitions_are_drawn_point_by_point_with_a_path_from_each_region(thesis, place, title, regions):
    chart = [item for item in items_of(thesis)[2] if isinstance(item, Chart)][place]
    assert chart.title == title
    points = [curve for curve in chart.curves if curve.form == "points"]
    for curve in points:
        a, b = (torch.tensor(values, dtype=torch.float64) for values in (curve.x, curve.y))
        assert bool(regions(a, b)[curve.kind].all())
    assert {curve.kind for curve in points} == set(regions(*torch.zeros(2, 1).double()))
    assert sum(len(curve.x) for curve in points) == 1600
    low, high = ((-1, -4), (1, 4)) if place == 0 else ((0, 0), (6, 6))
    every = torch.tensor([pair for curve in points for pair in zip(curve.x, curve.y, strict=True)])
    torch.testing.assert_close(every.amin(0), torch.tensor(low, dtype=torch.float32), atol=0.1, rtol=0)
    torch.testing.assert_close(every.amax(0), torch.tensor(high, dtype=torch.float32), atol=0.2, rtol=0)
    assert (every.amin(0) > torch.tensor(low)).all()
    assert (every.amax(0) < torch.tensor(high)).all()
    orbits = [curve for curve in chart.curves if curve.kind == "path of signGD"]
    for own, orbit in zip(points, orbits, strict=True):
        assert (orbit.x[0], orbit.y[0]) in set(zip(own.x, own.y, strict=True))
        assert len(orbit.x) == (13 if place == 0 else 19)
        assert max(abs(after - before) for before, after in zip(orbit.x, orbit.x[1:], strict=False)) <= 1 + 1e-5


def test_several_problems_are_told_apart_and_what_is_known_stands_once():
    one, other = answer(SHORT), answer(replace(SHORT, samples=2))
    items, tables, inside = items_of(one, other)
    assert [table.caption.partition(":")[0] for table in tables][::4][:2] == ["theory, samples=0", "theory, samples=2"]
    assert sum(isinstance(item, Details) for item in items) == 1
    assert sum(isinstance(item, Table) for item in inside) == 2


def test_answers_under_way_show_what_there_is():
    records = asked(SHORT)
    items, (table,), inside = items_of(answer(SHORT, records=records[:2]))
    assert [name for name, _ in table.rows] == ["GD", "momentum"]
    assert inside == []
    assert presented(LinearDynamics, Answers((answer(SHORT, records=records),)))[0] == items[0]  # rests on no images
    assert list(LinearDynamics.present(Answers((answer(SHORT, records=[]),)))) == []


def test_the_bound_is_shown_for_problems_that_have_arrived_alone():
    """After 40 steps most random problems are on their way, where the bound does not hold."""
    short = replace(LinearDynamics(), steps=40)
    record = part(answer(short), "random")
    arrived = sum(record["arrived"])
    assert 0 < arrived < 100
    _, (_, _, _, random, *_), _ = items_of(answer(short))
    count, error, bound, _ = cells(random)["random problems"].values()
    assert (count.value, count.note) == (arrived, "of 400")
    assert error.value < bound.value
