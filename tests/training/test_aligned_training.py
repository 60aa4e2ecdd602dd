"""Training with an alignment: the same bytes after a stop, witnesses that stay as they are, origins in the file."""

import hashlib
import shutil
from dataclasses import replace

import pytest
import torch

from holdfast.errors import CheckpointError, RecipeError
from holdfast.models import read_metadata, read_state, write_weights
from holdfast.runs import Run, load_model
from holdfast.runs.witnesses import with_witnesses
from tests.training.tiny import metrics, outcome, recipe, splits, train

FACTORY = "model={python: 'tests.training.tiny:network'}"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A source with BatchNorm and dropout, and two witnesses."""
    place = tmp_path_factory.mktemp("networks")
    train(recipe(FACTORY, "train.epochs=1"), place / "source" / "seed-0")
    train(recipe("train.epochs=1"), place / "small" / "seed-0")
    train(recipe("model={mlp: {hidden: [12]}}", "train.epochs=1"), place / "large" / "seed-0")
    train(recipe("model={mlp: {hidden: [16]}}", "train.epochs=20"), place / "held" / "seed-0")
    return place


@pytest.fixture
def place(made, tmp_path):
    """A copy of them, to be changed."""
    return shutil.copytree(made, tmp_path / "networks")


def aligned(place, *more, fields="", witnesses=("small", "large")):
    paths = ", ".join(f"'{place}/{name}/seed-{{seed}}'" for name in witnesses)
    objective = f"train.objective={{align: {{witnesses: [{paths}]{fields}}}}}"
    return recipe(FACTORY, objective, f"train.init_from={place}/source/seed-{{seed}}", *more)


def digests(place):
    files = sorted(place.rglob("*.safetensors"))
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


KINDS = ("", ", embedding: rkd, output: 0", ", embedding: nce", ", batch_norm: recalibrate", ", batch_norm: frozen")


@pytest.mark.parametrize("fields", KINDS)
def test_a_stopped_alignment_ends_at_the_same_bytes(tmp_path, place, fields):
    of, before = aligned(place, fields=fields), digests(place)
    train(of, tmp_path / "whole")
    for stop in (1, 2):
        train(of, tmp_path / "stopped", stop)
    train(of, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    stated = [read_metadata(Run(tmp_path / name).weights("last")) for name in ("stopped", "whole")]
    assert stated[0] == stated[1]
    assert digests(place) == before
    assert len(load_model(tmp_path / "whole", trust=True).model(splits(of).test.batch(slice(0, 3))[0])) == 3


def test_the_file_names_source_and_witnesses_with_their_hashes(tmp_path, place):
    of = aligned(place)
    train(of, tmp_path / "run")
    loaded = load_model(Run(tmp_path / "run").weights("last"), trust=True)
    hashes = {name: load_model(place / name / "seed-0", trust=True).card.hash for name in ("source", "small", "large")}
    origins = loaded.card.origins
    assert origins["init_from"]["sha256"] == hashes["source"]
    assert [one["sha256"] for one in origins["witnesses"]] == [hashes["small"], hashes["large"]]
    assert [one["path"] for one in origins["witnesses"]] == [f"{place}/{name}/seed-0" for name in ("small", "large")]
    assert loaded.card.hash != hashes["source"]


NO_ORIGINS = ("[]", '{"witnesses": 3}', '{"witnesses": [{"name": "a"}]}', '{"init_from": {"sha256": 1}}')


@pytest.mark.parametrize("origins", NO_ORIGINS)
def test_origins_of_a_file_that_are_none_are_refused(tmp_path, place, origins):
    file = place / "small" / "seed-0" / "last.safetensors"
    write_weights(tmp_path / "other.safetensors", read_state(file), {**read_metadata(file), "origins": origins})
    with pytest.raises(CheckpointError, match="expected metadata written by holdfast; "):
        load_model(tmp_path / "other.safetensors")


def test_witnesses_do_not_change_under_way_and_may_go_when_all_is_done(tmp_path, place):
    of = aligned(place)
    train(of, tmp_path / "run", 1)
    shutil.move(place / "small", place / "kept")
    with pytest.raises(RecipeError, match=r"train\.objective: witness .*small/seed-0: "):
        train(of, tmp_path / "run")
    shutil.copytree(place / "large", place / "small")
    with pytest.raises(RecipeError, match=r"has other weights .* aligned with .*; start over with --fresh"):
        train(of, tmp_path / "run")
    shutil.rmtree(place / "small")
    shutil.move(place / "kept", place / "small")
    train(of, tmp_path / "run")
    shutil.rmtree(place / "small")
    assert train(of, tmp_path / "run") == []


def test_a_witness_of_other_images_is_refused(tmp_path, place):
    of = aligned(place, witnesses=("small",))
    few = replace(splits(of), classes=("a", "b"))
    with pytest.raises(RecipeError, match=r"witness .*expected a network of 2 classes"):
        with_witnesses(of, few, Run(tmp_path / "run"))


def test_a_network_without_weights_to_train_is_refused(tmp_path, place):
    """It would be saved as it is, and pass for aligned."""
    of = aligned(place, "model={python: 'tests.training.tiny:frozen'}")
    with pytest.raises(RecipeError, match="align: expected a network with weights to train"):
        train(of, tmp_path / "run")


def test_at_rate_zero_only_batchnorm_moves(tmp_path, place):
    of = aligned(place, "train.optimizer={sgd: {lr: 0}}")
    train(of, tmp_path / "run")
    before, after = (read_state(at / "last.safetensors") for at in (place / "source/seed-0", tmp_path / "run"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


def test_the_maps_of_features_are_trained_and_are_no_part_of_the_network(tmp_path, place):
    of = aligned(place, fields=", embedding: hint, output: 0", witnesses=("small",))
    train(of, tmp_path / "run", 2)
    first = torch.load(Run(tmp_path / "run").state, weights_only=True)["objective"]
    train(of, tmp_path / "run")
    last = torch.load(Run(tmp_path / "run").state, weights_only=True)["objective"]
    assert first.keys() == last.keys() == {"maps.0.weight", "maps.0.bias"}
    assert not torch.equal(first["maps.0.weight"], last["maps.0.weight"])
    state = read_state(tmp_path / "run" / "last.safetensors")
    assert state.keys() == read_state(place / "source" / "seed-0" / "last.safetensors").keys()


def selected(place, *more, target="held"):
    attack, path = "{fgsm: {threat: {linf: 0.3}}}", f"{place}/{target}/seed-{{seed}}"
    held = f"train.selection={{metric: transfer_rate, attack: {attack}, target: '{path}'}}"
    return aligned(place, held, *more, witnesses=("small",))


def test_the_best_epoch_is_the_one_that_transfers_best_to_the_held_out_network(tmp_path, place):
    of = selected(place, "train.epochs=4", "train.optimizer.sgd.lr=1")
    train(of, tmp_path / "run")
    rates = [one["validation"]["transfer_rate"] for one in metrics(tmp_path / "run") if "validation" in one]
    assert len(set(rates)) > 1
    best = max(range(4), key=lambda epoch: (rates[epoch], epoch)) + 1
    loaded = load_model(Run(tmp_path / "run").weights("best"), trust=True)
    assert loaded.card.epoch == best
    held_out = load_model(place / "held" / "seed-0")
    assert loaded.card.origins["held_out"]["sha256"] == held_out.card.hash
    x, y = splits(of).validation.batch(slice(None))
    z = of.train.selection.attack(loaded.model.eval(), x, y)
    right = held_out.model.eval()(x).argmax(1) == y
    wrong = held_out.model(z).argmax(1) != y
    assert rates[best - 1] == int((right & wrong).sum()) / int(right.sum())


def test_a_stopped_selection_ends_at_the_same_bytes_and_patience_ends_it(tmp_path, place):
    of = selected(place, "train.epochs=3")
    train(of, tmp_path / "whole")
    train(of, tmp_path / "stopped", 5)
    train(of, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    still = selected(place, "train.epochs=5", "train.selection.patience=1", "train.optimizer.sgd.lr=0")
    train(still, tmp_path / "patient")
    assert len([one for one in metrics(tmp_path / "patient") if "validation" in one]) < 5


def test_a_network_that_is_not_held_out_is_refused(tmp_path, place):
    for target, role in (("small", "witness"), ("source", "source")):
        with pytest.raises(RecipeError, match=f"expected a held-out network; .* is the {role}"):
            train(selected(place, target=target), tmp_path / target)
    with pytest.raises(RecipeError, match=r"train\.selection: target .*nowhere"):
        train(selected(place, target="nowhere"), tmp_path / "nowhere")
    train(selected(place), tmp_path / "run", 1)
    shutil.rmtree(place / "held")
    train(recipe("model={mlp: {hidden: [16]}}", "train.epochs=2"), place / "held" / "seed-0")
    with pytest.raises(RecipeError, match=r"other weights .* than those this run was selected on"):
        train(selected(place), tmp_path / "run")


def test_what_is_no_selection_on_a_held_out_network_is_refused():
    mi = "attack: mi"
    cases = {
        f"{{metric: transfer_rate, {mi}}}": "a target together",
        "{metric: transfer_rate, target: a}": "needs an attack",
        f"{{metric: robust_accuracy, {mi}, target: a}}": "a target together",
        "{metric: transfer_rate, target: a, attack: {deepfool: {threat: {linf: 0.1}}}}": "must climb to the end",
    }
    for text, problem in cases.items():
        with pytest.raises(RecipeError, match=problem):
            recipe(f"train.selection={text}")
    with pytest.raises(RecipeError, match=r"needs data\.validation"):
        recipe(f"train.selection={{metric: transfer_rate, {mi}, target: a}}", "data.validation=0")
