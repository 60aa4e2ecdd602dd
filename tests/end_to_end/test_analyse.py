"""`holdfast analyse` and `holdfast select` as a user calls them."""

import json
import shutil
import statistics

import numpy as np
import pytest

from tests.end_to_end.command import good, holdfast, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

ASKED = ["--eps", "0,0.2", "--sigma", "0,0.1", "--steps", "3", "--draws", "4", "--batch-size", "7"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("grid")
    variants = "variants: {a: {train: {epochs: 20}}, b: {train: {epochs: 30}}}\n"
    (path / "tiny.yaml").write_text(SMALL.replace("name: tiny", "name: grid") + variants)
    good("run", "tiny.yaml", "--set", "checks=[clean, {gaussian_noise: {sigma: {each: [0.2, 0.6]}}}]", cwd=path)
    return path


def test_the_map_is_printed_kept_and_shown(place):
    run = "runs/grid/a/seed-0"
    output = said("analyse", "sra", run, *ASKED, cwd=place)
    (answer,) = output["answers"]
    safe = np.array(answer["columns"]["safe"])
    assert safe.shape == (40, 2, 2)
    assert safe[:, 1, 0].mean() <= safe[:, 0, 0].mean()
    (table,) = [item for item in output["shown"] if "smoothed robust" in item.get("caption", "").lower()]
    np.testing.assert_allclose([row["cells"] for row in table["rows"]], safe.mean(0))
    shown = good("analyse", "sra", run, *ASKED, cwd=place)
    assert f"{100 * safe[:, 1, 1].mean():.1f} %" in shown
    page = read(place / output["reports"][0])
    assert any(caption.endswith("zero-one loss") for caption in page.tables)
    assert "Measured on 40 images." in page.text


def test_a_part_of_the_images_is_an_answer_of_its_own(place):
    output = said("analyse", "sra", "runs/grid/a/seed-0", *ASKED, "--subset", "10", cwd=place)
    assert [answer["examples"] for answer in output["answers"]] == [10]
    page = read(place / output["reports"][0])
    assert any("10 images, zero-one loss" in caption for caption in page.tables)


def test_a_stored_map_is_not_measured_again(place, monkeypatch):
    run = "runs/grid/b/seed-0"
    first = said("analyse", "sra", run, *ASKED, cwd=place)
    monkeypatch.setattr("holdfast.questions.sra.measurement.sra", None)
    assert said("analyse", "sra", run, *ASKED, cwd=place) == first


def test_thickness_is_stored_and_printed(place):
    options = ["runs/grid/a/seed-0", "--points", "16", "--steps", "3", "--batch-size", "16"]
    output = said("analyse", "thickness", *options, cwd=place)
    (answer,) = output["answers"]
    values = answer["columns"]["value"]
    assert len(values) == 40
    assert 0 <= min(values) <= max(values) <= 1
    assert f"{statistics.fmean(values):.4f}" in good("analyse", "thickness", *options, cwd=place)
    last = max((place / "runs/grid/a/seed-0/answers").glob("thickness-best-*.parquet"))
    last.unlink()
    sums = place / "runs/grid/a/seed-0/answers/checksums.txt"
    sums.write_text("".join(line for line in sums.read_text().splitlines(keepends=True) if last.name not in line))
    assert said("analyse", "thickness", *options, cwd=place) == output


def test_flatness_is_stored_and_goes_on_where_it_ended(place):
    options = ["runs/grid/a/seed-0", "--draws", "3"]
    (answer,) = said("analyse", "flatness", *options, "--radii", "0,1,2", cwd=place)["answers"]
    levels = answer["records"]
    assert [level["radius"] for level in levels] == [0, 1, 2]
    assert [len(level["losses"]) for level in levels] == [1, 3, 3]
    assert "Distance in all parameters" in good("analyse", "flatness", *options, "--radii", "0,1,2", cwd=place)
    (answer,) = said("analyse", "flatness", *options, "--radii", "0,1,2", "--by-filter", cwd=place)["answers"]
    assert answer["records"][0] == levels[0]
    assert answer["records"][1] != levels[1]


def test_several_runs_and_directories_of_runs_share_one_table(place):
    options = ["runs/grid", "--subset", "20", "--points", "4", "--steps", "1"]
    output = said("analyse", "thickness", *options, cwd=place)
    assert [answer["examples"] for answer in output["answers"]] == [20, 20]
    (table,) = [item for item in output["shown"] if item.get("caption") == "Boundary thickness"]
    assert [row["name"] for row in table["rows"]] == ["a (best)", "b (best)"]
    for report in output["reports"]:
        assert "20 images" in (place / report).read_text() or "Boundary thickness" in read(place / report).tables


def test_a_recipe_asks_questions_after_its_checks(place):
    analyses = "analyses=[gradient_norm, {flatness: {radii: [0, 1], draws: 2}}]"
    (place / "asks.yaml").write_text(SMALL.replace("name: tiny", "name: asks"))
    output = said("run", "asks.yaml", "--set", "checks=[clean]", "--set", analyses, cwd=place)
    text = (place / output["report"]).read_text()
    assert 'id="gradient-norm"' in text
    assert 'id="flatness"' in text
    stored = sorted(path.name.partition("-")[0] for path in (place / "runs/asks/seed-0/answers").glob("*.json"))
    assert stored == ["flatness", "gradient_norm"]


def test_classes_are_measured_stored_and_printed(place, monkeypatch):
    run = "runs/grid/a/seed-0"
    output = said("analyse", "classes", run, "--batch-size", "7", cwd=place)
    (answer,) = output["answers"]
    (record,) = answer["records"]
    assert answer["settings"] == {"delta_v": 0.5, "delta_d": 5.0}
    assert sum(record["count"]) == 40
    measured = record["measured"]
    assert (measured["delta_v"], measured["delta_d"]) == (max(record["radius"]), min(record["centroid_margin"]))
    assert all(one["conclusion"] for one in measured["propositions"] if one["premise"])
    printed = good("analyse", "classes", run, cwd=place)
    assert f"{max(record['dispersion']):.4g}" in printed
    assert "proposition 5.1 applies and holds" in printed
    assert "Classes in feature space" in read(place / output["reports"][0]).tables
    monkeypatch.setattr("holdfast.questions.classes.measurement.geometry_of", None)
    assert said("analyse", "classes", run, cwd=place)["answers"] == [answer]  # stored, whatever the batch size
    refusal = refused("analyse", "classes", run, "--delta-v", "0", cwd=place)
    assert "delta_v: expected a positive number, got 0" in refusal


def test_classes_take_the_distances_that_the_recipe_trained_for(place):
    (place / "disc.yaml").write_text(SMALL.replace("name: tiny", "name: disc"))
    objective = "train.objective={discriminative: {delta_v: 0.7, delta_d: 2}}"
    good("run", "disc.yaml", "--set", objective, "--set", "checks=[clean]", cwd=place)
    (answer,) = said("analyse", "classes", "runs/disc/seed-0", "--delta-d", "3", cwd=place)["answers"]
    assert answer["settings"] == {"delta_v": 0.7, "delta_d": 3.0}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["what"], "No such command 'what'"),
        (["sra", "runs/grid/a/seed-0", "--eps", "a"], "--eps"),
        (["sra", "runs/grid/a/seed-0", "--sigma", "-1"], "sigma: expected numbers from 0 on"),
        (["sra", "runs/grid/a/seed-0", "--loss", "marging"], "--loss: expected 'zero_one' or 'margin'; got 'marging'"),
        (["sra", "runs/grid/a/seed-0", "--norm", "l0"], "--norm: expected 'l2', 'linf' or 'l1'; got 'l0'"),
        (["sra", "nowhere"], "nowhere"),
        (["thickness", "runs/grid/a/seed-0", "--alpha", "0.8"], "expected -1 <= alpha < beta <= 1, got 0.8 and 0.75"),
        (["flatness", "runs/grid/a/seed-0", "--radii", "-1"], "radii: expected numbers from 0 on"),
    ],
)
def test_bad_questions_are_one_line(place, argv, says):
    assert says in refused("analyse", *argv, cwd=place)


def test_the_best_within_the_band_is_marked(place):
    found = said("select", "runs", "--by", "noise", "--accuracy", "0.5", "--within", "0.5", cwd=place)
    values = [run["noise area"] for run in found["runs"]]
    assert found["by"] == "noise area"
    assert len(values) == 2
    assert values == sorted(values, reverse=True)
    shown = good("select", "runs", "--by", "noise", "--accuracy", "0.5", "--within", "0.5", "--per", "model", cwd=place)
    assert shown.count("best") == 1
    assert "none in the band" in good("select", "runs", "--by", "noise", "--accuracy", "0", "--within", "0", cwd=place)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["runs", "--by", "nois", "--accuracy", "98.5"], "expected an accuracy in [0, 1]"),
        (["runs", "--by", "radius", "--accuracy", "0.5"], "unknown name 'radius'"),
        (["runs", "--by", "noise", "--accuracy", "0.5", "--per", "train.objektive"], "'objektive' is none"),
        (["nowhere", "--by", "noise", "--accuracy", "0.5"], "nowhere"),
    ],
)
def test_bad_selections_are_one_line(place, argv, says):
    assert says in refused("select", *argv, cwd=place)


def test_json_is_one_object(place):
    text = good("select", "runs", "--by", "clean", "--accuracy", "0.5", "--within", "0.5", "--json", cwd=place)
    assert set(json.loads(text)) == {"by", "accuracy", "within", "runs", "other_images", "same_checks"}


NORM = ["analyse", "gradient_norm"]


def test_answers_of_a_directory_are_on_its_page(place):
    page = place / "runs/grid/report.html"
    output = said(*NORM, "runs/grid", "--subset", "9", cwd=place)
    assert output["reports"][-1] == "runs/grid/report.html"
    assert len(output["reports"]) == 3
    assert "Measured on 9 images." in page.read_text()
    assert "report: runs/grid/report.html" in good(*NORM, "runs/grid", "--subset", "9", cwd=place)


def test_a_run_without_weights_does_not_hide_the_others(place, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(place / "runs/grid" / name / "seed-0", tmp_path / name)
    for weights in (tmp_path / "b").glob("*.safetensors"):
        weights.unlink()
    done = holdfast(*NORM, "a", "b", "--subset", "5", cwd=tmp_path)
    assert done.code == 1
    assert "Measured on 5 images." in done.out
    assert "holdfast: b has no answer: " in done.err
    output = holdfast(*NORM, "b", "a", "--subset", "5", "--json", cwd=tmp_path)
    assert output.code == 1
    shown = json.loads(output.out)
    assert (len(shown["answers"]), list(shown["failed"])) == (1, ["b"])
    assert "b" in refused(*NORM, "b", cwd=tmp_path)


def test_runs_that_are_only_trained_are_in_their_directory_too(place):
    (place / "fresh.yaml").write_text(SMALL.replace("name: tiny", "name: fresh"))
    good("train", "fresh.yaml", "--set", "train.epochs=1", cwd=place)
    output = said(*NORM, "runs/fresh", "--subset", "5", cwd=place)
    assert [answer["run"] for answer in output["answers"]] == ["fresh/seed-0"]
    assert output["reports"] == ["runs/fresh/seed-0/report.html"]
    assert "Answers on fresh/seed-0" in (place / output["reports"][0]).read_text()
