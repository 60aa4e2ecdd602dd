"""The section on groups: what stands in its cells, and that pages without a hierarchy have none."""

import json
from dataclasses import replace

import polars as pl
import pytest

from holdfast.errors import LedgerError
from holdfast.hierarchy import hierarchy_of
from holdfast.report.certificates import Certificates, Refuted
from holdfast.report.group_attacks import attack_tables
from holdfast.report.groups import Groups, cost_table, group_table
from holdfast.report.page import render
from holdfast.report.runs import read_runs
from holdfast.results import Ledger
from holdfast.show.items import Choice, Details
from holdfast.show.numbers import SPACE
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run, pgd, proved

CLASSES = tuple("abcd")
HIERARCHY = hierarchy_of(CLASSES, {"group": {"x": ["a", "b"], "y": ["c", "d"]}})
RIGHT = [True] * 8
NEXT = [False, False, True, True, True, True, True, True]  # a is taken for b, b for c


def run(path, checks, hierarchy=HIERARCHY.facts(), classes=CLASSES, **options):  # noqa: B008  is not changed
    made = make_run(path, checks, classes=classes, **options)
    facts = json.loads((made / "run.json").read_text())
    if hierarchy is not None:
        facts["data"]["hierarchy"] = hierarchy
    (made / "run.json").write_text(json.dumps(facts))
    return made


def attack(eps, correct, **fields):
    made = pgd(eps, correct)
    return FakeCheck(made.name, made.method, made.params, made.correct, **{"to_the_end": True, **fields})


def table_of(path):
    (one,) = read_runs([path])
    return group_table(one, one.hierarchy)


def row(table, name):
    (cells,) = [cells for heading, cells in table.rows if heading == name]
    return dict(zip(table.columns, cells, strict=True))


def test_a_row_for_each_check_and_the_worst_case(tmp_path):
    table = table_of(run(tmp_path / "a", [FakeCheck("clean", correct=RIGHT), attack(0.1, NEXT)]))
    assert [name for name, _ in table.rows] == [
        "clean", "pgd linf eps=0.1 steps=20", "worst case, linf eps=0.1",
    ]  # fmt: skip
    assert table.totals == 1
    cells = row(table, "pgd linf eps=0.1 steps=20")
    assert cells["Class right"].value == 6 / 8
    assert cells["Group right"].value == 7 / 8
    mistakes = cells["Group right given a wrong class"]
    assert mistakes.value == 0.5
    assert f"chance 33.3{SPACE}%, 1 of 2" in mistakes.note
    assert cells["Expected severity"].value == pytest.approx(3 / 8)
    worst = row(table, "worst case, linf eps=0.1")
    assert worst["Group right"].value == 7 / 8
    assert worst["Expected severity"].value == pytest.approx(3 / 8)
    assert row(table, "clean")["Group right given a wrong class"].note == "no wrong class"


def test_attacks_that_stop_early_have_no_share_of_right_groups(tmp_path):
    table = table_of(run(tmp_path / "a", [FakeCheck("clean", correct=RIGHT), attack(0.1, NEXT, to_the_end=False)]))
    cell = row(table, "pgd linf eps=0.1 steps=20")["Group right given a wrong class"]
    assert (cell.text, cell.value, cell.note) == ("—", None, "stops once it succeeds")


def test_every_level_has_its_columns(tmp_path):
    levels = {"group": {"x": ["a"], "y": ["b"], "z": ["c", "d"]}, "area": {"v": ["a", "b"], "w": ["c", "d"]}}
    hierarchy = hierarchy_of(CLASSES, levels).facts()
    table = table_of(run(tmp_path / "a", [FakeCheck("clean", correct=NEXT)], hierarchy))
    assert table.columns == [
        "Class right", "Group right", "Area right", "Group right given a wrong class",
        "Area right given a wrong class", "Expected severity",
    ]  # fmt: skip
    cells = row(table, "clean")
    assert [cells[name].value for name in ("Group right", "Area right")] == [6 / 8, 7 / 8]
    assert cells["Expected severity"].value == pytest.approx((2 + 3) / 8)


def test_costs_alone_have_no_groups(tmp_path):
    hierarchy = hierarchy_of(CLASSES, {}, [[0, 9, 1, 1], [1, 0, 4, 1], [1, 1, 0, 1], [1, 1, 1, 0]]).facts()
    path = run(tmp_path / "a", [FakeCheck("clean", correct=NEXT)], hierarchy)
    assert table_of(path).columns == ["Class right", "Expected severity"]
    (one,) = read_runs([path])
    costs = cost_table(one, one.hierarchy)
    assert list(costs.columns) == ["0", "1", "4", "9"]
    assert [cell.value for cell in costs.rows[0][1]] == [6 / 8, 0, 1 / 8, 1 / 8]


def test_the_section_shows_tables_costs_curves_and_matrices(tmp_path):
    checks = [FakeCheck("clean", correct=RIGHT), attack(0.1, NEXT)]
    items = list(Groups().present(read_runs([run(tmp_path / "a", checks)])))
    chart = next(item for item in items if hasattr(item, "curves"))
    assert [curve.kind for curve in chart.curves] == ["pgd", "pgd, groups"]
    assert [curve.y for curve in chart.curves] == [(1.0, 6 / 8), (1.0, 7 / 8)]
    assert any(isinstance(item, Details) for item in items)
    (choice,) = [item for item in items if isinstance(item, Choice)]
    (matrix,) = choice.options[1][1]
    assert isinstance(matrix, Table)
    assert [[cell.text for cell in cells] for _, cells in matrix.rows] == [["3", "1"], ["0", "4"]]


def test_attacks_in_one_threat_stand_beside_the_one_with_the_most_gradients(tmp_path):
    other = FakeCheck("fgsm linf eps=0.1", "fgsm", {"threat": {"linf": {"eps": 0.1}}}, [*RIGHT[:5], *NEXT[:3]])
    checks = [FakeCheck("clean", correct=RIGHT), attack(0.1, NEXT, gradients=20), replace(other, gradients=1)]
    (one,) = read_runs([run(tmp_path / "a", checks)])
    (table,) = attack_tables(one, one.hierarchy.border())
    assert [name for name, _ in table.rows] == ["fgsm linf eps=0.1", "pgd linf eps=0.1 steps=20"]
    cells = row(table, "fgsm linf eps=0.1")  # examples 5 and 6 are broken, 5 crosses; PGD breaks 0 and 1, 1 crosses
    assert [cells[name].value for name in table.columns] == [7 / 8, 1, 1, 1, 1, 2.0]
    assert "most gradients, pgd linf eps=0.1" in table.caption


def test_attacks_in_different_threats_are_not_compared(tmp_path):
    checks = [attack(0.1, NEXT, gradients=20), attack(0.2, NEXT, gradients=20)]
    (one,) = read_runs([run(tmp_path / "a", checks)])
    assert attack_tables(one, one.hierarchy.border()) == []


def test_runs_without_a_hierarchy_have_no_such_section(tmp_path):
    paths = [run(tmp_path / "a", [FakeCheck("clean", correct=RIGHT)], None)]
    assert list(Groups().present(read_runs(paths))) == []
    assert "Groups of classes" not in render(read_runs(paths))


def test_runs_with_and_without_a_hierarchy_share_a_page(tmp_path):
    checks = [FakeCheck("clean", correct=RIGHT), attack(0.1, NEXT)]
    paths = [run(tmp_path / "a", checks), run(tmp_path / "b", checks, None, name="digits/plain/seed-0")]
    page = render(read_runs(paths))
    assert "Groups of classes" in page
    chart = next(item for item in Groups().present(read_runs(paths)) if hasattr(item, "curves"))
    assert [(curve.run, curve.kind) for curve in chart.curves] == [(0, "pgd"), (0, "pgd, groups")]


@pytest.mark.parametrize("stated", [{"levels": {"group": {"x": ["a"]}}}, {"levels": 3}, {}], ids=str)
def test_facts_that_are_no_hierarchy_are_refused_in_one_line(tmp_path, stated):
    paths = [run(tmp_path / "a", [FakeCheck("clean", correct=RIGHT)], stated)]
    with pytest.raises(LedgerError, match=r"data in run\.json: "):
        list(Groups().present(read_runs(paths)))


def proved_groups(path, radius):
    """A run whose third check certified the right group of every example within these radii."""
    near = attack(0.1, NEXT, distance=[0.05] * 8)  # a is taken for b, and b for c
    made = run(path, [FakeCheck("clean", correct=RIGHT, distance=[0.0] * 8), near, proved(radius, norm="linf")])
    ledger, groups = Ledger(made / "ledger"), pl.Series([0, 0, 1, 1] * 2, dtype=pl.Int32)
    part = ledger.part("best-2").with_columns(
        prediction=groups, method=pl.lit("group_certificate"), certifies=pl.lit("network, group")
    )
    ledger.append("best-2", part)
    return read_runs([made])


def test_certificates_of_groups_stand_beside_attacks_on_groups_and_only_other_groups_refute_them(tmp_path):
    sound = proved_groups(tmp_path / "a", [0.2, 0.01, *[0.2] * 6])
    assert list(Refuted().present(sound)) == []
    charts = [item.title for item in Groups().present(sound) if hasattr(item, "curves")]
    assert any("certified ≤ true ≤ attacked" in title for title in charts)
    assert not [item for item in Certificates().present(sound) if "attacked" in getattr(item, "title", "")]
    wrong = proved_groups(tmp_path / "b", [0.2] * 8)
    assert "1 certified examples" in next(iter(Refuted().present(wrong))).text
    assert "1 certified examples" in render(wrong)
