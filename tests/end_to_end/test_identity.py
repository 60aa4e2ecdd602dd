"""Results of one network are never reported as those of another, and a directory is enough to build it again."""

import importlib
import json
import shutil
import sys

import polars as pl
import pytest
import torch

from holdfast.results import Ledger
from holdfast.runs import Run
from tests.end_to_end.command import good, holdfast, refused, said
from tests.tampering import put
from tests.training.tiny import TEXT

FACTORY = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return {sign}self.layer(x.flatten(1))

def make(scale=1):
    return Net()

def other():
    return Net()
"""
EVALUATE = ["evaluate", "--model", "python:mynet:make", "--weights", "net.pt", "--data", "digits", "--checks", "clean"]
RUN = "runs/net-digits"


def edit(place, sign=""):
    """Write the module, and let Python forget the one before."""
    (place / "mynet.py").write_text(FACTORY.format(sign=sign))
    shutil.rmtree(place / "__pycache__", ignore_errors=True)
    sys.modules.pop("mynet", None)
    importlib.invalidate_caches()


@pytest.fixture
def place(tmp_path):
    edit(tmp_path)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        torch.save({"layer.weight": torch.randn(10, 64), "layer.bias": torch.zeros(10)}, tmp_path / "net.pt")
    yield tmp_path
    sys.modules.pop("mynet", None)


def test_a_factory_whose_forward_pass_was_edited_is_refused_until_fresh(place):
    (before,) = said(*EVALUATE, cwd=place)["results"]
    edit(place, "-")
    line = refused(*EVALUATE, cwd=place)
    assert f"{RUN}: holds results of a network that computes something else: with the same weights (given)" in line
    assert "`holdfast evaluate ... --fresh`" in line
    (after,) = said(*EVALUATE, "--fresh", cwd=place)["results"]
    assert after["correct"] != before["correct"]
    assert len(Ledger(place / RUN / "ledger").read()) == 500
    edit(place)
    assert "computes something else" in refused(*EVALUATE, cwd=place)


def test_new_checks_do_not_stand_beside_those_of_another_network(place):
    good(*EVALUATE, cwd=place)
    edit(place, "-")
    attack = ["attack", "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", *EVALUATE[1:-2]]
    assert "computes something else" in refused(*attack, cwd=place)
    assert "computes something else" in refused("audit", *EVALUATE[1:-2], cwd=place)
    assert set(Ledger(place / RUN / "ledger").read()["check"]) == {"clean"}


def test_another_factory_or_other_options_are_refused(place):
    good(*EVALUATE, cwd=place)
    other = ["python:mynet:other" if word == "python:mynet:make" else word for word in EVALUATE]
    assert "holds results of other network (python:mynet:make, not python:mynet:other)" in refused(*other, cwd=place)
    options = "{python: {factory: 'mynet:make', options: {scale: 2}}}"
    changed = [options if word == "python:mynet:make" else word for word in EVALUATE]
    assert "holds results of other options (" in refused(*changed, cwd=place)


def test_a_trained_network_whose_code_was_edited_is_refused_and_fresh_keeps_its_weights(place):
    (place / "tiny.yaml").write_text(TEXT.replace("{mlp: {hidden: [8]}}", "{python: 'mynet:make'}"))
    good("train", "tiny.yaml", "--trust", cwd=place)
    run, edited = "runs/tiny/seed-0", ["evaluate", "runs/tiny/seed-0", "--trust", "--checks", "clean"]
    weights = (place / run / "last.safetensors").read_bytes()
    edit(place, "-")
    line = refused(*edited, cwd=place)
    assert "computes something else: with the same weights (best)" in line
    good(*edited, "--fresh", cwd=place)
    assert (place / run / "last.safetensors").read_bytes() == weights
    assert Run(place / run).state.exists()
    edit(place)
    assert "computes something else" in refused(*edited, cwd=place)


def test_a_composite_of_a_network_whose_code_was_edited_is_refused(place):
    text = TEXT.replace("{mlp: {hidden: [8]}}", "{python: 'mynet:make'}")
    (place / "inner.yaml").write_text(text.replace("tiny", "inner"))
    good("train", "inner.yaml", "--trust", cwd=place)
    two = "{composite: {standard: runs/inner/seed-0, robust: runs/inner/seed-0, mixing: local_bias}}"
    (place / "both.yaml").write_text(text.replace("tiny", "both").replace("{python: 'mynet:make'}", two))
    good("run", "both.yaml", "--trust", cwd=place)
    edit(place, "-")
    line = refused("evaluate", "runs/both/seed-0", "--trust", cwd=place)
    assert "runs/both/seed-0: holds results of a network that computes something else" in line
    assert "computes something else" in refused("run", "both.yaml", "--trust", cwd=place)


def test_a_transferred_attack_is_run_again_when_the_code_of_its_source_was_edited(place):
    text = TEXT.replace("{mlp: {hidden: [8]}}", "{python: 'mynet:make'}")
    (place / "source.yaml").write_text(text.replace("tiny", "source"))
    good("train", "source.yaml", "--trust", cwd=place)
    (place / "tiny.yaml").write_text(TEXT)
    good("train", "tiny.yaml", cwd=place)
    transfer = "{transfer: {attack: {fgsm: {threat: {linf: 0.2}}}, source: runs/source/seed-0}}"
    command = ["evaluate", "runs/tiny/seed-0", "--trust", "--checks", transfer]
    good(*command, cwd=place)
    ledger = Ledger(place / "runs/tiny/seed-0/ledger")
    before = ledger.read()
    edit(place, "-")
    good(*command, cwd=place)
    after = ledger.read()
    assert len(after) == len(before)
    assert not after["loss"].equals(before["loss"])


def test_a_run_by_evaluate_is_attacked_certified_audited_and_asked_by_its_directory(place):
    edit(place)
    more = ["--mean", "0.5", "--std", "2", "--first", "60"]
    made = said(*EVALUATE, *more, cwd=place)
    assert made["run"] == f"{RUN}-first-60"
    attacked = said("attack", made["run"], "--trust", "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", cwd=place)
    assert (attacked["run"], attacked["examples"]) == (made["run"], 60)
    assert attacked["clean"]["accuracy"] == made["results"][0]["accuracy"]
    certified = said("certify", made["run"], "--trust", "--method", "margin", cwd=place)
    assert (certified["run"], certified["examples"]) == (made["run"], 60)
    done = holdfast("audit", made["run"], "--trust", "--examples", "20", "--json", cwd=place)
    assert done.code in (0, 1)
    assert json.loads(done.out)["run"] == made["run"]
    again = said("evaluate", made["run"], "--trust", "--checks", "{gaussian_noise: 0.1}", cwd=place)
    assert {"clean", "gaussian_noise sigma=0.1"} < {record["check"] for record in again["results"]}
    good("analyse", "sra", made["run"], "--trust", "--eps", "0,0.1", "--sigma", "0", cwd=place)


def test_only_the_caller_can_trust_what_a_directory_names(place):
    good(*EVALUATE, cwd=place)
    again = ["attack", RUN, "--attack", "fgsm", "--norm", "linf", "--eps", "0.1"]
    line = refused(*again, cwd=place)
    assert "calls mynet:make, which could do anything; if you trust it, allow it with --trust" in line
    info = json.loads((place / RUN / "run.json").read_text())
    info["network"]["trust"] = True
    put((place / RUN / "run.json"), json.dumps(info))
    assert "unknown name 'trust'" in refused(*again, "--trust", cwd=place)


def test_networks_of_holdfast_need_no_trust_and_changed_weights_are_refused(place):
    from holdfast.models import MODELS, build

    torch.save(build(MODELS["linear"], (1, 8, 8), 10).state_dict(), place / "linear.pt")
    command = ["evaluate", "--model", "linear", "--weights", "linear.pt", "--data", "digits", "--checks", "clean"]
    first = said(*command, cwd=place)
    again = said("evaluate", first["run"], cwd=place)
    assert again["results"][0] == first["results"][0]
    torch.save(build(MODELS["linear"], (1, 8, 8), 10, seed=1).state_dict(), place / "linear.pt")
    assert "holds results of other weights" in refused("evaluate", first["run"], cwd=place)
    (place / "linear.pt").unlink()
    assert "linear.pt: expected a weights file, there is none" in refused("evaluate", first["run"], cwd=place)


def test_a_single_file_by_holdfast_is_found_again_by_the_directory_of_its_results(place):
    (place / "tiny.yaml").write_text(TEXT)
    good("train", "tiny.yaml", cwd=place)
    first = said("evaluate", "runs/tiny/seed-0/last.safetensors", "--subset", "30", cwd=place)
    attacked = said("attack", first["run"], "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", cwd=place)
    assert (attacked["run"], attacked["examples"]) == (first["run"], 30)


def test_a_trained_run_is_not_taken_for_foreign_results(place):
    (place / "tiny.yaml").write_text(TEXT)
    good("train", "tiny.yaml", cwd=place)
    line = refused(*EVALUATE, "--name", "tiny/seed-0", "--fresh", cwd=place)
    assert "holds a network that was trained there" in line
    assert Run(place / "runs/tiny/seed-0").labels()


def test_another_choice_of_images_gets_a_directory_of_its_own(place):
    whole = said(*EVALUATE, cwd=place)
    attack = ["attack", "--attack", "fgsm", "--norm", "linf", "--eps", "0.1", *EVALUATE[1:-2]]
    some = said(*attack, "--subset", "50", cwd=place)
    first = said(*attack, "--first", "50", cwd=place)
    assert (whole["run"], some["run"], first["run"]) == (RUN, f"{RUN}-50", f"{RUN}-first-50")
    rows = Ledger(place / first["run"] / "ledger").read().filter(pl.col("check") == "clean")
    assert rows["example"].to_list() == list(range(50))
    by_directory = said("attack", RUN, "--trust", *attack[1:7], "--subset", "50", cwd=place)
    assert by_directory["run"] == some["run"]
    line = refused(*EVALUATE, "--first", "50", "--name", "net-digits-50", cwd=place)
    assert "holds results of other examples" in line
    assert "expected --subset or --first; got both" in refused(*EVALUATE, "--first", "5", "--subset", "5", cwd=place)


def test_a_device_that_is_not_there_is_one_line(place):
    assert "device: cpu" in good(*EVALUATE, "--device", "cpu", cwd=place)
    for device in ("gpu", "meta", "cuda:99"):
        line = refused(*EVALUATE, "--device", device, cwd=place)
        assert f"--device: expected a device of this machine, such as cpu; got '{device}'" in line


def test_evaluate_shows_what_each_component_of_autoattack_did(place):
    checks = "{autoattack: {threat: {linf: 0.00001}, steps: 3, queries: 10}}"
    command = [*EVALUATE[:-1], checks, "--first", "20"]
    shown = good(*command, cwd=place)
    assert "First to break" in shown
    assert all(step in shown for step in ("apgd-ce", "apgd-t", "fab-t", "square"))
    record = said(*command, cwd=place)
    assert [one["step"] for one in record["yield"]] == ["clean", "apgd-ce", "apgd-t", "fab-t", "square"]
    assert sum(one["credited"] for one in record["yield"]) == 20 - record["results"][-1]["correct"]


def test_presets_name_the_limits_of_their_strongest_check(place):
    shown = good(*EVALUATE[:-1], "standard", "--first", "5", cwd=place)
    (line,) = [line for line in shown.splitlines() if line.startswith("standard: ")]
    assert "PGD with 20 steps from one start" in line
    assert "--checks autoattack" in line
    assert "quick: its strongest check" in good(*EVALUATE[:-2], "--first", "5", cwd=place)
    assert "strongest check" not in good(*EVALUATE, "--first", "5", cwd=place)


def test_radii_below_the_resolution_of_8_bit_images_are_said_to_be(place):
    """A bound a million times the true one leaves radii that no 8-bit image can use."""
    certify = ["certify", "--method", "margin", "--set", "constant=1000000", *EVALUATE[1:-2], "--first", "20"]
    shown = good(*certify, cwd=place)
    record = said(*certify, cwd=place)
    assert 0 < record["below_8_bit"] <= 20
    assert f"{record['below_8_bit']} of 20 radii are above 0 but below 1/255, the resolution of 8-bit images" in shown
    wide = ["certify", "--method", "margin", "--set", "constant=0.001", *EVALUATE[1:-2], "--first", "20"]
    assert "resolution of 8-bit" not in good(*wide, cwd=place)
