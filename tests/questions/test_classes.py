"""What the question of classes presents, from answers whose numbers are known, and where its distances come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.questions.answers import Answer, Answers, Store
from holdfast.questions.classes import Classes
from holdfast.questions.classes.theorems import conclusions
from holdfast.questions.question import Context
from holdfast.report import write_report
from holdfast.show.chart import Chart
from holdfast.show.items import Details
from holdfast.show.table import Table
from tests.questions.test_presentations import key, of, texts
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

NOTHING = [{"name": name, "premise": False, "conclusion": False} for name in ("5.1", "5.2.1", "5.2.2")]
EVERYTHING = [{"name": name, "premise": True, "conclusion": True} for name in ("5.1", "5.2.1", "5.2.2")]
SETTINGS = {"delta_v": 0.5, "delta_d": 5.0}
RECORD: dict[str, Any] = {
    "classes": [0, 1], "count": [3, 5], "dispersion": [4.0, 12.0], "margin": [-1.5, 2.0],
    "mean_margin": [1.0, 5.0], "radius": [2.0, 7.0], "within": [3, 1], "centroid_margin": [1.0, 2.5],
    "centroid_norm": [3.0, 4.0], "centroid_distance": [[0.0, 6.5], [6.5, 0.0]], "nearest_other": [0.5, 0.5],
    "largest_norm": 10.0, "propositions": NOTHING,
    "measured": {"delta_v": 7.0, "delta_d": 1.0, "propositions": [EVERYTHING[0], *NOTHING[1:]]},
    "mapping": [40.0, 31.0], "mapping_least": 1.5, "tau": 0.2, "tau_low": 0.01, "apart": True, "divergence": 0.0,
    "divergence_low": 0.0,
}  # fmt: skip
ANSWER = Answer(key("classes", SETTINGS, 8), (RECORD,), run="a", classes=("cat", "dog"))
ALONE = {
    **RECORD, "classes": [1], "dispersion": [3.0], "margin": [None], "mean_margin": [None], "count": [5],
    "centroid_distance": [[0.0]], "within": [1],
}  # fmt: skip


def presented(*answers: Answer) -> list[Any]:
    return list(Classes.present(Answers(answers, tuple(answer.run for answer in answers))))


def test_tables_state_what_was_measured() -> None:
    items = presented(ANSWER)
    overview, classes = of(Table, items)
    assert texts(overview) == {"a (best)": ["12", "-1.5", "3.5", "0.4375", "50.0\u00a0%", "6.5", "8"]}
    assert texts(classes) == {
        "cat": ["3", "4", "-1.5", "1", "100.0\u00a0%", "6.5"], "dog": ["5", "12", "2", "5", "20.0\u00a0%", "6.5"]
    }  # fmt: skip
    assert [[cell.heat for cell in cells[1:4]] for _, cells in classes.rows] == [[0.0] * 3, [1.0] * 3]
    assert [cell.good for cell in classes.rows[0][1][1:4]] == [False, True, True]
    (details,) = of(Details, items)
    (centroids,) = details.items
    assert texts(centroids) == {"cat": ["", "6.5"], "dog": ["6.5", ""]}


def test_charts_show_width_and_margins_of_every_class() -> None:
    width, margin = of(Chart, presented(ANSWER))
    assert [curve.y for curve in width.curves] == [(4.0, 12.0)]
    assert {curve.kind: curve.y for curve in margin.curves} == {
        "mean margin, best weights": (1.0, 5.0), "smallest margin, best weights": (-1.5, 2.0),
    }  # fmt: skip
    assert (width.ticks, margin.ticks) == (("cat", "dog"),) * 2


def test_several_networks_share_colours_and_charts() -> None:
    items = presented(ANSWER, replace(ANSWER, records=(ALONE,), run="b", place=1))
    overview, first, second = of(Table, items)
    assert texts(overview)["b (best)"][1:4] == ["none", "none", "none"]
    assert texts(second) == {"dog": ["5", "3", "none", "none", "20.0\u00a0%", "none"]}
    assert [cells[1].heat for _, cells in first.rows] == [1 / 9, 1.0]  # from 3 to 12 over both networks
    assert second.rows[0][1][1].heat == 0.0
    width, margin = of(Chart, items)
    assert [(curve.run, curve.x, curve.y) for curve in width.curves] == [
        (0, (0.0, 1.0), (4.0, 12.0)),
        (1, (1.0,), (3.0,)),
    ]
    assert [curve.run for curve in margin.curves] == [0, 0]  # a class alone has no margin
    (details,) = of(Details, items)
    assert len(details.items) == 1


def test_many_classes_have_no_table_of_all_pairs() -> None:
    count = 21
    many = {
        **RECORD, "classes": list(range(count)), "centroid_distance": [[1.0] * count] * count,
        **{name: [1.0] * count for name in ("count", "dispersion", "margin", "mean_margin", "within")},
    }  # fmt: skip
    items = presented(replace(ANSWER, records=(many,)))
    assert not of(Details, items)
    assert of(Chart, items)[0].ticks == ()


def test_the_page_has_the_section_only_where_the_question_was_asked(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    assert "Classes in feature space" not in write_report([path], tmp_path / "none.html").read_text()
    Store(path).write(ANSWER.key, ANSWER.records)
    page = read(write_report([path], tmp_path / "asked.html"))
    assert {"Classes in feature space", "Classes of a (best)", "Distances of the centroids, a (best)"} <= {*page.tables}
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len({*identifiers})  # "Classes" is also a section on accuracies


def sentences(**changed: Any) -> str:
    return "\n".join(conclusions(SETTINGS, {**RECORD, **changed}))


def test_conclusions_in_words() -> None:
    text = sentences()
    assert "given distances, δv = 0.5 and δd = 5, no proposition applies: an example is 7 from its centroid" in text
    assert "measured distances, δv = 7 and δd = 1, proposition 5.1 applies and holds" in text
    assert "Theorem 6.2 is vacuous: its bound for a ball of radius 2 δv = 1 is 31 in the best class" in text
    assert "above 1.5 for any radius and any number of images" in text
    assert "Theorem 6.3 does not apply: in the worst class 20.0 %" in text


def test_conclusions_about_better_features() -> None:
    text = sentences(
        propositions=EVERYTHING, mapping=[0.4], mapping_least=0.1, tau=0.9, tau_low=0.8, divergence=0.32,
        divergence_low=0.18,
    )  # fmt: skip
    assert text.count("applies and holds") == 4
    assert "bounds the share outside a ball of radius 2 δv = 1 by 0.4" in text
    assert (
        "at least 0.32 nats (Jensen-Shannon) in every layer; with 95 % confidence in that share (80.0 %) by 0.18"
        in text
    )


def test_a_contradiction_and_other_reasons_are_stated() -> None:
    broken = [{"name": "5.1", "premise": True, "conclusion": False}]
    assert "is violated, which should be impossible (please report it): " in sentences(propositions=broken)
    assert "around two centroids intersect" in sentences(apart=False, tau=0.9)
    near = sentences(radius=[0.1, 0.2])
    assert "no proposition applies: a centroid is too near to a hyperplane" in near
    assert "More images or larger balls could change that" in sentences(mapping_least=0.5)
    none = {"delta_v": 0.2, "delta_d": None, "propositions": NOTHING}
    text = sentences(measured=none, radius=[0.1, 0.2])
    assert "no hyperplane, no proposition applies: there is no hyperplane" in text


def context(recipe: dict[str, Any]) -> Context:
    empty: Any = None
    return Context(
        model=empty,
        weights_hash="",
        recipe=recipe,
        checks=(),
        test=empty,
        train=None,
        classes=(),
        seed=0,
        load=empty,
        describe=empty,
    )


@pytest.mark.parametrize(
    ("question", "recipe", "expected"),
    [
        (Classes(), {}, (0.5, 5.0)),
        (Classes(), {"train": None}, (0.5, 5.0)),
        (Classes(), {"train": {"objective": "standard"}}, (0.5, 5.0)),
        (Classes(), {"train": {"objective": {"discriminative": None}}}, (0.5, 5.0)),
        (Classes(), {"train": {"objective": {"discriminative": {"delta_v": 0.7, "alpha": 1}}}}, (0.7, 5.0)),
        (Classes(delta_d=0.0), {"train": {"objective": {"discriminative": {"delta_d": 2}}}}, (0.5, 0.0)),
    ],
)
def test_distances_are_the_own_the_recipes_or_the_papers(question, recipe, expected) -> None:
    prepared = question.prepared(context(recipe))
    assert prepared.settings == {"delta_v": expected[0], "delta_d": expected[1]}
    assert prepared.measurement == Classes(delta_v=expected[0], delta_d=expected[1])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delta_v": 0.0}, "delta_v: expected a positive number, got 0"),
        ({"delta_v": float("nan")}, "delta_v: expected a positive number, got nan"),
        ({"delta_d": -1.0}, "delta_d: expected a number from 0 on, got -1"),
    ],
)
def test_distances_that_are_none_are_refused(fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        Classes(**fields)
