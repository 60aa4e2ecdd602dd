"""Workers: trials in runs of their own, resumed, pruned, failed and counted."""

import contextlib
import json
import sqlite3

import pytest

from holdfast.errors import LedgerError, RecipeError
from holdfast.recipe import load_recipes
from holdfast.results import Ledger
from holdfast.runs import Run
from holdfast.search import Busy, open_study, work
from holdfast.search import study as storing
from holdfast.search.claims import Claims
from tests.search.tiny import findings, outcome, plan, search


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search that nobody interrupted, with pruning."""
    out = tmp_path_factory.mktemp("whole")
    of = plan("search.startup=2", "search.pruner.startup=1", "search.trials=5")
    return of, search(of, out), findings(of, out), out


def test_trials_are_runs_with_recipes_of_their_own(whole):
    _, ended, found, out = whole
    assert [one.trial for one in ended] == [0, 1, 2, 3, 4]
    assert {one.state for one in ended} == {"complete", "pruned"}
    for one in found.trials:
        run = Run(out / f"tiny/trials/{one.number:04d}")
        (read,) = load_recipes(run.path / "recipe.yaml")
        assert read.train.optimizer.lr == one.drawn["train.optimizer.sgd.lr"]
        assert run.info()["search"]["values"] == dict(one.drawn)
        lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
        assert len(lines) == one.epochs
        assert one.seconds == pytest.approx(sum(line["seconds"] for line in lines))
        assert one.steps == tuple((line["epoch"], line["validation"]["accuracy"]) for line in lines)
        if one.state == "complete":
            kept = [line for line in lines if line["best"]][-1]
            assert one.values == (kept["validation"]["accuracy"],)
            assert one.scores == kept["validation"]
            assert one.epochs == one.planned == 3
        else:
            assert one.epochs < one.planned


def test_the_same_seed_gives_the_same_trials(whole, tmp_path):
    of, _, found, _ = whole
    search(of, tmp_path)
    assert outcome(findings(of, tmp_path)) == outcome(found)


def test_left_off_at_any_record_it_goes_on_to_the_same_trials(whole, tmp_path):
    of, _, found, _ = whole
    for records in (1, 7, 16, 2):  # within the first trial, and later ones
        search(of, tmp_path, records=records)
    assert len(findings(of, tmp_path).trials) < 5
    search(of, tmp_path)
    assert outcome(findings(of, tmp_path)) == outcome(found)


def test_what_the_study_was_not_told_before_a_kill_is_told_later(whole, tmp_path):
    of, _, found, _ = whole
    search(of, tmp_path, records=4)  # one epoch and a step
    journal = tmp_path / "tiny" / storing.JOURNAL
    lines = journal.read_text().splitlines(keepends=True)
    assert '"step":0' in lines[-1]
    journal.write_text("".join(lines[:-1]) + lines[-1][:9])  # half of the line that tells of the epoch
    search(of, tmp_path)
    assert outcome(findings(of, tmp_path)) == outcome(found)


def test_a_finished_search_goes_on_when_more_trials_are_asked_for(whole, tmp_path):
    of, _, found, _ = whole
    search(plan("search.startup=2", "search.pruner.startup=1", "search.trials=2"), tmp_path)
    assert search(plan("search.startup=2", "search.pruner.startup=1", "search.trials=2"), tmp_path) == []
    search(of, tmp_path)
    assert outcome(findings(of, tmp_path)) == outcome(found)


def test_two_workers_share_the_trials_and_one_takes_up_what_the_other_leaves(tmp_path):
    of = plan("search.sampler=random", "search.pruner=none", "search.trials=3", "train.epochs=1")
    first, second = work(of, tmp_path), work(of, tmp_path)
    assert [next(first).trial, next(second).trial, next(first).trial] == [0, 1, 0]
    seen = []
    for record in second:
        seen.append(record)
        if record.trial is None:  # nothing is left but what the first worker holds
            first.close()
    assert [one.trial for one in seen if not isinstance(one, Busy)] == [1, 2, 0]
    assert Busy(None, 0, 0, "waiting for 1 trials of other workers") in seen
    assert findings(of, tmp_path).count("complete") == 3


def test_a_trial_that_diverges_fails_with_its_line_and_the_search_goes_on(tmp_path):
    of = plan(
        "search.sampler=grid",
        "search.pruner=none",
        "train.optimizer.sgd.momentum=0.9",
        "train.optimizer.sgd.lr={search: choice, values: [0.1, 1.0e+30]}",
    )
    search(of, tmp_path)
    found = findings(of, tmp_path)
    states = {one.drawn["train.optimizer.sgd.lr"]: one for one in found.trials}
    assert states["0.1"].state == "complete"
    assert states["1e+30"].state == "failed"
    assert "expected a finite loss" in states["1e+30"].error
    assert search(of, tmp_path) == []  # it counts


def test_a_score_that_does_not_exist_stops_the_search_at_once(tmp_path):
    with pytest.raises(RecipeError, match=r"search\.objective: score: unknown name 'acuracy'.*Did you mean 'accuracy'"):
        search(plan("search.objective=acuracy"), tmp_path)


def test_another_recipe_does_not_mix_with_the_trials_there(whole):
    _, _, _, out = whole
    with pytest.raises(RecipeError, match=r"holds a search of another recipe \(differs in train\.batch_size\)"):
        search(plan("train.batch_size=6"), out)


def test_objectives_measured_by_checks_on_held_out_images(tmp_path):
    of = plan(
        "search.trials=2",
        "search.objective=[{checks: [clean], score: error}, {checks: [{gaussian_noise: 0.2}], split: test}, accuracy]",
    )
    search(of, tmp_path)
    found = findings(of, tmp_path)
    for one in found.trials:
        error, noisy, accuracy = one.values
        run = Run(tmp_path / f"tiny/trials/{one.number:04d}")
        rows = Ledger(run.path / "validation").read()
        assert len(rows) == 24  # 0.4 of 60
        assert error == pytest.approx(1 - accuracy)  # the same weights on the same images as training judged
        assert set(rows["check"]) == {"clean"}
        assert noisy == run.ledger.read()["correct"].mean()
        assert len(run.ledger.read()) > 24
        assert one.steps == ()  # several objectives: nothing is pruned
    assert len(found.importance) == 3


def test_pruning_may_look_at_a_score_that_is_better_in_the_other_direction(tmp_path):
    of = plan("search.trials=1", "search.objective=accuracy", "search.pruner={method: median, score: loss}")
    search(of, tmp_path)
    raw = open_study(of, tmp_path / "tiny").trials[0].intermediate_values
    (one,) = findings(of, tmp_path).trials
    assert all(value < 0 for value in raw.values())
    assert one.steps == tuple((step + 1, -value) for step, value in raw.items())


def test_a_trial_that_has_reached_its_last_epoch_is_never_given_up(tmp_path):
    of = plan("train.epochs=1", "search.pruner.startup=1")
    assert {one.state for one in search(of, tmp_path)} == {"complete"}
    first, *others = [one.values[0] for one in findings(of, tmp_path).trials]
    assert min(others) < first  # worse than the median so far, so that the pruner would have


def test_a_damaged_journal_is_one_line(tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / storing.JOURNAL).write_text("no json\nat all\n")
    with pytest.raises(LedgerError, match="expected a journal of a search"):
        open_study(plan(), tmp_path / "tiny")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("plan", True, "expected a journal of a search"),
        ("plan", "{", "expected a journal of a search"),
        ("plan", "[" * 5000, "expected a journal of a search"),
        ("seconds", "long", "trial 0: expected what holdfast records of a trial"),
        ("epochs", [1], "trial 0: expected what holdfast records of a trial"),
    ],
)
def test_a_journal_that_says_something_else_is_one_line(whole, tmp_path, name, value, message):
    of, _, _, out = whole
    journal = out / of.name / storing.JOURNAL
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        if name in line.get("user_attr", {}):
            line["user_attr"][name] = value
    (tmp_path / of.name).mkdir()
    (tmp_path / of.name / storing.JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(LedgerError, match=message) as caught:
        findings(of, tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_an_address_that_is_none_is_one_line(tmp_path):
    with pytest.raises(RecipeError, match="--storage: expected the address of a database"):
        open_study(plan(), tmp_path, "nonsense")


def test_in_a_database_the_trial_of_a_lost_machine_is_tried_again(tmp_path):
    of = plan("search.sampler=random", "search.pruner=none", "search.trials=2", "train.epochs=1")
    address = f"sqlite:///{tmp_path}/search.db"
    study = open_study(of, tmp_path / "elsewhere", address)
    with pytest.warns(UserWarning, match="Heartbeat"):
        lost = study.ask({path: one.distribution() for path, one in of.ranges.items()})
    lost.storage.record_heartbeat(lost._trial_id)  # and then nothing more
    assert [one.trial for one in search(of, tmp_path, storage=address)] == [1]  # the other one may still be alive
    with contextlib.closing(sqlite3.connect(tmp_path / "search.db")) as database, database:
        database.execute("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-1 hour')")
    assert [one.trial for one in search(of, tmp_path, storage=address)] == [2]
    found = findings(of, tmp_path, address)
    assert [one.state for one in found.trials] == ["lost", "complete", "complete"]
    assert found.trials[2].drawn == found.trials[0].drawn


def test_in_a_database_what_stopped_here_goes_on_here(tmp_path):
    of = plan("search.sampler=random", "search.pruner=none", "search.trials=1")
    address = f"sqlite:///{tmp_path}/search.db"
    search(of, tmp_path, records=4, storage=address)
    assert Claims(tmp_path / "tiny" / "locks").knows(0)
    assert [one.trial for one in search(of, tmp_path, storage=address)] == [0]
    assert [one.state for one in findings(of, tmp_path, address).trials] == ["complete"]


def test_a_range_that_does_not_fit_to_the_classes_is_refused_before_the_first_trial(tmp_path):
    of = plan("data.augment=[{spider: {tau: 1, xi: {search: uniform, low: 0.5, high: 0.99}}}]")
    with pytest.raises(RecipeError, match=r"spider\.xi: expected at most"):
        search(of, tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_values_that_do_not_go_together_fail_one_trial_and_the_search_goes_on(tmp_path):
    law = "radius: {search: choice, values: [uniform, half_normal]}"
    shape = "smoothing: {search: choice, values: [exponential, geometric]}"
    fixed = ("train.optimizer.sgd.lr=0.1", "train.optimizer.sgd.momentum=0.9", "train.epochs=1")
    of = plan(f"data.augment=[{{spider: {{tau: 1, {law}, {shape}}}}}]", "search.sampler=grid", *fixed)
    ended = search(of, tmp_path)
    assert sorted(one.state for one in ended) == ["complete", "complete", "complete", "failed"]
    assert any("geometric needs lengths up to tau" in str(one.error) for one in ended)
    assert search(of, tmp_path) == []


def test_augmentations_of_an_objective_are_looked_at_before_the_first_trial_too(tmp_path):
    views = "[augmix, {spider: {tau: 1, xi: {search: uniform, low: 0.5, high: 0.99}}}]"
    of = plan(f"train.objective={{jensen_shannon: {{augment: {views}}}}}")
    with pytest.raises(RecipeError, match=r"spider\.xi: expected at most"):
        search(of, tmp_path)
