"""The section that says whether the numbers mean something."""

import pytest

from holdfast.report import read_run, read_runs, render
from holdfast.report.trust import Trust
from holdfast.show.items import Details
from holdfast.trust import FLAGS, Verdict, stored, write_verdicts
from tests.report.factory import FakeCheck, make_run, pgd

HELD = [index % 2 == 0 for index in range(60)]


def verdict(flag, level, evidence="model"):
    remedy = f"mend {flag}" if level in ("warn", "fail") else ""
    return Verdict(flag=flag, level=level, finding=f"saw {flag} & more", remedy=remedy, evidence=evidence)


def a_run(path, checks, *verdicts, digest="ab12"):
    make_run(path, checks)
    write_verdicts(path, stored("any", "best", digest, 0, verdicts))
    return read_run(path)


def shown(run):
    (details,) = (item for item in Trust().present([run]) if isinstance(item, Details))
    return details


def sentence(run):
    return shown(run).summary.removeprefix(f"{run.label}: ")


def cells(run):
    return {name: [row[0].note, *(cell.text for cell in row)] for name, row in shown(run).items[0].rows}


def test_every_verdict_is_a_line_with_its_word_and_its_remedy(tmp_path):
    given = [verdict("gradients", "fail"), verdict("batch", "pass"), verdict("transfer", "warn", "attacks")]
    run = a_run(tmp_path / "r", [pgd(0.1, HELD)], *given)
    found = cells(run)
    assert found[FLAGS["gradients"]] == ["without an attack", "FAILED", "saw gradients & more", "mend gradients"]
    assert found[FLAGS["batch"]][1::2] == ["passed", "nothing"]
    assert found[FLAGS["transfer"]][:2] == ["in the attacks of an audit", "warning"]
    assert found[FLAGS["eps"]][1] == "not tested"
    assert sentence(run) == f"No: 1 condition failed ({FLAGS['gradients']})."
    page = render([run])
    assert "Can these numbers be trusted?" in page
    assert "saw gradients &amp; more" in page
    assert "mend gradients" in page
    assert page.index("<details open><summary>digits/noisy/seed-0: No: 1 condition failed") > 0


def test_the_ledger_speaks_for_itself_also_where_nobody_stored_a_verdict(tmp_path):
    larger = [True] * 60
    make_run(tmp_path / "r", [pgd(0.1, HELD), pgd(0.2, larger)])
    found = cells(read_run(tmp_path / "r"))
    assert found[FLAGS["eps"]][:2] == ["in the checks here", "FAILED"]


def test_what_the_ledger_says_now_replaces_what_was_stored(tmp_path):
    checks = [pgd(0.1, [True] * 60), pgd(0.2, HELD)]
    run = a_run(tmp_path / "r", checks, verdict("eps", "fail", "ledger"))
    assert [row[0].text for name, row in shown(run).items[0].rows if name == FLAGS["eps"]] == ["passed"]


def test_verdicts_on_other_weights_are_not_shown(tmp_path):
    run = a_run(tmp_path / "r", [pgd(0.1, HELD)], verdict("gradients", "fail"), digest="cd34")
    assert FLAGS["gradients"] not in cells(run)
    assert sentence(run) == "Unknown: no condition was tested."


@pytest.mark.parametrize(("level", "said"), [("pass", "2 tests, 0 warnings"), ("warn", "2 tests, 1 warning")])
def test_passing_says_how_much_was_tested(tmp_path, level, said):
    run = a_run(tmp_path / "r", [FakeCheck("clean", correct=[True] * 60)], verdict("gradients", level))
    assert sentence(run) == f"Nothing failed in {said}; 3 conditions not tested."


def test_several_runs_have_a_table_each_and_only_doubtful_ones_are_open(tmp_path):
    a_run(tmp_path / "a", [pgd(0.1, HELD)], verdict("gradients", "fail"))
    a_run(tmp_path / "b", [pgd(0.1, HELD)], verdict("gradients", "pass"))
    page = render(read_runs([tmp_path / "a", tmp_path / "b"]))
    part = page[page.index('id="trust"') : page.index('id="accuracy"')]
    assert part.count("<details open>") == 1
    assert part.count("<details") == 2
