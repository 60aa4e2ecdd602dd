"""Networks at chance level: which are marked, and which are not."""

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.trust import FLAGS, Verdict, at_chance, better_than_chance, displayed, from_rows, meaningless
from holdfast.trust.chance import FOREIGN, TRAINED, CleanAnswers, chance_warnings


def answers(right, count=10_000, classes=10, loss=None):
    """Balanced labels, of which the first answers of each class are right; wrong ones are the next class."""
    labels = [example % classes for example in range(count)]
    return CleanAnswers(labels, [label if n < right else (label + 1) % classes for n, label in enumerate(labels)], loss)


def rows(given, *, run="r", weights="best", method="clean", loss=1.0):
    frame = pl.DataFrame({"label": given.labels, "prediction": given.predictions})
    named = {"run": run, "weights": weights, "method": method, "loss": loss, "check": method, "params": "{}"}
    named |= {"norm": "l2"}
    columns = {name: pl.lit(value) for name, value in named.items()}
    return frame.with_row_index("example").with_columns(correct=pl.col("label") == pl.col("prediction"), **columns)


def test_the_largest_accuracy_at_chance_level_is_that_of_the_exact_binomial_test():
    for count, classes in ((60, 10), (100, 2), (500, 10), (2000, 100)):
        limit = int(stats.binom.isf(0.01, count, 1 / classes)) + 1  # least k with P(X >= k) < 1 %
        assert stats.binom.sf(limit - 1, count, 1 / classes) < 0.01 <= stats.binom.sf(limit - 2, count, 1 / classes)
        assert answers(limit, count, classes).level == "pass"
        assert answers(limit - 1, count, classes).level == "fail"


def test_a_network_that_is_only_slightly_right_is_not_marked():
    assert answers(1_080).level == "pass"  # 10.8 % of 10,000, where chance is 10 %
    assert answers(388, 1_000, loss=4.0).level == "pass"  # without its normalisation, sure of itself, often wrong


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 4))
def test_a_constant_answer_is_never_better_than_chance(labels, answer):
    given = CleanAnswers(labels, [answer] * len(labels))
    assert given.guessing == pytest.approx(labels.count(answer) / len(labels))
    assert given.level != "pass"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=80))
def test_names_of_classes_do_not_matter(pairs):
    labels, predictions = zip(*pairs, strict=True)
    renamed = [(7 - 2 * one) % 8 for one in labels], [(7 - 2 * one) % 8 for one in predictions]
    one, other = CleanAnswers(labels, predictions), CleanAnswers(*renamed)
    assert (one.level, one.correct, one.guessing) == (other.level, other.correct, other.guessing)


@pytest.mark.parametrize("count", range(1, 6))
def test_a_perfect_answer_is_never_marked_however_few_images_there_are(count):
    assert answers(count, count).level != "fail"
    assert answers(count, count, 2).level != "fail"


def test_few_images_mark_only_what_they_show():
    assert answers(0, 4).level == "not tested"
    assert answers(0, 10).level == "fail"
    assert answers(3, 10).level == "not tested"  # 30 %, where 10 % is chance, may be either
    assert answers(5, 10, 2).level == "not tested"
    assert answers(30, 60, 2).level == "fail"
    assert "too few images" in answers(3, 10).finding


def test_images_of_one_class_show_nothing():
    assert CleanAnswers([3] * 50, [3] * 50).level == "not tested"
    assert CleanAnswers([3] * 50, [1] * 45 + [3] * 5).level == "not tested"


def test_where_classes_are_unequal_a_constant_answer_is_marked_and_a_useful_one_of_the_same_accuracy_is_not():
    labels = [0] * 950 + [1] * 50
    useful = [0] * 855 + [1] * 95 + [1] * 45 + [0] * 5  # nine of ten of either class: 90 % right, less than 95 %
    assert CleanAnswers(labels, [0] * 1000).level == "fail"
    assert CleanAnswers(labels, useful).level == "pass"
    shuffled = useful.copy()
    random.Random(0).shuffle(shuffled)
    assert CleanAnswers(labels, shuffled).level == "fail"


def test_a_constant_loss_marks_unless_the_answers_show_more():
    constant = math.log(10)
    assert answers(1_300, loss=constant).level == "fail"
    assert answers(1_300, loss=0.99 * constant).level == "fail"
    assert answers(1_300, loss=0.97 * constant).level == "pass"
    assert answers(1_300, loss=5.0).level == "pass"
    assert answers(9_500, loss=0.99 * constant).level == "pass"  # small logits of a right network
    assert answers(1_300, loss=math.nan).level == "pass"
    # By hand: KL(0.20 || 0.10) = 0.0444 and KL(0.21 || 0.10) = 0.0528 nats, against 2 % of ln 10 = 0.0461.
    assert answers(2_000, loss=constant).level == "fail"
    assert answers(2_100, loss=constant).level == "pass"
    finding = answers(1_300, loss=constant).finding
    assert finding.endswith("guessing gives 10.0 %; the loss (2.303) is that of a constant answer (2.303)")


def test_the_verdict_has_the_numbers_and_the_remedy_of_its_network():
    dead = CleanAnswers([0, 1] * 30, [0] * 60)
    verdict = better_than_chance(rows(dead))
    assert (verdict.flag, verdict.level, verdict.evidence) == ("chance", "fail", "ledger")
    assert (verdict.value, verdict.limit) == (0.5, 0.5)
    assert verdict.finding == (
        "30 of 60 clean images are right (50.0 %), guessing gives 50.0 %; 60 of 60 images get the same answer"
    )
    assert verdict.remedy == TRAINED
    assert TRAINED.index("learning rate") < TRAINED.index("; in adversarial training") < TRAINED.index("threat_warmup")
    assert better_than_chance(rows(dead, weights="given")).remedy == FOREIGN
    assert FOREIGN.index("--mean") < FOREIGN.index("--std") < FOREIGN.index("--weights")
    assert better_than_chance(rows(answers(50, 60))).remedy == ""


def test_the_loss_of_the_ledger_counts():
    constant = math.log(10)
    assert better_than_chance(rows(answers(1_300), loss=constant)).level == "fail"
    assert better_than_chance(rows(answers(1_300), loss=0.5)).level == "pass"


def test_one_clean_image_decides_nothing():
    assert better_than_chance(rows(CleanAnswers([3], [3]))).level == "not tested"


def test_without_clean_images_nothing_is_decided():
    dead = CleanAnswers([0, 1] * 30, [0] * 60)
    assert better_than_chance(rows(dead, method="pgd")).level == "not tested"
    assert better_than_chance(rows(dead).drop("loss")).level == "not tested"
    assert better_than_chance(rows(dead).clear()).level == "not tested"
    assert at_chance(rows(dead, method="pgd")) == {}


def test_every_network_of_a_ledger_is_judged_by_itself():
    dead, alive = CleanAnswers([0, 1] * 30, [0] * 60), answers(58, 60)
    frame = pl.concat([rows(dead, run="a"), rows(alive, run="a", weights="last"), rows(dead, run="b", weights="given")])
    assert list(at_chance(frame)) == [("a", "best"), ("b", "given")]
    first, second = chance_warnings(frame)
    assert first.startswith("a (best weights) is at chance level: 30 of 60 clean images")
    assert second.endswith(FOREIGN)


def test_the_other_checks_of_a_network_at_chance_level_are_not_interpreted():
    dead = CleanAnswers([0, 1] * 30, [0] * 60)
    found = from_rows(rows(dead))
    assert found[0].level == "fail"
    assert found[1:] == [meaningless(flag, "ledger") for flag in ("eps", "convergence", "black-box")]
    stored = [
        Verdict(flag="gradients", level="fail", finding="zero", remedy="use BPDA", evidence="model"),
        Verdict(flag="input-range", level="fail", finding="255", remedy="divide", evidence="model"),
    ]
    shown = {verdict.flag: verdict for verdict in displayed([*stored, *found])}
    assert (shown["gradients"].level, shown["input-range"].level) == ("not tested", "fail")
    assert "BPDA" not in shown["gradients"].remedy
    alive = {verdict.flag: verdict.level for verdict in displayed([*stored, *from_rows(rows(answers(58, 60)))])}
    assert alive["gradients"] == "fail"


def test_chance_level_is_the_first_condition_and_each_untested_one_has_one_line():
    assert next(iter(FLAGS)) == "chance"
    twice = [
        Verdict(flag="eps", level="not tested", finding=evidence, evidence=evidence)
        for evidence in ("attacks", "ledger")
    ]
    assert displayed(twice) == twice[:1]
