"""Features on the page: numbers by layer, and maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.features import Features
from holdfast.report.scatter import STYLES, scatters, style
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


SETTINGS = {"noise": "gaussian_noise sigma=0.06", "maps": ["tsne"], "images": 40, "points": 4, "resamples": 9}
NAMES = ["stage 2", "stage 10", "penultimate"]
RESULT = {"names": NAMES, "layers": [layer(name) for name in NAMES], "example": [5, 6, 7, 8], "label": [0, 0, 1, 1]}
ANSWER = Answer("features", "best", "abc", SETTINGS, RESULT)


def run(path: Path, name: str, answer: Answer | None = ANSWER) -> Path:
    made = make_run(path / name, [FakeCheck("clean", correct=[True, False])], name=name)
    if answer is not None:
        write_answer(made, answer)
    return made


def section(*paths: Path) -> Features:
    runs = read_runs(paths)
    return Features.of(runs, [each.label for each in runs])


def test_layers_stand_in_their_order_with_both_sides_and_intervals(tmp_path: Path) -> None:
    tables = section(run(tmp_path, "a")).tables
    assert [table.caption.split(",")[0] for table in tables] == [
        "Silhouette", "Nearest centroid", "Scatter between classes over scatter within",
    ]  # fmt: skip
    assert [name for name, _ in tables[0].rows] == ["stage 2", "stage 10", "penultimate"]
    cells = tables[0].rows[0][1]
    assert [cell.text for cell in cells] == ["0.500", "0.250"]
    assert cells[0].note == "[0.402, 0.598]"
    shares = tables[1].rows[0][1]
    assert [cell.text for cell in shares] == ["99.0\u00a0%", "75.0\u00a0%", "55.0\u00a0%"]
    assert shares[0].note == "[89.2, 100.0]"  # no share is above one
    assert tables[1].groups == [("a (best)", 3)]


def test_networks_stand_next_to_each_other(tmp_path: Path) -> None:
    other = replace(ANSWER, result={**RESULT, "names": NAMES[1:], "layers": RESULT["layers"][1:]})
    found = section(run(tmp_path, "a"), run(tmp_path, "b", other))
    assert [who for who, _ in found.tables[0].groups] == ["a (best)", "b (best)"]
    assert [cell.text for cell in found.tables[0].rows[0][1]] == ["0.500", "0.250", "", ""]  # b has no stage 2
    chart = found.figures[0]
    assert chart.spec["layout"]["xaxis"]["ticktext"] == ["2", "10", "last"]
    assert [len(trace["x"]) for trace in chart.spec["data"]] == [3, 3, 2, 2]
    assert [len(sheet.pictures) for sheet in found.sheets] == [2, 4, 4]


def test_noise_of_another_kind_is_a_table_of_its_own(tmp_path: Path) -> None:
    path = run(tmp_path, "a")
    write_answer(path, replace(ANSWER, settings={**SETTINGS, "noise": "stripes"}))
    write_answer(path, replace(ANSWER, settings={**SETTINGS, "images": 80, "maps": []}, result=RESULT))
    captions = [table.caption for table in section(path).tables]
    assert len(captions) == 6  # a question with more images, or other maps, is no network of its own
    assert sum("stripes" in caption for caption in captions) == 3


def test_maps_share_a_scale_and_keep_their_points(tmp_path: Path) -> None:
    (clean, noisy), *_ = [sheet.pictures for sheet in section(run(tmp_path, "a")).sheets]
    assert [mark.label for mark in clean.marks] == ["cat", "dog"]
    # Clean points lie one from their middle, (1, 0); the farthest noisy one is 3 to the right of it and ends the scale.
    assert clean.marks[0].path == "M82.0 120.0h0M158.0 120.0h0"
    assert noisy.marks[0].path == "M82.0 120.0h0M234.0 120.0h0"
    assert clean.points == 4


def test_more_classes_than_marks_repeat_and_are_told(tmp_path: Path) -> None:
    assert len({style(label) for label in range(STYLES)}) == STYLES
    assert style(STYLES) == style(0)
    labels = list(range(STYLES + 2))
    points = [(float(label), 0.0) for label in labels]
    (picture,) = scatters([("a", [points, points], 0, labels)], str)
    assert len(picture.marks) == STYLES + 2
    many = {"clean": [[0.0] * len(labels)] * 2, "noisy": [[1.0] * len(labels)] * 2}
    one = {**layer("penultimate"), "maps": {"tsne": many}}
    answer = replace(ANSWER, result={"names": ["penultimate"], "layers": [one], "example": labels, "label": labels})
    found = section(run(tmp_path, "a", answer))
    assert len(found.keys) == STYLES
    assert any(f"{STYLES + 2} classes, more than marks: those after {STYLES} repeat" in note for note in found.notes)
    assert any("only the penultimate layer: the network shows no stages" in note for note in found.notes)
    assert not found.figures  # a line needs two points


def test_what_is_no_number_and_what_is_not_finished_are_told(tmp_path: Path) -> None:
    answer = replace(ANSWER, result={**RESULT, "layers": [layer("stage 2", None)]})
    found = section(run(tmp_path, "a", answer))
    assert found.tables[0].rows[0][1][0].text == "none"
    assert any("some layers are missing" in note for note in found.notes)


def test_the_page_has_the_section_only_where_somebody_asked(tmp_path: Path) -> None:
    page = read(write_report([run(tmp_path, "a")], tmp_path / "a.html"))
    assert page.table("Silhouette")["penultimate"] == ["0.500 [0.402, 0.598]", "0.250 [0.152, 0.348]"]
    assert sum(tag == "path" and "mark-0" in str(said.get("class")) for tag, said in page.elements) == 12
    assert "features-0" in page.specs
    empty = replace(ANSWER, result={"names": NAMES, "layers": [], "example": [], "label": []})
    for name, answer in (("b", None), ("c", empty)):
        text = write_report([run(tmp_path, name, answer)], tmp_path / f"{name}.html").read_text()
        assert 'id="features"' not in text


def test_names_are_escaped(tmp_path: Path) -> None:
    name = "<b>bold</b>"
    made = make_run(tmp_path / "x", [FakeCheck("clean", correct=[True, False])], name="x", classes=(name, "dog"))
    write_answer(made, ANSWER)
    text = write_report([made], tmp_path / "x.html").read_text()
    assert "<b>bold" not in text
    assert "<title>&lt;b&gt;bold&lt;/b&gt;</title>" in text
