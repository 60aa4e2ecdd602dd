"""Questions that need no network: about a data set, about the data of runs, in recipes, and about theory."""

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import good, refused, said

RECIPE = """
name: tiny
data: {source: digits, subset: 40, test_subset: 60}
model: {mlp: {hidden: [8]}}
train: {epochs: 1, batch_size: 8, optimizer: {sgd: {lr: 0.1}}}
checks: [clean]
analyses: [spectrum, {spectrum: {part: train}}]
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    (path / "tiny.yaml").write_text(RECIPE)
    good("run", "tiny.yaml", cwd=path)
    return path


def test_a_data_set_is_asked_about_without_a_network_and_once(tmp_path):
    first = said("analyse", "spectrum", "--data", "digits", "--subset", "50", cwd=tmp_path)
    (answer,) = first["answers"]
    assert (answer["run"], answer["examples"], answer["weights"]) == ("digits-50", 50, "data")
    page = tmp_path / first["reports"][0]
    assert "Spectrum of the images" in page.read_text()
    stored = {file: file.stat().st_mtime_ns for file in (page.parent / "answers").iterdir()}
    assert said("analyse", "spectrum", "--data", "digits", "--subset", "50", cwd=tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in (page.parent / "answers").iterdir()} == stored


def test_other_images_have_a_directory_of_their_own_and_train_is_another_answer(tmp_path):
    good("analyse", "spectrum", "--data", "digits", "--first", "20", cwd=tmp_path)
    whole = said("analyse", "spectrum", "--data", "digits", "--part", "train", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "runs" / "data").iterdir()) == ["digits", "digits-first-20"]
    assert whole["answers"][0]["records"][0]["images"] == 1297


def test_a_run_answers_about_its_own_images_in_its_report(finished):
    page = Path(finished / "runs/tiny/seed-0/report.html")
    answers = said("analyse", "spectrum", "runs/tiny/seed-0", cwd=finished)["answers"]
    assert [answer["examples"] for answer in answers] == [60]
    assert "Spectrum of the images" in page.read_text()
    stored = [json.loads(file.read_text()) for file in sorted((page.parent / "answers").glob("*.json"))]
    assert sorted(answer["records"][0]["images"] for answer in stored) == [40, 60]
    assert {answer["weights"] for answer in stored} == {"data"}


def test_what_is_missing_is_one_line(tmp_path):
    line = "holdfast: analyse: expected a RUN, or --data NAME_OR_PATH; see --help"
    assert refused("analyse", "spectrum", cwd=tmp_path) == line
    assert refused("analyse", "spectrum", "--data", "digits", "--subset", "3", "--first", "3", cwd=tmp_path) == (
        "holdfast: analyse: expected --subset or --first; got both"
    )
    assert "part: expected" in refused("analyse", "spectrum", "--data", "digits", "--part", "all", cwd=tmp_path)


def test_other_data_under_the_same_name_are_refused(tmp_path):
    good("analyse", "spectrum", "--data", "digits", cwd=tmp_path)
    info = tmp_path / "runs/data/digits/run.json"
    facts = json.loads(info.read_text())
    facts["data"]["fingerprint"] = "0" * 64
    info.write_text(json.dumps(facts))
    (info.parent / "checksums.txt").unlink()
    line = refused("analyse", "spectrum", "--data", "digits", cwd=tmp_path)
    assert "holds results of other data (000000000000, not " in line
    assert line.endswith("; choose another --out")


THEORY = ("analyse", "linear-dynamics", "--steps", "30", "--problems", "5")


def test_theory_is_asked_about_without_a_network_or_data_and_once(tmp_path):
    first = said(*THEORY, cwd=tmp_path)
    (answer,) = first["answers"]
    assert (answer["run"], answer["examples"], answer["weights"]) == ("theory", 0, "data")
    assert [record["part"] for record in answer["records"]][:2] == [["spatial", "GD"], ["spatial", "momentum"]]
    page = tmp_path / first["reports"][0]
    assert page == tmp_path / "runs" / "theory" / "report.html"
    assert "Optimisers on a linear problem" in page.read_text()
    stored = {file: file.stat().st_mtime_ns for file in (page.parent / "answers").iterdir()}
    assert said(*THEORY, cwd=tmp_path) == first
    assert {file: file.stat().st_mtime_ns for file in (page.parent / "answers").iterdir()} == stored


def test_other_settings_of_theory_are_another_answer_on_the_same_page(tmp_path):
    good(*THEORY, cwd=tmp_path)
    text = good(*THEORY, "--samples", "10", "--out", "runs", cwd=tmp_path)
    assert "theory: weights and risks after 30 steps, spatial domain" in text
    page = (tmp_path / "runs" / "theory" / "report.html").read_text()
    assert "theory, samples=0: errors of the weights, spatial domain" in page
    assert "theory, samples=10: errors of the weights, frequency domain" in page


def test_vectors_of_theory_are_options(tmp_path):
    options = ["--variances", "0.1,0", "--target", "1,0", "--start", "0,2", "--rate", "0.1"]
    tables = said(*THEORY, *options, cwd=tmp_path)["shown"]
    spatial = next(item for item in tables if "spatial domain" in item.get("caption", ""))
    assert spatial["columns"][:3] == ["w0", "w1", "|w|²"]
    line = refused(*THEORY, "--target", "1,2", cwd=tmp_path)
    assert "target: expected 3 numbers, one per variance; got [1" in line


def test_recipes_refuse_theory(tmp_path):
    (tmp_path / "tiny.yaml").write_text(RECIPE.replace("[spectrum,", "[linear_dynamics, spectrum,"))
    line = refused("run", "tiny.yaml", cwd=tmp_path)
    assert "analyses: linear_dynamics is about no run" in line
    assert line.endswith("ask with holdfast analyse linear-dynamics")
