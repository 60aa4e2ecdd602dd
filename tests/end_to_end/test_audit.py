"""`holdfast audit`, and the verdicts that every evaluation leaves."""

import html
import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from holdfast.data import Digits
from holdfast.data.hierarchies import DIGIT_GROUPS
from holdfast.hierarchy import hierarchy_of
from holdfast.results import Ledger
from holdfast.results.groups import across
from holdfast.trust import FLAGS, read_verdicts
from tests.end_to_end import foreign
from tests.end_to_end.command import holdfast
from tests.tampering import put

RUN = "runs/small/seed-0"
RECIPE = """
name: small
data: {source: digits, test_subset: 100}
model: {mlp: {hidden: [32]}}
train: {epochs: 8, batch_size: 32, optimizer: {adam: {lr: 0.005}}}
checks: [clean, {pgd: {threat: {linf: 0.05}, steps: 10}}, {pgd: {threat: {linf: 0.1}, steps: 10}}]
"""
DIGITS = hierarchy_of(tuple("0123456789"), DIGIT_GROUPS.levels)
MASKED = ("--model", "python:tests.end_to_end.foreign:Rounded", "--data", "digits", "--weights", "masked.safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("audited")
    (path / "small.yaml").write_text(RECIPE)
    done = holdfast("run", "small.yaml", cwd=path)
    assert (done.code, done.err) == (0, "")
    save_file(_fitted().state_dict(), path / "masked.safetensors")
    return path, done


def _fitted():
    """The foreign network trained without its rounding, then hidden behind it."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = foreign.Rounded()
    x, y = Digits()().train.batch(slice(None))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.inner(x), y).backward()
        optimizer.step()
    return model


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained[0], tmp_path / "here")
    return tmp_path / "here"


def test_an_ordinary_run_stores_what_can_be_said_without_further_attacks_and_is_silent_when_all_is_well(trained):
    path, done = trained
    found = read_verdicts(path / RUN)
    assert {one.verdict.evidence for one in found} == {"model", "ledger"}
    assert {one.verdict.flag: one.verdict.level for one in found if one.verdict.evidence == "ledger"}["eps"] == "pass"
    assert "not to be trusted" not in done.out
    assert "Can these numbers be trusted?" in (path / "runs/small/report.html").read_text()


def test_an_honest_run_passes_its_audit_with_its_own_attack(place):
    done = holdfast("audit", RUN, "--examples", "24", "--json", cwd=place)
    assert (done.code, done.err) == (0, "")
    said = json.loads(done.out)
    assert said["failed"] == []
    assert {record["flag"] for record in said["verdicts"]} == set(FLAGS)
    kept = {(one.verdict.evidence, one.verdict.flag) for one in read_verdicts(place / RUN)}
    assert {(record["evidence"], record["flag"]) for record in said["verdicts"]} <= kept
    sweep = next(r for r in said["verdicts"] if r["flag"] == "eps" and r["evidence"] == "attacks")
    assert "eps 0.05 leaves" in sweep["finding"]  # the first attack of the recipe, not 8/255
    assert "Nothing failed in" in (place / RUN / "report.html").read_text()


def test_a_masked_network_fails_with_exit_code_1_and_a_remedy_on_every_line(place):
    done = holdfast("audit", *MASKED, "--eps", "0.1", "--examples", "40", "--surrogate", RUN, cwd=place)
    assert (done.code, done.err) == (1, "")
    last = done.out.splitlines()[-2]
    assert last.startswith("not to be trusted: ")
    assert {"gradients", "black-box", "transfer", "unbounded"} <= set(last.partition(": ")[2].split(", "))
    assert "BPDA" in done.out
    page = (place / "runs/masked-digits/report.html").read_text()
    assert "FAILED" in page
    assert "condition" in page


def test_several_surrogates_are_told_by_their_paths(place):
    file = f"{RUN}/last.safetensors"
    done = holdfast("audit", RUN, "--examples", "8", "--surrogate", RUN, "--surrogate", file, "--json", cwd=place)
    (found,) = [one for one in json.loads(done.out)["verdicts"] if one["flag"] == "transfer"]
    assert f"an attack on {RUN} breaks 0, an attack on {file} 0 (together 0) of 8" in found["finding"]
    assert f"transferred from {file} " in found["finding"]


def test_a_failure_is_one_line_of_an_ordinary_evaluation_and_a_record_of_its_json(place):
    done = holdfast("evaluate", *MASKED, "--subset", "50", cwd=place)
    assert (done.code, done.err) == (0, "")
    (line,) = [line for line in done.out.splitlines() if line.startswith("not to be trusted")]
    assert "masked-digits-50 (given): gradients: " in line
    again = json.loads(holdfast("evaluate", *MASKED, "--subset", "50", "--json", cwd=place).out)
    assert [r["flag"] for r in again["verdicts"] if r["level"] == "fail"] == ["gradients"]


def test_the_model_is_asked_once_and_again_after_it_has_changed(place):
    file = place / RUN / "verdicts" / "last-model.json"
    before = file.stat().st_mtime_ns
    assert holdfast("evaluate", RUN, cwd=place).code == 0
    assert file.stat().st_mtime_ns == before
    records = [{**record, "weights_hash": "0" * 12} for record in json.loads(file.read_text())]
    put(file, json.dumps(records))
    assert holdfast("evaluate", RUN, cwd=place).code == 0
    assert {one.weights_hash for one in read_verdicts(place / RUN)} != {"0" * 12}
    assert "0" * 12 not in file.read_text()


def test_a_checkpoint_gets_a_run_of_its_own_with_its_clean_accuracy(place):
    options = ("--norm", "l2", "--eps", "0.3", "--examples", "8", "--surrogate", RUN, "--json")
    done = holdfast("audit", f"{RUN}/last.safetensors", *options, cwd=place)
    said = json.loads(done.out)
    assert said["run"].startswith("runs/evaluations/last-")
    assert "clean" in (place / said["report"]).read_text()


GROUPED = "runs/grouped/seed-0"


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    path = tmp_path_factory.mktemp("grouped")
    recipe = RECIPE.replace("name: small", "name: grouped").replace(
        "source: digits,", "source: digits, hierarchy: digits,"
    )
    (path / "grouped.yaml").write_text(recipe)
    assert holdfast("run", "grouped.yaml", cwd=path).code == 0
    return path


def test_groups_are_audited_as_classes_and_their_verdicts_stand_beside_those_of_classes(grouped):
    before = {one.verdict.flag: one for one in read_verdicts(grouped / GROUPED)}
    options = ("--level", "group", "--surrogate", GROUPED)
    done = holdfast("audit", GROUPED, *options, "--examples", "16", "--json", cwd=grouped)
    assert done.err == ""
    said = {record["flag"]: record for record in json.loads(done.out)["verdicts"]}
    assert list(said) == [*list(FLAGS)[1:], "chance"]
    assert {record["view"] for record in said.values()} == {"group"}
    rows = Ledger(grouped / GROUPED / "ledger").read().filter(method="clean", weights=said["chance"]["weights"])
    right = int(across(rows, DIGITS.border("group"))["correct"].sum())
    assert f"{right} of 100 clean images are right" in said["chance"]["finding"]
    assert "an attack on the sums of the probabilities of groups breaks" in said["parts"]["finding"]
    stored = read_verdicts(grouped / GROUPED)
    assert {one.verdict.flag: one for one in stored if not one.view} == before
    assert sum(one.view == "group" for one in stored) == len(FLAGS)
    page = html.unescape((grouped / GROUPED / "report.html").read_text())
    assert page.count("groups of level 'group': Nothing failed in") + page.count("groups of level 'group': No: ") == 1
    assert (
        "weights, groups of level 'group')" in holdfast("audit", GROUPED, *options, "--examples", "4", cwd=grouped).out
    )


@pytest.mark.parametrize(
    ("run", "level", "said"),
    [
        (GROUPED, "grup", "hierarchy: level: unknown name 'grup'; known: group"),
        (RUN, "group", "--level group: expected data with a hierarchy, such as data.hierarchy: cifar10; got none"),
    ],
)
def test_a_level_that_is_none_is_refused(trained, grouped, run, level, said):
    done = holdfast("audit", run, "--level", level, cwd=grouped if run == GROUPED else trained[0])
    assert (done.code, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "audit: expected a RUN, or --model"),
        (["nowhere"], "nowhere"),
        ([RUN, "--norm", "l2"], "expected --eps beside --norm l2"),
        ([RUN, "--norm", "l7", "--eps", "1"], "unknown name 'l7'"),
        ([RUN, "--eps", "much"], "--eps: expected a number"),
        ([RUN, "--surrogate", "nowhere"], "nowhere"),
        ([RUN, "--weights", "w.pt"], "audit: --weights, --mean, --std and --name go with --model"),
        (["--model", "mlp"], "audit: expected --data"),
        ([RUN, "--examples", "1"], "--examples"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(trained, argv, said):
    done = holdfast("audit", *argv, cwd=trained[0])
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
