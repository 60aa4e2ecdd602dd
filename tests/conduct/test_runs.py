"""A run is a library object: the same records, files and failures as on the command line."""

import dataclasses
import json
import re
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

import holdfast
from holdfast.conduct import Checking, Failed, Finished, Reported, Trained, Training
from holdfast.errors import LedgerError, RecipeError, TrainingError
from holdfast.questions.question import Needs
from holdfast.recipe import load_recipes
from holdfast.recipe.load import recipes_of
from holdfast.report import write_report
from holdfast.report.find import find_runs
from holdfast.training import Epoch
from tests.end_to_end.command import good, results
from tests.end_to_end.command import holdfast as command
from tests.report.reading import read

RECIPE = {
    "name": "tiny",
    "data": {"source": "digits", "validation": 0.1, "subset": 200, "test_subset": 60},
    "model": {"mlp": {"hidden": [8]}},
    "train": {"epochs": 2, "batch_size": 32, "optimizer": {"sgd": {"lr": 0.1}}},
    "checks": ["clean", {"pgd": {"threat": {"linf": 0.1}, "steps": 2}}],
    "analyses": ["gradient_norm"],
    "evaluate": {"block": 20, "batch_size": 16},
}
BROKEN = {**RECIPE, "variants": {"broken": {"train": {"optimizer": {"sgd": {"lr": 1e30}}}}, "sound": {}}}
RUN = "runs/tiny/seed-0"


def written(recipe, path):
    (path / "tiny.yaml").write_text(json.dumps(recipe))  # JSON is YAML
    return path


@pytest.fixture(scope="module")
def by_command(tmp_path_factory):
    path = written(RECIPE, tmp_path_factory.mktemp("command"))
    good("run", "tiny.yaml", cwd=path)
    return path


@pytest.fixture(scope="module")
def by_library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library")
    return path, list(holdfast.run(RECIPE, out=path / "runs"))


def test_the_library_leaves_what_the_command_line_leaves(by_command, by_library):
    path, records = by_library
    assert results(path / RUN) == results(by_command / RUN)
    assert (path / "runs/tiny/report.html").exists()
    kinds = list(dict.fromkeys(type(record).__name__ for record in records))
    assert kinds == ["Prepared", "Training", "Trained", "Checking", "Asking", "Finished", "Reported"]
    assert sum(isinstance(r, Training) and isinstance(r.record, Epoch) for r in records) == 2


@pytest.mark.parametrize("stop", [Training, Checking])
def test_a_run_that_the_library_began_resumes_on_the_command_line(by_command, tmp_path, stop):
    work = holdfast.run(written(RECIPE, tmp_path) / "tiny.yaml", out=tmp_path / "runs")
    for number, record in enumerate(work):
        if isinstance(record, stop) and number > 4:
            break
    work.close()
    good("run", "tiny.yaml", cwd=tmp_path)
    assert results(tmp_path / RUN) == results(by_command / RUN)


def test_a_finished_run_is_not_done_again(by_library):
    path, _ = by_library
    again = list(holdfast.run(RECIPE, out=path / "runs"))
    assert [record.new for record in again if isinstance(record, Trained)] == [False]
    assert not [record for record in again if isinstance(record, Training)]
    assert all(record.block.rows is None for record in again if isinstance(record, Checking))


def with_a_broken_variant(verb, path):
    """What a command prints for machines about a recipe of which one variant fails."""
    done = command(verb, "tiny.yaml", "--json", cwd=written(BROKEN, path))
    assert done.code == 1
    assert "tiny/broken/seed-0 failed (the other runs continue): " in done.err
    output = json.loads(done.out)
    assert list(output["failed"]) == ["tiny/broken/seed-0"]
    assert "expected a finite loss" in output["failed"]["tiny/broken/seed-0"]
    assert "tiny/broken/seed-0" not in output["failed"]["tiny/broken/seed-0"]
    return output


def test_a_variant_that_fails_does_not_take_the_others_with_it(tmp_path):
    output = with_a_broken_variant("run", tmp_path)
    assert {record["run"] for record in output["results"]} == {"tiny/sound/seed-0"}
    page = read(tmp_path / "runs/tiny/report.html")
    assert "Not finished. tiny/broken/seed-0: " in " ".join(page.text.split())
    good("report", "runs/tiny", "--out", "again.html", cwd=tmp_path)
    assert "Not finished. tiny/broken/seed-0: " in " ".join(read(tmp_path / "again.html").text.split())


def test_training_alone_goes_on_after_a_variant_that_fails_too(tmp_path):
    output = with_a_broken_variant("train", tmp_path)
    assert [run["name"] for run in output["runs"]] == ["tiny/sound/seed-0"]
    facts = tmp_path / "runs/tiny/broken/seed-0/run.json"
    assert "finite loss" in json.loads(facts.read_text())["failed"]
    again = command("train", "tiny.yaml", "--only", "sound", cwd=tmp_path)
    assert (again.code, again.out) == (0, "tiny/sound/seed-0: trained on cpu, weights in runs/tiny/sound/seed-0\n")
    alone = command("train", "tiny.yaml", "--only", "broken", cwd=tmp_path)
    assert alone.code == 2
    assert "expected a finite loss" in alone.err
    mended = {**BROKEN, "variants": {"broken": {}, "sound": {}}}
    good("train", "tiny.yaml", "--fresh", cwd=written(mended, tmp_path))
    assert "failed" not in json.loads(facts.read_text())


@pytest.mark.parametrize("verb", ["run", "train"])
def test_an_unknown_device_is_refused_before_anything_is_deleted(by_command, verb):
    before = sorted(by_command.rglob("*"))
    done = command(verb, "tiny.yaml", "--fresh", "--device", "tpu", cwd=by_command)
    assert done.code == 2
    assert sorted(by_command.rglob("*")) == before


def test_a_run_that_recovers_is_no_longer_called_failed(tmp_path):
    records = list(holdfast.run(BROKEN, out=tmp_path / "runs"))
    assert [type(record) for record in records if isinstance(record, Failed | Finished | Reported)] == [
        Failed, Finished, Reported,
    ]  # fmt: skip
    mended = {**BROKEN, "variants": {"broken": {}, "sound": {}}}
    list(holdfast.run(mended, out=tmp_path / "runs", fresh=True))
    assert "failed" not in json.loads((tmp_path / "runs/tiny/broken/seed-0/run.json").read_text())
    assert "Not finished" not in read(tmp_path / "runs/tiny/report.html").text


def test_where_every_run_fails_there_is_an_error(tmp_path):
    broken = BROKEN["variants"]["broken"]
    with pytest.raises(TrainingError, match=r"all 2 runs failed; the first: tiny/a/seed-0: (?!tiny).*finite loss"):
        list(holdfast.run({**BROKEN, "variants": {"a": broken, "b": broken}}, out=tmp_path))
    alone = {**RECIPE, "train": {**RECIPE["train"], **broken["train"]}}
    with pytest.raises(TrainingError, match="finite loss"):
        list(holdfast.run(alone, out=tmp_path / "alone"))


def test_recipes_come_as_files_contents_or_objects(tmp_path):
    file = written(BROKEN, tmp_path) / "tiny.yaml"
    names = set()
    for recipe, only in ((file, ["sound"]), (str(file), ["sound"]), (BROKEN, ["sound"]), (load_recipes(file)[1], ())):
        for record in holdfast.run(recipe, only=only, out=tmp_path / "runs"):
            if isinstance(record, Finished):
                names.add(record.job.name)
    assert names == {"tiny/sound/seed-0"}
    with pytest.raises(RecipeError, match="only"):
        list(holdfast.run(load_recipes(file), only=["sound"], out=tmp_path / "runs"))


def test_nobody_else_works_on_a_run_not_even_in_this_process(tmp_path):
    work = holdfast.run(RECIPE, out=tmp_path / "runs")
    next(work)
    other = {**RECIPE, "train": {**RECIPE["train"], "epochs": 3}}
    for fresh in (False, True):
        with pytest.raises(RecipeError, match="another holdfast works here"):
            next(holdfast.run(other, out=tmp_path / "runs", fresh=fresh))
    work.close()
    written(RECIPE, tmp_path)
    good("run", "tiny.yaml", cwd=tmp_path)
    assert holdfast.load_run(tmp_path / RUN).recipe.train.epochs == 2


def test_a_network_that_cannot_be_built_does_not_take_the_others_with_it(tmp_path):
    variants = {"huge": {"model": {"resnet18": {"width": 90000}}}, "sound": {}}
    records = list(holdfast.run({**RECIPE, "variants": variants}, out=tmp_path))
    (failed,) = [record for record in records if isinstance(record, Failed)]
    assert (failed.job.name, "needs" in failed.reason) == ("tiny/huge/seed-0", True)
    assert [record.job.name for record in records if isinstance(record, Finished)] == ["tiny/sound/seed-0"]


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ([], {}, "expected a file, its content as a mapping"),
        ([3], {}, "expected a file, its content as a mapping"),
        (RECIPE, {"only": "sound"}, "only: expected a list of variants; got the text 'sound'"),
        (RECIPE, {"device": "tpu9"}, "device: expected a device of this machine, such as cpu; got 'tpu9'"),
        ({**RECIPE, "seed": object()}, {}, "recipe: seeds: expected a list of different whole numbers"),
        ("no.yaml", {}, "no.yaml: expected a recipe in YAML"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, recipe, options, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        list(holdfast.run(recipe, out=tmp_path, **options))
    assert not any(tmp_path.iterdir())


def test_runs_of_several_recipes_have_no_report_in_common(tmp_path):
    one, other = (load_recipes(written({**RECIPE, "name": name}, tmp_path) / "tiny.yaml")[0] for name in ("a", "b"))
    with pytest.raises(RecipeError, match="expected runs of one recipe"):
        next(holdfast.run([one, other], out=tmp_path / "runs"))


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(LedgerError, match="expected the directory of a run"):
        holdfast.load_run(tmp_path)


def test_a_report_of_all_runs_is_the_page_that_the_recipe_wrote(tmp_path):
    variants = {"standard": {}, "at": {"train": {"epochs": 1}}}
    *_, reported = holdfast.run({**RECIPE, "variants": variants}, out=tmp_path)
    again = write_report(find_runs([tmp_path]), tmp_path / "again.html")
    assert again.read_text() == reported.path.read_text()


@dataclass(frozen=True)
class Brightness:
    """Mean brightness of each image.

    Args:
        power: of every pixel.
    """

    title: ClassVar[str] = "Brightness"
    needs: ClassVar[Needs] = Needs.NETWORK
    columns: ClassVar[dict[str, str]] = {"brightness": "mean pixel"}

    power: float = 1.0

    def measure(self, model, x, y, *, rng):
        return {"brightness": (x**self.power).flatten(1).mean(1)}

    @staticmethod
    def present(answers):
        yield f"answers about brightness: {len(answers)}"


@dataclass(frozen=True)
class Contrast(Brightness):
    """Another question of the same form."""

    title: ClassVar[str] = "Contrast"

    @staticmethod
    def present(answers):
        raise RuntimeError("out of ideas")


@dataclass(frozen=True)
class Crashing(Brightness):
    """A question that cannot be answered."""

    def measure(self, model, x, y, *, rng):
        raise IndexError("no such pixel")


class Unmeasured:
    """A question that says nothing about how it is measured."""

    title, needs, present = "Unmeasured", Needs.NETWORK, Brightness.present


class Deaf(Brightness):
    """A question that takes no random streams."""

    def measure(self, model, x, y):
        return {}


def test_questions_of_ones_own_have_answers_and_sections_of_their_own(tmp_path):
    questions = [Brightness(), Brightness(power=2.0), Contrast()]
    list(holdfast.run({**RECIPE, "analyses": questions}, out=tmp_path))
    run = holdfast.load_run(tmp_path / "tiny/seed-0")
    assert {name.rpartition(":")[2]: len(answers) for name, answers in run.answers.items()} == {
        "Brightness": 2,
        "Contrast": 1,
    }
    own = run.answers[f"{__name__}:Brightness"]
    assert {answer.settings["power"] for answer in own} == {1.0, 2.0}
    assert "answers about brightness: 2" in own._repr_html_()
    assert "answers about brightness: 2" in str(own)
    page = " ".join(read(tmp_path / "tiny/report.html").text.split())
    assert "answers about brightness: 2" in page
    assert "cannot present its answers: RuntimeError: out of ideas" in page


def test_answers_whose_code_is_not_loaded_are_shown_as_they_are_stored(tmp_path, monkeypatch):
    list(holdfast.run({**RECIPE, "analyses": [Brightness()]}, out=tmp_path))
    monkeypatch.delitem(sys.modules, __name__)
    printed = good("report", "tiny/seed-0", "--show", "all", cwd=tmp_path)
    assert f"There are answers to '{__name__}:Brightness'" in " ".join(printed.split())
    answer = holdfast.load_run(tmp_path / "tiny/seed-0").answers[f"{__name__}:Brightness"][0]
    assert f"{answer.rows['brightness'].mean():.4g}"[:5] in printed


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        (Unmeasured(), "Unmeasured has no `measure`"),
        (Deaf(), "measure: its call does not accept `rng`"),
    ],
)
def test_a_question_that_cannot_be_measured_is_refused_before_training(tmp_path, question, missing):
    with pytest.raises(RecipeError, match=f"analyses.0: expected a question; {missing}"):
        list(holdfast.run({**RECIPE, "analyses": [question]}, out=tmp_path))
    recipe = dataclasses.replace(recipes_of({**RECIPE, "analyses": []})[0], analyses=(question,))
    with pytest.raises(RecipeError, match=rf"tiny.*: analyses\[0\]: expected a question; {missing}"):
        list(holdfast.run(recipe, out=tmp_path))
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_method_that_fails_does_not_take_other_variants_with_it_and_is_named(tmp_path):
    recipe = {**RECIPE, "analyses": [], "variants": {"crashing": {"analyses": [Crashing()]}, "sound": {}}}
    records = list(holdfast.run(recipe, out=tmp_path))
    (failed,) = (record for record in records if isinstance(record, Failed))
    assert re.fullmatch(
        r"tiny/crashing/seed-0 failed: IndexError: no such pixel, in measure \(\S+test_runs.py:\d+\)", str(failed)
    )
    assert [record.job.name for record in records if isinstance(record, Finished)] == ["tiny/sound/seed-0"]
    with pytest.raises(IndexError, match="no such pixel"):  # alone, with its traceback
        list(holdfast.run(recipe, only=["crashing"], out=tmp_path))


def test_records_are_lines(by_library):
    _, records = by_library
    lines = [str(record) for record in records]
    assert all(len(line) < 120 and "\n" not in line for line in lines)
    assert lines[0] == "tiny/seed-0: 60 test images"
    assert "tiny/seed-0: trained" in lines
    assert any(re.fullmatch(r"train tiny/seed-0  step 1 of 12  epoch 1  loss \d.\d{3}", line) for line in lines)
    assert any(line.startswith("train tiny/seed-0  epoch 2 finished  validation accuracy") for line in lines)
    assert any(re.fullmatch(r"check tiny/seed-0 \(best\)  clean  \d+ of \d+ images x checks", line) for line in lines)
    assert lines[-2] == "tiny/seed-0: finished"
    assert lines[-1].startswith("report: ")


def test_reports_take_paths_as_text(by_library, tmp_path):
    path, _ = by_library
    write_report([str(path / RUN)], str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").exists()
