"""Verdicts on disk."""

import json

import polars as pl
import pytest

from holdfast.errors import LedgerError
from holdfast.trust import FLAGS, Verdict, displayed, failed, forget_others, read_verdicts, stored, write_verdicts
from tests.tampering import put


def verdict(flag="eps", level="pass", evidence="model", **fields):
    remedy = "mend it" if level in ("warn", "fail") else ""
    return Verdict(
        **{"flag": flag, "level": level, "finding": "seen", "remedy": remedy, "evidence": evidence, **fields}
    )


def kept(*verdicts, weights="best", digest="a" * 64, seed=3):
    return stored("run", weights, digest, seed, verdicts)


def test_what_is_written_is_read_back(tmp_path):
    given = kept(verdict(value=0.5, limit=0.1), verdict("batch", "fail"), verdict("batch", evidence="attacks"))
    write_verdicts(tmp_path, given)
    assert sorted(read_verdicts(tmp_path), key=str) == sorted(given, key=str)
    frame = pl.read_json(tmp_path / "verdicts" / "best-model.json")
    assert {"run", "weights", "weights_hash", "seed", "flag", "level", "value", "limit", "finding", "remedy"} <= set(
        frame.columns
    )


def test_the_same_weights_and_evidence_are_replaced_and_others_kept(tmp_path):
    write_verdicts(tmp_path, kept(verdict(), verdict("batch"), verdict(evidence="ledger")))
    write_verdicts(tmp_path, kept(verdict(), weights="last"))
    write_verdicts(tmp_path, kept(verdict("gradients", "fail")))
    there = [(one.weights, one.verdict.evidence, one.verdict.flag) for one in read_verdicts(tmp_path)]
    assert there == [("best", "ledger", "eps"), ("best", "model", "gradients"), ("last", "model", "eps")]


def test_verdicts_on_groups_stand_beside_those_on_classes(tmp_path):
    of_groups = stored("run", "best", "a" * 64, 3, [verdict("batch")], "animals & vehicles")
    write_verdicts(tmp_path, kept(verdict()) + of_groups)
    write_verdicts(tmp_path, kept(verdict("gradients")))
    assert sorted(read_verdicts(tmp_path), key=str) == sorted(kept(verdict("gradients")) + of_groups, key=str)
    assert "view" not in (tmp_path / "verdicts" / "best-model.json").read_text()
    assert (tmp_path / "verdicts" / "best-model-animals_vehicles.json").exists()


def test_verdicts_on_replaced_weights_are_forgotten(tmp_path):
    write_verdicts(tmp_path, kept(verdict()) + kept(verdict(), weights="last", digest="b" * 64))
    forget_others(tmp_path, {("best", "a" * 12), ("last", "c" * 12)})
    assert [one.weights for one in read_verdicts(tmp_path)] == ["best"]


def test_a_file_with_a_verdict_on_replaced_weights_is_forgotten_as_a_whole(tmp_path):
    write_verdicts(tmp_path, kept(verdict()) + kept(verdict("batch"), digest="b" * 64))
    forget_others(tmp_path, {("best", "b" * 12)})
    assert read_verdicts(tmp_path) == []


def test_a_file_reads_well_without_holdfast(tmp_path):
    write_verdicts(tmp_path, kept(verdict(finding="ε")))
    text = (tmp_path / "verdicts" / "best-model.json").read_text(encoding="utf-8")
    assert text.startswith('[\n {\n  "run": "run",\n')
    assert '  "finding": "ε",\n' in text
    assert text.endswith(" }\n]\n")


@pytest.mark.parametrize("text", ["", "[{}]", "{}[", "[3]", '[{"run": "r"}]', "3"])
def test_a_damaged_file_is_named(tmp_path, text):
    write_verdicts(tmp_path, kept(verdict()))
    put(tmp_path / "verdicts" / "best-model.json", text)
    with pytest.raises(LedgerError, match=r"best-model\.json: expected verdicts"):
        read_verdicts(tmp_path)


def test_an_unknown_level_in_a_file_is_refused(tmp_path):
    write_verdicts(tmp_path, kept(verdict()))
    file = tmp_path / "verdicts" / "best-model.json"
    put(file, json.dumps([{**json.loads(file.read_text())[0], "level": "fine"}]))
    with pytest.raises(LedgerError, match="expected 'pass', 'warn', 'fail' or 'not tested'"):
        read_verdicts(tmp_path)


def test_a_verdict_knows_its_flag_and_an_alarm_has_a_remedy():
    assert all(verdict(flag).condition == condition for flag, condition in FLAGS.items())
    for wrong in ({"flag": "colour"}, {"level": "fine"}, {"evidence": "rumour"}, {"level": "fail", "remedy": ""}):
        with pytest.raises(ValueError, match=r"expected|remedy"):
            verdict(**wrong)


def test_untested_conditions_are_silent_where_other_evidence_speaks():
    given = [verdict("transfer", "not tested"), verdict("eps", "not tested"), verdict("eps", "fail", "attacks")]
    assert [(each.flag, each.level) for each in displayed(given)] == [("eps", "fail"), ("transfer", "not tested")]
    assert failed(given) == [given[2]]
