"""Training that starts from the weights of another run."""

import shutil

import pytest
import torch

from holdfast.errors import RecipeError
from holdfast.models import read_metadata, read_state, write_weights
from holdfast.runs import Run, load_model
from holdfast.training import Epoch
from holdfast.training.loop import _Loop
from tests.training.tiny import outcome, recipe, splits, train


@pytest.fixture
def standard(tmp_path):
    train(recipe(), tmp_path / "seed-0")
    return tmp_path / "seed-0"


def curriculum(path, *more):
    return recipe(f"train.init_from={path}", "train.objective.trades={threat: {linf: 0.1}, steps: 1}", *more)


def test_the_first_step_is_taken_from_the_other_runs_best_weights(tmp_path, standard):
    run = Run(tmp_path / "next")
    run.path.mkdir()
    of = curriculum(standard)
    loop = _Loop(of, splits(of), run)
    found = loop.raw.state_dict()
    for name, tensor in read_state(standard / "best.safetensors").items():
        assert torch.equal(found[name], tensor)
    card = load_model(standard).card
    assert run.info()["init_from"] == {
        "path": str(standard), "name": "tiny/seed-0", "weights": "best", "epoch": card.epoch, "sha256": card.hash,
    }  # fmt: skip


def test_a_file_and_the_seed_may_be_named(tmp_path, standard):
    of = curriculum(tmp_path / "seed-{seed}" / "last.safetensors")
    train(of, tmp_path / "next", 1)
    assert Run(tmp_path / "next").info()["init_from"]["weights"] == "last"


def test_interrupted_anywhere_it_ends_with_the_same_bits_even_when_the_other_run_is_gone(tmp_path, standard):
    of = curriculum(standard)
    train(of, tmp_path / "whole")
    for stop in (1, 4):
        train(of, tmp_path / str(stop), stop)
    shutil.rmtree(standard)
    for stop in (1, 4):
        train(of, tmp_path / str(stop))
        assert outcome(tmp_path / str(stop)) == outcome(tmp_path / "whole")


def test_early_stopping_on_robust_accuracy_goes_with_it_and_both_weights_are_there(tmp_path, standard):
    attack = "{pgd: {threat: {linf: 0.05}, steps: 2}}"
    selection = f"train.selection={{metric: robust_accuracy, attack: {attack}, patience: 2}}"
    of = curriculum(standard, selection, "train.epochs=9", "train.optimizer.sgd.lr=1e-9")
    epochs = [record for record in train(of, tmp_path / "next") if isinstance(record, Epoch)]
    assert len(epochs) == 3  # nothing changes, so that patience runs out
    assert all("robust_accuracy" in epoch.validation for epoch in epochs)
    assert Run(tmp_path / "next").weights("best").exists()
    assert Run(tmp_path / "next").weights("last").exists()


def refused(of, path):
    with pytest.raises(RecipeError) as caught:
        train(of, path, 1)
    return str(caught.value)


def test_what_is_not_there_or_does_not_fit_is_one_line(tmp_path, standard):
    assert refused(curriculum(tmp_path / "none"), tmp_path / "a").startswith("train.init_from: ")
    said = refused(curriculum(standard, "model.mlp.hidden=[9]"), tmp_path / "b")
    assert "train.init_from" in said
    assert "weights do not fit the model" in said
    assert "expects (9, 64), got (8, 64)" in said
    file = standard / "best.safetensors"
    state = read_state(file)
    write_weights(file, {name: tensor + 1 for name, tensor in state.items()}, read_metadata(file))
    assert "the file was changed" in refused(curriculum(standard), tmp_path / "c")
    with pytest.raises(RecipeError, match="init_from: expected the directory of a run or a weights file, got nothing"):
        recipe("train.init_from=' '")


def test_a_run_that_has_begun_does_not_change_its_beginning(tmp_path, standard):
    train(recipe("seed=1"), tmp_path / "other")
    of = curriculum(standard)
    train(of, tmp_path / "next", 1)
    (tmp_path / "next" / "state.pt").unlink()  # killed before its first state
    shutil.rmtree(standard)
    shutil.copytree(tmp_path / "other", standard)
    assert "has other weights" in refused(of, tmp_path / "next")
