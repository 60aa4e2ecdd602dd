"""Composites of runs: what they are made of, files that need nobody else, and refusals in one line."""

import functools
import hashlib
import json
import math
import shutil
from dataclasses import replace

import pytest
import torch
import yaml

from holdfast.ensembles import NearestNeighbours, fit_transform
from holdfast.errors import CheckpointError, RecipeError
from holdfast.models import read_metadata, read_state, write_weights
from holdfast.rng import Streams
from holdfast.runs import Run, content_hash, find_bases, load_model, new_model
from holdfast.training import fit
from tests.tampering import put
from tests.training.tiny import outcome, recipe, splits, train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs of seed 0, with networks of different kinds."""
    place = tmp_path_factory.mktemp("bases")
    train(recipe("train.epochs=1"), place / "standard" / "seed-0")
    train(recipe("train.epochs=1", "model={cnn: {blocks: [[2]], hidden: []}}"), place / "robust" / "seed-0")
    train(recipe("train.epochs=1", "model={cnn: {blocks: [[8]], hidden: []}}"), place / "other" / "seed-0")
    return place


@pytest.fixture
def place(made, tmp_path):
    """A copy of them, to be changed."""
    return shutil.copytree(made, tmp_path / "bases")


def fixed(place, *more, standard="standard", robust="robust"):
    paths = f"standard: '{place}/{standard}/seed-{{seed}}', robust: '{place}/{robust}/seed-{{seed}}'"
    return recipe(f"model={{composite: {{{paths}, strength: 2.0}}}}", *more)


def adaptive(place, *more):
    paths = f"standard: '{place}/other/seed-{{seed}}', robust: '{place}/robust/seed-{{seed}}'"
    policy = "train.objective.policy={threat: {linf: 0.1}, steps: 1, strengths: [0, .inf], alpha_0: 1}"
    mixing = "mixing: {gradient_ratio: {gradients: largest}}, width: 0.02"
    return recipe(f"model={{adaptive_composite: {{{paths}, {mixing}}}}}", policy, *more)


def x():
    return splits(recipe()).test.batch(slice(0, 7))[0]


def test_a_composite_has_the_best_weights_of_both_and_nothing_to_train(tmp_path, place):
    of = fixed(place)
    assert train(of, tmp_path / "run") == []
    loaded = load_model(tmp_path / "run")
    assert loaded.card.epoch == 0
    assert not [name for name, weight in loaded.model.named_parameters() if weight.requires_grad]
    for role in ("standard", "robust"):
        base = load_model(place / role / "seed-0").model.eval()
        assert torch.equal(getattr(loaded.model, role)(x()), base(x()))
    assert torch.equal(loaded.model(x()), new_model(of, splits(of))(x()))
    before = Run(tmp_path / "run").weights("last").stat().st_mtime_ns
    assert train(of, tmp_path / "run") == []
    assert Run(tmp_path / "run").weights("last").stat().st_mtime_ns == before


def test_its_file_needs_nobody_else_and_says_what_it_was_made_of(tmp_path, place):
    train(fixed(place), tmp_path / "run")
    expected = load_model(tmp_path / "run").model(x())
    card = load_model(place / "robust" / "seed-0").card
    shutil.rmtree(place)
    file = shutil.move(tmp_path / "run" / "last.safetensors", tmp_path / "alone.safetensors")
    loaded = load_model(file)
    assert torch.equal(loaded.model(x()), expected)
    said = loaded.card.bases["robust"]
    assert (said["name"], said["weights"], said["sha256"]) == ("tiny/seed-0", card.file.stem, card.hash)
    assert next(iter(said["model"])) == "cnn"


def test_images_as_the_robust_side_are_in_the_file(tmp_path, place):
    paths = f"standard: '{place}/standard/seed-0', neighbours: {{k: 2, weights: soft, subset: 20}}"
    of = recipe(f"model={{composite: {{{paths}, mixing: local_bias, strength: .inf}}}}")
    assert of.model.strength == math.inf
    train(of, tmp_path / "run")
    shutil.rmtree(place)
    model = load_model(tmp_path / "run").model
    assert isinstance(model.robust, NearestNeighbours)
    assert (len(model.robust.images), len(model.robust.labels)) == (20, 20)
    assert float(model.robust.temperature) not in (0.0, 1.0)
    own, label = splits(of).train.batch(slice(None))
    found = model.robust(own).argmax(1) == label  # those that are in the subset find themselves
    assert int(found.sum()) >= 20
    assert torch.equal(model(own), model.robust(own))


def test_a_policy_is_trained_and_the_two_inside_are_not(tmp_path, place):
    of = adaptive(place)
    records = train(of, tmp_path / "run")
    assert len(records) == 8 + 2  # in each epoch, one block of images is attacked before its steps
    state = read_state(tmp_path / "run" / "last.safetensors")
    for role, base in (("standard", "other"), ("robust", "robust")):
        for name, tensor in read_state(place / base / "seed-0" / "best.safetensors").items():
            assert torch.equal(state[f"{role}.{name}"], tensor)
    fresh = new_model(of, splits(of)).state_dict()
    assert not torch.equal(fresh["policy.head.0.weight"], state["policy.head.0.weight"])


def test_a_begun_run_goes_on_to_the_same_bits_when_the_others_are_gone(tmp_path, place):
    of = adaptive(place)
    train(of, tmp_path / "whole")
    train(of, tmp_path / "stopped", 3)
    shutil.rmtree(place)
    train(of, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    with pytest.raises(RecipeError, match=r"model.standard: .*there is none"):
        train(of, tmp_path / "new")


@pytest.mark.parametrize("make", [fixed, adaptive])
def test_a_run_does_not_change_what_it_is_made_of(tmp_path, place, make):
    train(make(place), tmp_path / "run", 1)
    shutil.rmtree(place / "robust")
    shutil.copytree(place / "other", place / "robust")
    with pytest.raises(RecipeError, match=r"model.robust: .* has other weights .* start over with --fresh"):
        train(make(place), tmp_path / "run")


def refused(of, *, given=None):
    with pytest.raises(RecipeError) as caught:
        find_bases(of, splits(of) if given is None else given)
    return str(caught.value)


def test_what_does_not_fit_is_one_line(tmp_path, place):
    of = fixed(place)
    assert refused(fixed(place, robust="nothing")).startswith("model.robust: ")
    assert refused(fixed(place, "seed=1")).startswith("model.standard: ")
    few = replace(splits(of), classes=("a", "b"))
    assert "expected a network of 2 classes and images of 1x8x8, as digits has; got 10 and 1x8x8" in refused(
        of, given=few
    )
    renamed = replace(splits(of), classes=tuple("abcdefghij"))
    assert "got 10 and 1x8x8, and others than a, ..." in refused(of, given=renamed)
    large = replace(splits(of), shape=(3, 8, 8))
    assert "images of 3x8x8" in refused(of, given=large)
    train(of, place / "nested" / "seed-0")
    assert "expected a network that is not a composite itself" in refused(fixed(place, standard="nested"))
    file = place / "standard" / "seed-0" / "best.safetensors"
    write_weights(file, {name: tensor + 1 for name, tensor in read_state(file).items()}, read_metadata(file))
    assert "the file was changed" in refused(of)
    train(recipe("train.fabric.precision=64-true", "train.epochs=1"), place / "double" / "seed-0")
    with pytest.raises(RecipeError, match="expected networks of the same precision"):
        train(fixed(place, standard="double"), tmp_path / "run")


def test_the_precision_of_a_base_is_that_of_its_weights(tmp_path, place):
    """Of mixed weights no precision is taken: what is built has the default one."""
    train(recipe("train.fabric.precision=64-true", "train.epochs=1"), place / "double" / "seed-0")
    dtypes = {role: one["dtype"] for role, one in find_bases(fixed(place, standard="double"), splits(recipe())).items()}
    assert dtypes == {"standard": "float64", "robust": "float32"}
    file = place / "double" / "seed-0" / "best.safetensors"
    state, said = read_state(file), read_metadata(file)
    mixed = {**state, "head.bias": state["head.bias"].float()}
    write_weights(file, mixed, {**said, "hash": content_hash(mixed)})
    assert find_bases(fixed(place, standard="double"), splits(recipe()))["standard"]["dtype"] == "float32"


def test_a_composite_of_double_networks_or_of_one_and_images_is_double(tmp_path, place):
    for name in ("standard", "robust"):
        train(recipe("train.fabric.precision=64-true", "train.epochs=1"), place / f"double-{name}" / "seed-0")
    both = fixed(place, standard="double-standard", robust="double-robust")
    paths = f"standard: '{place}/double-standard/seed-0', neighbours: {{k: 2, weights: soft, subset: 20}}"
    images = recipe(f"model={{composite: {{{paths}, mixing: local_bias, strength: 1.0}}}}")
    for number, of in enumerate((both, images)):
        train(of, tmp_path / str(number))
        for model in (new_model(of, splits(of)), load_model(tmp_path / str(number)).model):
            floats = [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
            assert {tensor.dtype for tensor in floats} == {torch.float64}
            assert model(x().double()).dtype == torch.float64


def test_a_network_without_feature_maps_has_no_policy(tmp_path, place):
    factory = "model={python: 'tests.training.tiny:network'}"
    train(recipe(factory, "train.epochs=1"), place / "python" / "seed-0")
    of = adaptive(place, f"model.adaptive_composite.standard={place}/python/seed-0")
    assert "could do anything; if you trust it, allow it with --trust (in Python, trust=True)" in refused(of)
    with pytest.raises(Exception, match=r"needs networks with stages\(x\), got Normed"):
        new_model(of, splits(of), trust=True)


def test_functions_that_files_name_are_called_only_when_trusted(tmp_path, place):
    train(recipe("model={python: 'tests.training.tiny:network'}", "train.epochs=1"), place / "python" / "seed-0")
    of = fixed(place, robust="python")
    assert "calls tests.training.tiny:network" in refused(of)
    train(of, tmp_path / "run")
    for trust in (False, frozenset(), frozenset({"tests.training.tiny:other"})):
        with pytest.raises(CheckpointError, match=r"calls tests.training.tiny:network, .* allow it with --trust"):
            load_model(tmp_path / "run", trust=trust)
    for trust in (True, frozenset({"tests.training.tiny:network"})):
        assert load_model(tmp_path / "run", trust=trust).model(x()).shape == (7, 10)


@pytest.mark.parametrize("inside", ["standard", "robust"])
def test_no_file_can_allow_code_to_run(tmp_path, place, inside):
    of = fixed(place)
    train(of, tmp_path / "run")
    file = tmp_path / "run" / "last.safetensors"
    metadata = read_metadata(file)
    bases = json.loads(metadata["bases"])
    bases[inside].update(model={"python": {"factory": "os:system", "options": {"command": "touch ran"}}}, trust=True)
    stated = yaml.safe_load(metadata["recipe"])
    stated["model"]["composite"]["trust"] = True  # a field of earlier versions
    write_weights(file, read_state(file), {**metadata, "bases": json.dumps(bases), "recipe": yaml.safe_dump(stated)})
    with pytest.raises(CheckpointError, match=r'calls os:system {"command": "touch ran"}, which could do anything'):
        load_model(file)


def test_weights_of_another_network_than_the_recipes_are_refused_whatever_is_trusted(tmp_path):
    run = tmp_path / "run"
    train(recipe("model=linear", "train.epochs=1"), run)
    other = recipe("model={mlp: {hidden: [8]}}").model
    assert load_model(run, of=recipe("model=linear").model).card.recipe.model == recipe("model=linear").model
    with pytest.raises(CheckpointError, match="expected weights of the network of the recipe, got those of another"):
        load_model(run, trust=True, of=other)


def test_what_run_json_says_of_a_network_that_is_gone_is_not_trusted(tmp_path, place):
    of = fixed(place)
    train(of, tmp_path / "run")
    shutil.rmtree(place / "standard")
    file = tmp_path / "run" / "run.json"
    said = json.loads(file.read_text())
    said["bases"]["standard"]["model"] = {"python": {"factory": "tests.training.tiny:network"}}
    put(file, json.dumps(said))
    with pytest.raises(RecipeError, match=r"calls tests.training.tiny:network, .* allow it with --trust"):
        list(fit(of, splits(of), Run(tmp_path / "run")))


def test_a_file_without_its_bases_is_refused(tmp_path, place):
    train(fixed(place), tmp_path / "run")
    file = tmp_path / "run" / "last.safetensors"
    said = read_metadata(file)
    for bases in ({}, {"standard": json.loads(said["bases"])["standard"]}):
        write_weights(file, read_state(file), {**said, "bases": json.dumps(bases)})
        with pytest.raises(RecipeError, match="expected the networks that a composite is made of"):
            load_model(file)
    write_weights(file, read_state(file), {**said, "bases": "[1]"})
    with pytest.raises(CheckpointError, match="expected metadata written by holdfast"):
        load_model(file)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.objective=noisy", "train.objective: a composite of fixed strength has nothing to train"),
        ("train.init_from=runs/a", "train.init_from: a composite of fixed strength has nothing to train"),
        ("train.freeze=features", "train.freeze: a composite of fixed strength has nothing to train"),
        ("model.composite.strength=-1", "strength must be a number from 0 to infinity, got -1"),
        ("model.composite.neighbours={k: 3}", "expected either robust or neighbours"),
        ("model.composite.robust=null", "expected either robust or neighbours"),
        ("model.composite.robust=' '", "robust: expected the directory of a run or a weights file, got nothing"),
        ("model.composite.mixing=mean", "unknown name 'mean'; known: gradient_ratio, local_bias, probability"),
        ("model={composite: {standard: a, neighbours: {k: 3, subset: 2}}}", "expected k at least 1 and a subset of k"),
        (
            "model={composite: {standard: a, neighbours: {k: 3, weights: uniform}}}",
            "gradient_ratio needs a gradient of both; neighbours of weights uniform have none",
        ),
        (
            "model={composite: {standard: a, neighbours: {temperature: .nan}}}",
            "temperature must be positive and finite",
        ),
        ("model={adaptive_composite: {standard: a, robust: b, width: 0}}", "width must be positive"),
        ("model={adaptive_composite: {standard: a, robust: b, width: .inf}}", "width must be positive and at most 64"),
    ],
)
def test_recipes_that_cannot_be_get_one_line(place, override, words):
    with pytest.raises(RecipeError, match=words):
        fixed(place, override)


def as_recorded_before(run, *later):
    """Write the weights of a run as a version did that did not know these fields of the model, hash included."""
    metadata, state = read_metadata(run.weights("last")), read_state(run.weights("last"))
    recorded = yaml.safe_load(metadata["recipe"])
    for *path, name in later:
        functools.reduce(dict.__getitem__, path, recorded["model"]).pop(name)
    text = yaml.safe_dump(recorded["model"], sort_keys=False, allow_unicode=True, width=120)
    digest = hashlib.sha256(f"{content_hash(state)}\n{text}".encode()).hexdigest()
    whole = yaml.safe_dump(recorded, sort_keys=False, allow_unicode=True, width=120)
    write_weights(run.weights("last"), state, {**metadata, "recipe": whole, "hash": digest})
    (run.path / "recipe.yaml").write_text(whole, encoding="utf-8")


TRANSFORM = ("composite", "mixing", "probability", "transform")
OLD = "{probability: {transform: {scale: 5, power: 4, shift: 2, correction: 0, sharpen: false}}}"


def test_a_transformation_recorded_before_computes_what_it_did(tmp_path, place):
    of = fixed(place, f"model.composite.mixing={OLD}")
    train(of, tmp_path / "run")
    expected = load_model(tmp_path / "run").model(x())
    later = [(*TRANSFORM, "correction"), (*TRANSFORM, "sharpen"), ("composite", "fit")]
    as_recorded_before(Run(tmp_path / "run"), *later)
    loaded = load_model(tmp_path / "run")
    assert torch.equal(loaded.model(x()), expected)
    h = loaded.model.robust(x())
    u = torch.nn.functional.gelu(torch.nn.functional.layer_norm(h, h.shape[1:]) + 2)
    assert torch.equal(loaded.model.mixing.transform(h), 5.0 * (u.sign() * u.abs().pow(4.0)))
    Run(tmp_path / "run").claim(of)  # the same recipe, with the old behaviour written out
    with pytest.raises(RecipeError, match="holds a run of another recipe"):
        Run(tmp_path / "run").claim(fixed(place, "model.composite.mixing={probability: {transform: {shift: 2}}}"))


def test_a_policy_recorded_before_looks_at_the_first_stage(tmp_path, place):
    train(recipe("train.epochs=1", "model={cnn: {blocks: [[8]], pool: 2, hidden: []}}"), place / "robust" / "seed-1")
    of = adaptive(place, "model.adaptive_composite.maps=first_stage", "train.epochs=1", "seed=0")
    of = replace(of, model=replace(of.model, robust=str(place / "robust" / "seed-1")))
    train(of, tmp_path / "run")
    expected = load_model(tmp_path / "run" / "last.safetensors").model(x())
    as_recorded_before(Run(tmp_path / "run"), ("adaptive_composite", "maps"))
    loaded = load_model(tmp_path / "run" / "last.safetensors")
    assert torch.equal(loaded.model(x()), expected)
    assert loaded.card.recipe.model.maps == "first_stage"
    today = replace(loaded.card.recipe.model, maps="image_size")
    assert not torch.equal(today.of(loaded.model.standard, loaded.model.robust, (1, 8, 8))(x()), expected)


def test_a_fit_is_made_once_and_is_in_the_weights_file(tmp_path, place):
    fit = "{attack: {pgd: {threat: {linf: 0.05}, steps: 2}}, keep: 0.8}"
    of = fixed(place, "model.composite.mixing={probability: {transform: {}}}", f"model.composite.fit={fit}")
    records = train(of, tmp_path / "run")
    assert [(one.done, one.total, one.epoch) for one in records] == [(16, 16, 0)]
    fitted, loaded = Run(tmp_path / "run").info()["fitted"], load_model(tmp_path / "run")
    transform = loaded.model.mixing.transform
    assert (transform.scale, transform.power, transform.shift) == tuple(
        fitted[name] for name in ("scale", "power", "shift")
    )
    assert loaded.model.strength == fitted["strength"] != 1.0
    assert fitted["kept"] >= 0.8
    expected = fit_transform(
        loaded.model.robust, *splits(of).validation.batch(slice(None)), of.model.fit.attack, keep=0.8,
        rng=Streams(0, "fit of the transformation", splits(of).validation.index),
    )  # fmt: skip
    assert expected.strength == pytest.approx(fitted["strength"], rel=1e-3)
    assert train(of, tmp_path / "run") == []
    train(of, tmp_path / "again")
    assert Run(tmp_path / "again").info()["fitted"] == fitted
    other = replace(of, model=replace(of.model, fit=replace(of.model.fit, keep=0.9)))
    train(other, tmp_path / "other")
    hashes = {read_metadata(Run(tmp_path / name).weights("last"))["hash"] for name in ("run", "again", "other")}
    assert len(hashes) == 2
