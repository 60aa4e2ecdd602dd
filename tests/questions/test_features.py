"""What the question of features presents, from answers whose numbers are known, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.questions.answers import Answer, Answers, Store
from holdfast.questions.features import Features
from holdfast.questions.features.maps import STYLES, scatters, style
from holdfast.questions.features.presentation import in_words
from holdfast.report import write_report
from holdfast.show.chart import Chart
from holdfast.show.items import Details
from holdfast.show.pictures import Panel
from holdfast.show.table import Table
from tests.questions.test_presentations import key, of
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read


def number(value: float | None, error: float = 0.05) -> dict[str, float | None]:
    return {"value": value, "error": error}


def side(silhouette: float | None, share: float, ratio: float) -> dict[str, Any]:
    return {
        "silhouette": number(silhouette), "nearest_centroid": number(share), "reference_centroid": number(share - 0.2),
        "scatter_ratio": number(ratio),
    }  # fmt: skip


def layer(name: str, value: float | None = 0.5) -> dict[str, Any]:
    places = {"clean": [[0.0, 2.0, 1.0, 1.0], [0.0, 0.0, 1.0, -1.0]], "noisy": [[0.0, 4.0, 1.0, 1.0], [0.0] * 4]}
    return {
        "name": name, "size": 8, "clean": side(value, 0.99, 2.0), "noisy": side(0.25, 0.75, 1.0),
        "maps": {"tsne": places},
    }  # fmt: skip


NOISE = {"gaussian_noise": {"sigma": 0.06, "variance": None, "clip": True}}
SETTINGS = {"noise": NOISE, "maps": ["tsne"], "images": 40, "points": 4, "resamples": 9}
NAMES = ["stage 2", "stage 10", "penultimate"]


def records(*layers: dict[str, Any], names: list[str] = NAMES, labels: tuple[int, ...] = (0, 0, 1, 1)) -> Any:
    shared = {"layers": names, "example": list(range(5, 5 + len(labels))), "label": list(labels)}
    return tuple({**each, **shared} for each in layers)


LAYERS = records(*map(layer, NAMES))
ANSWER = Answer(key("features", SETTINGS, 80), LAYERS, run="a", classes=("cat", "dog"))


def presented(*answers: Answer) -> list[Any]:
    return list(Features.present(Answers(answers, ("a", "b"))))


def panels(items: list[Any]) -> list[Panel]:
    return of(Panel, [item for details in of(Details, items) for item in details.items])


def test_layers_stand_in_their_order_with_both_sides_and_intervals() -> None:
    (table,) = of(Table, presented(ANSWER))
    assert table.caption == "Separation of the classes, gaussian_noise sigma=0.06, 40 images"
    assert [name for name, _ in table.rows] == [
        f"{name} (8), {side}" for name in ("stage 2", "stage 10", "penultimate") for side in ("clean", "noisy")
    ]
    (_, clean), (_, noisy) = table.rows[:2]
    assert [cell.text for cell in clean] == ["a (best)", "0.500", "99.0\u00a0%", "", "2.000"]
    assert [cell.text for cell in noisy] == ["a (best)", "0.250", "75.0\u00a0%", "55.0\u00a0%", "1.000"]
    assert clean[1].note == "[0.402, 0.598]"
    assert clean[2].note == "[89.2,\u00a0100.0]"  # no share is above one


def test_networks_stand_next_to_each_other() -> None:
    other = replace(ANSWER, records=records(*map(layer, NAMES[1:]), names=NAMES[1:]), run="b", place=1)
    items = presented(ANSWER, other)
    (table,) = of(Table, items)
    assert [cells[0].text[0] for _, cells in table.rows] == list("aaaabbaabb")  # b has no stage 2
    charts = of(Chart, items)
    assert [chart.title for chart in charts] == [
        f"{title}, gaussian_noise sigma=0.06"
        for title in ("Silhouette", "Nearest centroid", "Scatter between classes over scatter within")
    ]
    assert charts[0].ticks == ("2", "10", "last")
    assert [(curve.run, curve.x) for curve in charts[0].curves] == [
        (0, (0.0, 1.0, 2.0)), (0, (0.0, 1.0, 2.0)), (1, (1.0, 2.0)), (1, (1.0, 2.0)),
    ]  # fmt: skip
    assert charts[0].curves[0].high[0] == pytest.approx(0.5 + 1.959964 * 0.05)
    assert [chart.share for chart in charts] == [False, True, False]
    assert [[picture.caption for picture in panel.pictures] for panel in panels(items)] == [
        ["a (best), clean", "a (best), noisy"],
        ["a (best), clean", "a (best), noisy", "b (best), clean", "b (best), noisy"],
        ["a (best), clean", "a (best), noisy", "b (best), clean", "b (best), noisy"],
    ]


def test_noise_of_another_kind_is_a_table_of_its_own() -> None:
    stripes = replace(ANSWER, key=key("features", {**SETTINGS, "noise": {"stripes": {"count": 1}}}, 80))
    more = replace(ANSWER, key=key("features", {**SETTINGS, "images": 80, "maps": []}, 80))
    tables = of(Table, presented(more, stripes, ANSWER))
    assert [table.caption.partition(", ")[2] for table in tables] == [
        "gaussian_noise sigma=0.06, 80 images", "stripes count=1, 40 images",
    ]  # fmt: skip
    assert [len(table.rows) for table in tables] == [6, 6]  # more images, or other maps, are no network of their own


def test_maps_share_a_scale_and_keep_their_points() -> None:
    panel = panels(presented(ANSWER))[0]
    assert panel.title == "Stage 2, t-SNE, gaussian_noise sigma=0.06"
    clean, noisy = panel.pictures
    assert [shape.label for shape in clean.shapes] == ["cat", "dog"]
    # Clean points lie one from their middle, (1, 0); the farthest noisy one is 3 to the right of it and ends the scale.
    assert clean.shapes[0].path == "M82.0 120.0h0M158.0 120.0h0"
    assert noisy.shapes[0].path == "M82.0 120.0h0M234.0 120.0h0"
    assert clean.description == "a (best), clean: 4 images"
    assert [(entry.label, entry.colour) for entry in panel.keys] == [("cat", 0), ("dog", 1)]


def test_more_classes_than_marks_repeat_and_are_stated() -> None:
    assert len({style(label) for label in range(STYLES)}) == STYLES
    assert style(STYLES) == style(0)
    labels = tuple(range(STYLES + 2))
    points = [(float(label), 0.0) for label in labels]
    picture, _ = scatters([("a", [points, points], labels)], str)
    assert len(picture.shapes) == STYLES + 2
    many = {"clean": [[0.0] * len(labels)] * 2, "noisy": [[1.0] * len(labels)] * 2}
    one = {**layer("penultimate"), "maps": {"tsne": many}}
    items = presented(replace(ANSWER, records=records(one, names=["penultimate"], labels=labels)))
    (panel,) = panels(items)
    assert len(panel.keys) == STYLES
    notes = of(str, items)
    assert any(f"{STYLES + 2} classes, more than marks: those after {STYLES} repeat" in note for note in notes)
    assert any("only the penultimate layer: the network shows no stages" in note for note in notes)
    assert not of(Chart, items)  # a line needs two points


def test_what_is_no_number_and_what_is_not_finished_are_stated() -> None:
    items = presented(replace(ANSWER, records=records(layer("stage 2", None))))
    (table,) = of(Table, items)
    assert table.rows[0][1][1].text == "none"
    assert any("some layers are missing" in note for note in of(str, items))
    assert not any("some layers are missing" in note for note in of(str, presented(ANSWER)))


def test_the_page_has_the_section_only_where_the_question_was_asked(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    for layers in ((), LAYERS):
        assert 'id="features"' not in write_report([path], tmp_path / "none.html").read_text()
        Store(path).write(ANSWER.key, layers)
    page = read(write_report([path], tmp_path / "a.html"))
    rows = page.table("Separation of the classes")
    assert rows["penultimate (8), noisy"][:2] == ["a (best)", "0.250 [0.152, 0.348]"]
    marks = [tag for tag, attributes in page.elements if "mark-0" in str(attributes.get("class"))]
    assert marks == ["path"] * 12
    assert sum(name.startswith("features-") for name in page.specs) == 3


def test_names_are_escaped(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "x", [FakeCheck("clean", correct=[True, False])], name="x", classes=("<b>bold</b>", "dog")
    )
    Store(path).write(ANSWER.key, LAYERS)
    text = write_report([path], tmp_path / "x.html").read_text()
    assert "<b>bold" not in text
    assert "<title>&lt;b&gt;bold&lt;/b&gt;</title>" in text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOISE, "gaussian_noise sigma=0.06"),
        ({"gaussian_noise": {"sigma": 8 / 255, "clip": False}}, "gaussian_noise sigma=8/255 clip=False"),
        ({"common": {"kind": "fog", "severity": 1}}, "common kind=fog severity=1"),
        ({"chain": {"of": [{"occlusion": {"count": 2}}, {"stripes": {}}]}}, "chain of=occlusion count=2 + stripes"),
        ("stripes", "stripes"),
    ],
)
def test_corruptions_are_written_in_words(value: Any, expected: str) -> None:
    assert in_words(value).strip() == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"maps": ("tsnee",)}, "maps: unknown name 'tsnee'; known: pca, tsne, umap. Did you mean 'tsne'"),
        ({"images": 3}, "images: expected at least 4, got 3"),
        ({"points": 1}, "points: expected 2 to 2000, got 1"),
        ({"points": 2001}, "points: expected 2 to 2000, got 2001"),
        ({"resamples": -1}, "resamples: expected at least 0, got -1"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Features(**fields)
