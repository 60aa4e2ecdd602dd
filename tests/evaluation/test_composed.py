"""Composed attacks: component after component, whatever the order, the budget or the moment of a kill."""

import re
import time
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import FGSM, PGD, AutoAttack, Square
from holdfast.corruptions import Clean, GaussianNoise
from holdfast.data import Split
from holdfast.evaluation import Subject, evaluations
from holdfast.evaluation.composed import PILOT, after, by_yield
from holdfast.recipe import EvaluateRecipe
from holdfast.results import Ledger, accuracies, yields
from holdfast.threat import L2, Linf
from holdfast.types import Threat
from tests import zoo

QUICK = AutoAttack(threat=Linf(0.08), steps=10, targets=3, queries=50)


@dataclass(frozen=True, kw_only=True)
class Breaks:
    """Moves the first pixel of the chosen labels by its budget, which the model below takes for another class."""

    threat: Threat
    labels: tuple[int, ...]
    patience: float = 0.0

    def __call__(self, model, x, y, *, target=None, rng=None):
        time.sleep(self.patience)
        z = x.clone()
        chosen = (y[:, None] == torch.tensor(self.labels)).any(1)
        z[chosen, 0, 0, 0] -= self.threat.eps
        model(z)
        return z


@dataclass(frozen=True, kw_only=True)
class Several:
    threat: Threat
    attacks: tuple[Breaks, ...]

    def components(self):
        return {f"part {n}": attack for n, attack in enumerate(self.attacks)}

    def __call__(self, model, x, y, *, target=None, rng=None):
        raise AssertionError("evaluation runs the components themselves")


def touchy(x):
    """Right about the label in the second pixel while the first is above one half."""
    label = (x[:, 0, 0, 1] * 10).round().long()
    wrong = (label + 1) % 6
    return torch.nn.functional.one_hot(torch.where(x[:, 0, 0, 0] > 0.5, label, wrong), 6).double() + 0 * x.sum()


def touchy_data(count):
    y = torch.arange(count) % 6
    x = torch.full((count, 1, 1, 2), 0.55)
    x[:, 0, 0, 1] = y / 10
    x[y == 5, 0, 0, 0] = 0.3  # wrong from the start
    return Split(x, y, torch.arange(count))


def several(*labels, patience=0.0):
    threat = Linf(0.1)
    return Several(threat=threat, attacks=tuple(Breaks(threat=threat, labels=s, patience=patience) for s in labels))


def run(check, split, model=touchy, ledger=None, pictures=None, seed=0, **how):
    subject = Subject(model, hash="h")
    return evaluations(subject, split, [check], how=EvaluateRecipe(**how), seed=seed, ledger=ledger, gallery=pictures)


def rows_of(blocks):
    return pl.concat([block.rows for block in blocks if block.rows is not None]).sort("example")


def timeless(frame):
    steps = pl.col("steps").list.eval(pl.struct(pl.element().struct.field("step", "broke", "queries")))
    return frame.drop("seconds").with_columns(steps)


def test_the_ledger_says_who_broke_each_example_and_what_it_cost():
    rows = rows_of(run(several((0, 1), (1, 2), (0, 3)), touchy_data(12), block=5))
    assert rows["example"].to_list() == list(range(12))
    by = ["part 0", "part 0", "part 1", "part 2", None, "clean"] * 2
    assert rows["by"].to_list() == by
    assert rows["correct"].to_list() == [name is None for name in by]
    # One query for the clean image, then two for every component: its own and the judge's.
    assert rows["queries"].to_list() == [3, 3, 5, 7, 7, 1] * 2
    assert rows["distance"].to_list() == pytest.approx([0.1, 0.1, 0.1, 0.1, 0, 0] * 2)
    assert set(rows["norm"]) == {"linf"}
    second = rows.row(2, named=True)["steps"]
    assert [(s["step"], s["broke"], s["queries"]) for s in second] == [
        ("clean", False, 1), ("part 0", False, 2), ("part 1", True, 2),
    ]  # fmt: skip
    table = yields(rows).select("step", "tried", "broke", "credited", "waiting")
    assert table.rows() == [
        ("clean", 12, 2, 2, 0),
        ("part 0", 10, 4, 4, 0),
        ("part 1", 6, 2, 2, 0),
        ("part 2", 4, 2, 2, 0),
    ]
    assert accuracies(rows)["unsettled"].to_list() == [0]


def test_nobody_is_asked_once_nothing_stands():
    rows = rows_of(run(several((0, 1, 2, 3, 4), (0,)), touchy_data(12)))
    assert yields(rows)["step"].to_list() == ["clean", "part 0"]
    assert rows["correct"].sum() == 0


def test_standing_examples_of_all_blocks_share_a_batch():
    sizes = []

    def watched(x):
        sizes.append(len(x))
        return touchy(x)

    list(run(several((0, 1, 2, 3), (0,)), touchy_data(24), watched, block=6, batch_size=6))
    # A try-out; 4 clean blocks of 6; 20 of the 24 in batches of 6, 6, 6, 2, each asked twice; the last 4 in one batch.
    assert sizes == [1, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 2, 2, 4, 4]


@pytest.mark.parametrize("stop", range(1, 8))
def test_a_kill_loses_at_most_one_batch_and_changes_nothing(tmp_path, stop):
    check, split = several((0, 1), (1, 2), (0, 3)), touchy_data(20)
    how = {"block": 8, "batch_size": 4, "gallery": 3}
    whole = rows_of(run(check, split, ledger=Ledger(tmp_path / "a"), pictures=tmp_path / "pictures a", **how))
    ledger, pictures = Ledger(tmp_path / "b"), tmp_path / "pictures b"
    calls = 0

    def killed(x):
        nonlocal calls
        calls += 1
        if calls > 3 * stop:
            raise KeyboardInterrupt
        return touchy(x)

    with pytest.raises(KeyboardInterrupt):
        list(run(check, split, killed, ledger=ledger, pictures=pictures, **how))
    list(run(check, split, ledger=ledger, pictures=pictures, **how))
    assert timeless(ledger.read()).equals(timeless(Ledger(tmp_path / "a").read()))
    assert timeless(whole).equals(timeless(Ledger(tmp_path / "a").read()))
    (one,), (two,) = (list((tmp_path / f"pictures {name}").glob("*.npz")) for name in "ab")
    for name in np.load(one).files:
        assert np.array_equal(np.load(one)[name], np.load(two)[name]), name
    again = list(run(check, split, ledger=ledger, **how))
    assert all(block.stored and block.rows is None for block in again)


def test_the_gallery_has_the_points_that_the_ledger_tells_of(tmp_path):
    split = touchy_data(12)
    list(run(several((0, 1), (1, 2), (0, 3)), split, pictures=tmp_path))
    (file,) = tmp_path.glob("*.npz")
    kept = np.load(file)
    moved = (np.abs(kept["z"] - kept["x"]).reshape(8, -1).max(1) > 0.05).tolist()
    assert moved == [True, True, True, True, False, False, True, True]
    assert kept["distance"] == pytest.approx([0.1] * 4 + [0, 0] + [0.1] * 2)
    assert kept["before"].tolist() == [0, 1, 2, 3, 4, 0, 0, 1]
    assert kept["after"].tolist() == [1, 2, 3, 4, 4, 0, 1, 2]


def test_time_that_runs_out_is_named_and_leaves_upper_bounds():
    check = several((0, 1), (1, 2), (0, 3), patience=0.2)
    blocks = list(run(check, touchy_data(12), budget=0.3))
    rows = rows_of(blocks)
    table = accuracies(rows).row(0, named=True)
    assert (table["correct"], table["unsettled"]) == (6, 6)
    (left,) = [block.not_run for block in blocks if block.not_run]
    label = table["check"]
    assert left == {f"{label}: part 1": 6, f"{label}: part 2": 6}
    waiting = yields(rows).select("step", "tried", "waiting").rows()
    assert waiting == [("clean", 12, 0), ("part 0", 10, 0), ("part 1", 0, 6), ("part 2", 0, 6)]


def test_what_a_budget_left_out_runs_on_repetition(tmp_path):
    check, split = several((0, 1), (1, 2), (0, 3), patience=0.2), touchy_data(12)
    ledger = Ledger(tmp_path)
    first = list(run(check, split, ledger=ledger, budget=0.3))
    assert any(block.not_run for block in first)
    second = list(run(check, split, ledger=ledger))
    assert not any(block.not_run for block in second)
    assert timeless(ledger.read()).equals(timeless(rows_of(run(check, split))))


def test_checks_of_one_piece_that_a_budget_leaves_out_are_named_with_their_examples():
    def slow(x):
        time.sleep(0.05)
        return touchy(x)

    checks = [Clean(), GaussianNoise(0.0)]
    how = EvaluateRecipe(block=4, batch_size=4, budget=0.12)
    blocks = list(evaluations(Subject(slow), touchy_data(12), checks, how=how))
    ran = sum(len(block.rows) for block in blocks if block.rows is not None)
    left = {}
    for block in blocks:
        for what, count in block.not_run.items():
            left[what] = left.get(what, 0) + count
    assert ran + sum(left.values()) == 24
    assert left["gaussian_noise sigma=0"] == 12
    assert blocks[-1].done == blocks[-1].total == 24


def test_progress_never_goes_back_and_ends_at_its_total():
    checks = [Clean(), several((0, 1), (1, 2), (0, 3)), replace(several((4,)), threat=L2(0.1))]
    blocks = list(evaluations(Subject(touchy), touchy_data(20), checks, how=EvaluateRecipe(block=8, batch_size=4)))
    done = [block.done for block in blocks]
    assert done == sorted(done)
    assert blocks[-1].done == blocks[-1].total == 20 + 3 * 20 + 20


def tried(**outcomes):
    return {"steps": [{"step": k, "broke": b, "queries": 1, "seconds": s} for k, (b, s) in outcomes.items()]}


def test_the_order_of_yield_counts_only_what_earlier_components_leave():
    rows = [
        tried(a=(True, 1.0), b=(True, 0.1), c=(False, 1.0)),
        tried(a=(True, 1.0), b=(True, 0.1), c=(False, 1.0)),
        tried(a=(True, 1.0), b=(False, 0.1), c=(False, 1.0)),
        tried(a=(False, 1.0), b=(False, 0.1), c=(True, 1.5)),
        tried(a=(False, 1.0), b=(False, 0.1), c=(True, 1.0)),
    ]
    # b: 2 in 0.5 s. Then a has 1 left in 5 s, c has 2 in 5.5 s; alone, a would have had 3.
    assert by_yield(["a", "b", "c"], rows) == ["b", "c", "a"]
    assert by_yield(["a", "b", "c"], rows[:1]) == ["b", "a", "c"]
    assert by_yield(["c", "a"], []) == ["c", "a"]


def test_the_order_of_yield_changes_who_is_credited_but_not_who_falls():
    split = touchy_data(3 * PILOT)
    threat = Linf(0.1)
    slow, quick = Breaks(threat=threat, labels=(0,), patience=0.05), Breaks(threat=threat, labels=(0, 1, 2))
    check = Several(threat=threat, attacks=(slow, quick, replace(quick, labels=(0, 3))))
    one, other = (rows_of(run(check, split, order=order)) for order in ("published", "yield"))
    assert one["correct"].equals(other["correct"])
    assert one["by"].to_list()[:2] == ["part 0", "part 1"]
    zeros = other.filter(pl.col("label") == 0)["by"].to_list()
    assert zeros[0] == "part 0"  # of the pilot, which all components are tried on in their published order
    assert set(zeros[PILOT:]) <= {"part 1", "part 2"}
    assert zeros[-1] != "part 0"


def test_the_order_of_yield_resumes_to_the_same_set(tmp_path):
    split, check, ledger = touchy_data(3 * PILOT), several((0,), (0, 1, 2), (0, 3)), Ledger(tmp_path)
    calls = 0

    def killed(x):
        nonlocal calls
        calls += 1
        if calls > 9:
            raise KeyboardInterrupt
        return touchy(x)

    with pytest.raises(KeyboardInterrupt):
        list(run(check, split, killed, ledger=ledger, order="yield", batch_size=16))
    list(run(check, split, ledger=ledger, order="yield", batch_size=16))
    assert ledger.read().sort("example")["correct"].equals(rows_of(run(check, split))["correct"])
    assert accuracies(ledger.read())["unsettled"].to_list() == [0]


def test_a_row_keeps_its_first_fall_else_its_highest_loss():
    row = {"correct": True, "loss": 0.2, "queries": 1, "seconds": 0.1, "by": None, "steps": [], "not_run": None}
    higher = after(row, {"correct": True, "loss": 0.5, "queries": 2, "seconds": 0.1, "not_run": None}, "a")
    lower = after(higher, {"correct": True, "loss": 0.3, "queries": 2, "seconds": 0.1, "not_run": None}, "b")
    fallen = after(lower, {"correct": False, "loss": 0.1, "queries": 2, "seconds": 0.1, "not_run": None}, "c")
    again = after(fallen, {"correct": False, "loss": 9.0, "queries": 2, "seconds": 0.1, "not_run": None}, "d")
    assert [r["loss"] for r in (higher, lower, fallen, again)] == [0.5, 0.5, 0.1, 0.1]
    assert [r["by"] for r in (higher, lower, fallen, again)] == [None, None, "c", "c"]
    assert again["queries"] == 9
    assert [s["step"] for s in again["steps"]] == ["a", "b", "c", "d"]


def test_evaluation_and_a_direct_call_break_the_same_examples():
    model, (x, y) = zoo.digits_mlp(), zoo.digits()
    x, y = x[:40], y[:40]
    results = holdfast.evaluate(model, x, y, QUICK, settings=EvaluateRecipe(batch_size=16))
    with torch.no_grad():
        z = QUICK(model, x, y, rng=holdfast.rng.Streams(0, "check", 40))
        held = model(z).argmax(1) == y
    assert results.rows["correct"].to_list() == held.tolist()
    assert 0 < held.sum() < 40
    assert str(results).count("autoattack linf eps=0.08") == 1
    assert set(results.yields["step"]) <= {"clean", "apgd-ce", "apgd-t", "fab-t", "square"}


def test_results_say_what_time_did_not_allow():
    model, (x, y) = zoo.digits_mlp(), zoo.digits()
    settings = EvaluateRecipe(budget=0.0)
    text = str(holdfast.evaluate(model, x[:20], y[:20], [Clean(), AutoAttack(threat=Linf(0.02))], settings=settings))
    assert re.search(r"^ clean +model +given +20$", text, re.MULTILINE)
    assert ": square " in text
    assert "at most" in text


@pytest.mark.parametrize("count", [12, 40])
def test_no_pass_has_more_rows_than_a_batch_however_many_examples_and_targets(count):
    model, (x, y) = zoo.digits_mlp(), zoo.digits()
    sizes = set()

    def watched(z):
        sizes.add(len(z))
        return model(z)

    holdfast.evaluate(watched, x[:count], y[:count], QUICK, settings=EvaluateRecipe(batch_size=8))
    assert max(sizes) == 8


@pytest.mark.parametrize(
    "attack", [PGD(threat=Linf(0.1), steps=3), FGSM(threat=L2(0.3)), Square(threat=Linf(0.1), queries=9)]
)
def test_seconds_are_shared_in_proportion_to_queries(attack):
    model, (x, y) = zoo.digits_mlp(), zoo.digits()
    rows = holdfast.evaluate(model, x[:30], y[:30], attack).rows
    share = rows["seconds"] / rows["queries"]
    assert share.min() == pytest.approx(share.max())


@pytest.mark.parametrize("sizes", [(2, 9), (9, 2), (0, 4)])
def test_a_gallery_may_change_its_size_between_two_calls(tmp_path, sizes):
    check, split, ledger = several((0, 1), (1, 2), (0, 3), patience=0.1), touchy_data(12), Ledger(tmp_path / "ledger")
    list(run(check, split, ledger=ledger, pictures=tmp_path, budget=0.15, gallery=sizes[0]))
    list(run(check, split, ledger=ledger, pictures=tmp_path, gallery=sizes[1]))
    assert accuracies(ledger.read())["unsettled"].to_list() == [0]
    (file,) = tmp_path.glob("*.npz")
    kept = np.load(file)
    assert len(kept["x"]) == len(kept["z"]) == len(kept["example"]) >= sizes[1]


def test_points_are_those_of_their_rows_also_where_losses_are_equal(tmp_path):
    model, x = zoo.linear(3), zoo.images(8, (1, 4, 4))
    sure = lambda z: (1e4 * model(z.double())).float()  # noqa: E731  losses of exactly zero
    y = sure(x).argmax(1)
    split = Split(x.float(), y, torch.arange(8))
    subject = Subject(sure, hash="h")
    list(evaluations(subject, split, [QUICK], ledger=Ledger(tmp_path), points=tmp_path))
    rows = Ledger(tmp_path).read().sort("example")
    (file,) = tmp_path.glob("*.npy")
    z = torch.from_numpy(np.load(file)).double()
    distance = (z - x.float().double()).abs().flatten(1).amax(1)
    assert rows["distance"].to_list() == pytest.approx(distance.tolist(), abs=1e-6)
