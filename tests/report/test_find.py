"""Runs are listed in the order of their recipe."""

import json

from holdfast.report.find import failed_runs, find_runs


def facts(path, **recorded):
    (path / "ledger").mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(recorded))


def test_runs_come_in_the_order_of_their_recipe_and_others_by_name(tmp_path):
    facts(tmp_path / "b/standard/seed-0", recipe="b", position=0)
    facts(tmp_path / "b/at/seed-0", recipe="b", position=1)
    facts(tmp_path / "b/old/seed-0", recipe="b")
    facts(tmp_path / "a")
    (tmp_path / "c/ledger").mkdir(parents=True)
    found = [str(path.relative_to(tmp_path)) for path in find_runs([tmp_path])]
    assert found == ["a", "b/standard/seed-0", "b/at/seed-0", "b/old/seed-0", "c"]


def test_facts_that_cannot_be_read_do_not_keep_others_from_being_listed(tmp_path):
    facts(tmp_path / "a/seed-1", recipe="a", position="first", failed="no memory")
    (tmp_path / "a/seed-0/ledger").mkdir(parents=True)
    (tmp_path / "a/seed-0/run.json").write_text("{")
    assert sorted(path.name for path in find_runs([tmp_path])) == ["seed-0", "seed-1"]
    assert list(failed_runs([tmp_path]).values()) == ["no memory"]
