"""Optimisers compared on equal terms: groups of runs, matched pairs, fits and correlations by hand."""

import json
import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr, t

from holdfast.errors import LedgerError
from holdfast.questions.answers import AnswerKey, Store
from holdfast.report.optimisers import Optimisers
from holdfast.report.optimisers.comparing import (
    at_each_rate,
    best_rates,
    correlations,
    fit,
    matched,
    same_accuracy,
    same_loss,
)
from holdfast.report.optimisers.points import Point, Study, Trained, optimiser_of, recipe_of, studies
from holdfast.report.runs import read_runs
from holdfast.results import Ledger
from holdfast.show.items import Heading, Note
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run, pgd

ATTACK = "pgd linf eps=0.1 steps=20"


def point(clean=0.9, robust=0.5, loss=0.1, *, epoch=1, validation=0.9, main=True):
    return Point(0, epoch, main, loss, validation, clean, {ATTACK: robust})


def trained(optimiser, *points, rate=0.1, **measures):
    return Trained(f"{optimiser}/{rate}", optimiser, rate, points, measures)


def study(*runs):
    return Study("", runs, (ATTACK,), (ATTACK,))


def recipe(optimiser, **changes):
    return json.dumps(
        {"name": "x", "seed": 0, "data": {}, "model": "mlp", "train": {"optimizer": optimiser, **changes}}
    )


def run(path, optimiser, right, *, name, losses=(1.0, 0.5), weights=("last",), on_the_way=(), **changes):
    """A run of which so many of 10 images are right on clean images and half as many under attack."""
    checks = [FakeCheck("clean", correct=[n < right for n in range(10)]), pgd(0.1, [n < right // 2 for n in range(10)])]
    made = make_run(path, checks, name=name, weights=[*weights, *on_the_way], recipe=recipe(optimiser, **changes))
    facts = json.loads((made / "run.json").read_text())
    epochs = {"last": len(losses), "best": len(losses), **{label: int(label[6:]) for label in on_the_way}}
    facts["weights"] = {label: {"sha256": "0" * 64, "epoch": epochs[label]} for label in (*weights, *on_the_way)}
    (made / "run.json").write_text(json.dumps(facts))
    lines = [
        {"epoch": n, "step": n, "lr": 0.1, "train": {"total": loss}, "validation": {"loss": 1.0, "accuracy": n / 10},
         "seconds": 1.0}
        for n, loss in enumerate(losses, 1)
    ]  # fmt: skip
    (made / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made


def test_runs_that_differ_in_optimiser_rate_and_seed_alone_are_a_study(tmp_path):
    made = [
        run(tmp_path / "a", {"sgd": {"lr": 0.1, "momentum": 0.0}}, 8, name="x/a/seed-0"),
        run(tmp_path / "b", {"sgd": {"lr": 0.1, "momentum": 0.9}}, 6, name="x/b/seed-0"),
        run(tmp_path / "c", {"adam": {"lr": 0.01}}, 4, name="x/c/seed-0"),
        run(tmp_path / "d", {"adam": {"lr": 0.01}}, 4, name="x/d/seed-0", epochs=7),
        run(tmp_path / "e", {"rmsprop": {"lr": 0.01}}, 4, name="x/e/seed-0", epochs=7),
        run(tmp_path / "f", {"sgd": {"lr": 0.1}}, 4, name="x/f/seed-0", epochs=8),
    ]
    first, second = studies(read_runs(made))
    assert first.optimisers == ("sgd momentum=0.0", "sgd momentum=0.9", "adam")
    assert [(one.rate, one.main.clean, one.main.robust[ATTACK]) for one in first.runs] == [
        (0.1, 0.8, 0.4), (0.1, 0.6, 0.3), (0.01, 0.4, 0.2),
    ]  # fmt: skip
    assert [(one.main.loss, one.main.validation, one.main.epoch) for one in first.runs] == [(0.5, 0.2, 2)] * 3
    assert (first.title, second.title) == ("", "train.epochs=7")
    assert second.optimisers == ("adam", "rmsprop")


def test_runs_without_a_recipe_or_of_one_optimiser_are_none(tmp_path):
    made = [run(tmp_path / str(n), {"sgd": {"lr": rate}}, 8, name=f"x/{n}/seed-0") for n, rate in enumerate((0.1, 0.2))]
    made.append(make_run(tmp_path / "none", [FakeCheck("clean", correct=[True])], recipe=None))
    assert studies(read_runs(made)) == []
    assert list(Optimisers().present(read_runs(made))) == []


@pytest.mark.parametrize("text", ["", "[1", "train: 3", "train: {optimizer: 3}", "train: {}"])
def test_a_recipe_that_states_no_optimiser_is_left_out(tmp_path, text):
    (data,) = read_runs([make_run(tmp_path / "a", [FakeCheck("clean", correct=[True])], recipe=text)])
    assert recipe_of(data) is None


def test_an_optimiser_may_be_stated_by_its_name_alone():
    assert optimiser_of({"train": {"optimizer": "sgd"}}) == ("sgd", {})


def test_epochs_on_the_way_are_points_and_the_main_weights_are_marked(tmp_path):
    made = [
        run(tmp_path / name, {name: {"lr": 0.1}}, 8, name=f"x/{name}/seed-0", losses=(3.0, 2.0, 1.0, 0.5),
            on_the_way=("epoch-2",))
        for name in ("sgd", "adam")
    ]  # fmt: skip
    (one,) = studies(read_runs(made))
    assert [(p.epoch, p.loss, p.main) for p in one.runs[0].points] == [(2, 2.0, False), (4, 0.5, True)]
    ledger = Ledger(made[0] / "ledger")
    ledger.append("epoch-2-1", ledger.part("epoch-2-1").with_columns(check=pl.lit("other")))
    (one,) = studies(read_runs(made))
    assert (one.checks, one.followed) == ((ATTACK,), ())


def test_rates_are_chosen_by_validation_accuracy_over_seeds():
    runs = [
        trained("sgd", point(validation=0.90), rate=0.1), trained("sgd", point(validation=0.94), rate=0.1),
        trained("sgd", point(validation=0.93), rate=0.2), trained("sgd", point(validation=0.93), rate=0.2),
        trained("adam", point(validation=None), rate=0.01), trained("adam", point(validation=0.99), rate=0.02),
    ]  # fmt: skip
    assert best_rates(study(*runs)) == {"sgd": 0.2, "adam": 0.02}
    assert list(at_each_rate(study(*runs))) == [("sgd", 0.1), ("sgd", 0.2), ("adam", 0.01), ("adam", 0.02)]


def test_matched_by_hand():
    """Of Adam's two networks one has the clean accuracy of two of SGD's, and the other the loss of one."""
    sgd = trained("sgd", point(0.900, 0.5, 0.30), point(0.903, 0.6, 0.20), point(0.95, 0.7, 0.10))
    adam = trained("adam", point(0.902, 0.4, 0.90), point(0.80, 0.3, 0.109))
    (accuracy,), (loss,) = (list(matched(study(sgd, adam), "sgd", by)) for by in (same_accuracy, same_loss))
    assert (accuracy.optimiser, accuracy.reference, accuracy.pairs, accuracy.points) == ("adam", "sgd", 1, 1)
    assert accuracy.difference.value == pytest.approx(0.4 - 0.55)
    assert loss.difference.value == pytest.approx(0.3 - 0.7)
    assert accuracy.difference.interval is None  # one run of each says nothing of others


def test_pairs_of_runs_count_alike_and_the_interval_is_that_of_student():
    sgd = [trained("sgd", point(robust=0.5), point(robust=0.5)), trained("sgd", point(robust=0.7))]
    adam = [trained("adam", point(robust=0.4)), trained("adam", point(robust=0.4), point(robust=0.2))]
    (one,) = matched(study(*sgd, *adam), "sgd", same_accuracy)
    assert one.difference.value == pytest.approx(np.mean([-0.1, -0.3, -0.2, -0.4]))
    deviation = math.sqrt(np.var([0.4, 0.3], ddof=1) / 2 + np.var([0.5, 0.7], ddof=1) / 2)
    half = (one.difference.interval.high - one.difference.interval.low) / 2
    assert half == pytest.approx(t.ppf(0.975, 1) * deviation, rel=0.05)


def test_rates_are_resampled_where_an_optimiser_has_several():
    """Three seeds that are equal at each rate are no more evidence than one."""
    robust = {"sgd": (0.5, 0.6), "adam": (0.4, 0.2)}
    runs = [(name, rate, value) for name, values in robust.items() for rate, value in enumerate(values)]
    once = study(*(trained(name, point(robust=value), rate=rate) for name, rate, value in runs))
    thrice = study(*(trained(name, point(robust=value), rate=rate) for name, rate, value in runs for _ in range(3)))
    assert thrice.independent("adam") == [[6, 7, 8], [9, 10, 11]]
    assert study(*[trained("sgd", point())] * 3).independent("sgd") == [[0], [1], [2]]
    differences = [next(matched(each, "sgd", same_accuracy)).difference for each in (once, thrice)]
    assert differences[0].value == pytest.approx(differences[1].value)
    assert differences[0].interval.low == pytest.approx(differences[1].interval.low)


def test_runs_without_a_match_are_no_evidence():
    """Of three runs one matches: the interval of one run, which is none."""
    sgd = [trained("sgd", point(robust=0.5)), trained("sgd", point(robust=0.6))]
    adam = [trained("adam", point(robust=0.4)), *(trained("adam", point(clean=0.5)) for _ in range(2))]
    (one,) = matched(study(*sgd, *adam), "sgd", same_accuracy)
    assert (one.pairs, one.points, one.difference.interval) == (2, 1, None)


def test_draws_of_a_fit_have_runs_of_every_optimiser():
    """Two runs each, a clear difference: a draw without an optimiser would have a constant of 0."""
    runs = [
        trained(
            name,
            *(
                point(robust=value + 0.001 * seed + 0.1 * math.log(loss), loss=loss)
                for loss in (0.1, 0.2, 0.3 + seed / 10)
            ),
        )
        for name, value in (("sgd", 0.9), ("adam", 0.7))
        for seed in (0, 1)
    ]
    constant = fit(study(*runs), "sgd").effects["adam"]
    assert constant.value == pytest.approx(-0.2)
    assert -0.25 < constant.interval.low < constant.interval.high < -0.15


def test_what_never_matches_says_so():
    one, *_ = matched(study(trained("sgd", point(0.9)), trained("adam", point(0.8))), "sgd", same_accuracy)
    assert (one.pairs, one.points, one.difference.interval) == (0, 0, None)
    assert math.isnan(one.difference.value)


@pytest.mark.parametrize(
    ("by", "values", "expected"),
    [
        (same_accuracy, (0.905, 0.9), True), (same_accuracy, (0.906, 0.9), False),
        (same_loss, (0.9, 1.0), True), (same_loss, (0.89, 1.0), False), (same_loss, (0.0, 0.0), True),
    ],
)  # fmt: skip
def test_how_far_matches_may_be_apart(by, values, expected):
    one, other = (point(clean=value, loss=value) for value in values)
    assert by(one, other) is by(other, one) is expected


def planted(noise=0.0):
    """Robust accuracy 0.6 + 0.1 ln(loss), less 0.05 for Adam, whose losses are lower."""
    draws = np.random.default_rng(0).normal(size=40) * noise
    runs = []
    for number in range(8):
        optimiser = "sgd" if number % 2 else "adam"
        losses = [math.exp(-k / 4 - (1 if optimiser == "adam" else 0) - number / 10) for k in range(4)]
        offset = -0.05 if optimiser == "adam" else 0.0
        values = [0.6 + 0.1 * math.log(loss) + offset + draws[4 * number + k] for k, loss in enumerate(losses)]
        runs.append(trained(optimiser, *(point(robust=v, loss=loss) for v, loss in zip(values, losses, strict=True))))
    return study(*runs)


def test_a_fit_finds_the_slope_and_the_constant_that_were_planted():
    exact = fit(planted(), "sgd")
    assert exact.own_slope.value == pytest.approx(0.1)
    assert exact.effects["adam"].value == pytest.approx(-0.05)
    assert exact.own_explained == pytest.approx(1)
    assert exact.slope.value > 0.11
    assert exact.explained < 0.99
    assert exact.networks == 32
    noisy = fit(planted(noise=0.01), "sgd")
    for estimate, truth in ((noisy.own_slope, 0.1), (noisy.effects["adam"], -0.05)):
        assert estimate.interval.low < truth < estimate.interval.high
        assert estimate.interval.high - estimate.interval.low < 0.1


def test_a_fit_needs_several_networks():
    assert fit(study(trained("sgd", point()), trained("adam", point(loss=0.2))), "sgd") is None
    alike = [trained(name, point(), point()) for name in ("sgd", "adam", "sgd", "adam")]
    assert fit(study(*alike), "sgd") is None


def test_correlations_are_those_of_scipy_over_the_runs_that_have_the_measure():
    generator = np.random.default_rng(0)
    robust, upper = generator.random((2, 12))
    runs = [
        trained("sgd", point(robust=r, loss=1 - r), rate=0.1, **({"upper": u} if n < 10 else {}))
        for n, (r, u) in enumerate(zip(robust, upper, strict=True))
    ]
    measured = correlations(study(*runs))
    estimate, count = measured["Lipschitz bound"]
    assert count == 10
    assert estimate.value == pytest.approx(spearmanr(upper[:10], robust[:10]).statistic)
    assert estimate.interval.low < estimate.value < estimate.interval.high
    assert measured["training loss"][0].value == pytest.approx(-1)
    assert "learning rate" not in measured


def test_everything_is_shown_with_the_training_loss_in_the_tables_of_accuracies(tmp_path):
    made = []
    for number, (optimiser, rate) in enumerate((o, r) for o in ("sgd", "adam") for r in (0.1, 0.2, 0.3)):
        path = run(
            tmp_path / f"{number}", {optimiser: {"lr": rate}}, 9 - number, name=f"x/{number}/seed-0",
            losses=(1.0, 0.9 - number / 10),
        )  # fmt: skip
        key = AnswerKey(
            question="lipschitz", settings={"norm": "l2"}, weights="last", weights_hash="0", seed=0, examples=4,
            images="0", block=1,
        )  # fmt: skip
        Store(path).write(key, [{"product": 1.0 + number, "upper": 1.0, "lower": None, "weights": 2.0}])
        made.append(path)
    items = list(Optimisers().present(read_runs(made)))
    tables = {item.caption: item for item in items if isinstance(item, Table)}
    chosen = tables["At the rate with the best validation accuracy"]
    assert [name for name, _ in chosen.rows] == ["sgd, 0.1", "adam, 0.1"]  # all are alike, so the lowest rate
    assert chosen.columns[:5] == ("Seeds", "Training loss", "Final training loss", "Validation", "Clean")
    assert {"Robust accuracy at equal terms, beside sgd", "Spearman’s correlation with robust accuracy over runs"} <= {
        *tables
    }
    steep = tables["Robust accuracy, Lipschitz constants and slopes; norm l2, 4 images"]
    assert steep.columns[:2] == ("Robust", "Product of layer norms")
    turned = list(Optimisers(reference="adam").present(read_runs(made)))
    assert any(getattr(item, "caption", "") == "Robust accuracy at equal terms, beside adam" for item in turned)
    with pytest.raises(LedgerError, match="reference: unknown name 'adma'; known: adam, sgd"):
        list(Optimisers(reference="adma").present(read_runs(made)))
    notes = [item.text for item in items if isinstance(item, Note)]
    assert notes == ["The best learning rate is the lowest or highest one tried: sgd, adam."]


def test_one_optimiser_with_and_without_momentum_is_two_and_a_base_name_is_enough(tmp_path):
    made = [
        run(tmp_path / name, {"sgd": {"lr": 0.1, "momentum": momentum}}, 8, name=f"x/{name}/seed-0")
        for name, momentum in (("plain", 0.0), ("heavy", 0.9))
    ]
    (one,) = studies(read_runs(made))
    assert one.optimisers == ("sgd momentum=0.0", "sgd momentum=0.9")
    with pytest.raises(LedgerError, match="reference: unknown name 'sgd'"):  # there are two
        list(Optimisers(reference="sgd").present(read_runs(made)))
    notes = [item.text for item in Optimisers().present(read_runs(made)) if isinstance(item, Note)]
    assert notes == [
        "Fewer than 3 learning rates: sgd momentum=0.0, sgd momentum=0.9; another rate may change the comparison."
    ]


def test_answers_on_other_terms_do_not_stand_beside_those_of_most_runs(tmp_path):
    made = []
    for name in ("sgd", "adam", "rmsprop"):
        path = run(tmp_path / name, {name: {"lr": 0.1}}, 8, name=f"x/{name}/seed-0")
        for images, gradient in ((1, 9.0), (4, 2.0)) if name != "rmsprop" else ((1, 9.0),):
            key = AnswerKey(
                question="lipschitz", settings={"norm": "l2"}, weights="last", weights_hash="0", seed=0,
                examples=images, images="0", block=1,
            )  # fmt: skip
            Store(path).write(key, [{"gradient": gradient}])
        made.append(path)
    (one,) = studies(read_runs(made))
    assert (one.measured, [each.measures for each in one.runs]) == ("norm l2, 1 image", [{"gradient": 9.0}] * 3)
    (two,) = studies(read_runs(made[:2]))
    assert (two.measured, [each.measures for each in two.runs]) == ("norm l2, 4 images", [{"gradient": 2.0}] * 2)


def test_studies_of_a_page_have_headings_and_say_where_no_rate_can_be_chosen(tmp_path):
    made = [
        run(tmp_path / f"{name}-{epochs}", {name: {"lr": 0.1}}, 8, name=f"x/{name}{epochs}/seed-0", epochs=epochs)
        for epochs in (7, 8)
        for name in ("sgd", "adam")
    ]
    for path in made:
        lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        (path / "metrics.jsonl").write_text("".join(json.dumps({**line, "validation": None}) + "\n" for line in lines))
    items = list(Optimisers().present(read_runs(made)))
    assert [item.text for item in items if isinstance(item, Heading)] == ["train.epochs=7", "train.epochs=8"]
    assert sum(isinstance(item, Note) and "No validation accuracy" in item.text for item in items) == 2
