"""A run on disk: claimed by one recipe, rebuilt from its files, and never from damaged ones."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load as safetensors_load
from safetensors.torch import load_file, save_file

from holdfast.errors import CheckpointError, RecipeError, TrainingError
from holdfast.models import read_metadata
from holdfast.models.external import Python
from holdfast.recipe import Recipe, to_yaml
from holdfast.runs import Run, content_hash, load_model, new_network, prepare, read_card, versions
from holdfast.training.checkpoint import weights_content
from tests.training.tiny import recipe, splits, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    of = recipe("train.epochs=3", "train.optimizer.sgd.lr=0.02")
    Run(path).claim(of)
    train(of, path)
    return path


def rewritten(source, target, **changes):
    """A copy of a weights file with other metadata; None leaves a key out."""
    said = {**read_metadata(source), **changes}
    save_file(load_file(source), target, {key: value for key, value in said.items() if value is not None})
    return target


def test_weights_say_everything_about_themselves(trained):
    said = read_metadata(trained / "last.safetensors")
    of = recipe("train.epochs=3", "train.optimizer.sgd.lr=0.02")
    assert said == {
        "holdfast": versions()["holdfast"],
        "recipe": to_yaml(of, Recipe),
        "shape": "[1, 8, 8]",
        "classes": json.dumps(list("0123456789")),
        "data": splits(of).fingerprint,
        "epoch": "3",
        "hash": content_hash(load_file(trained / "last.safetensors")),
    }


def test_a_weights_file_alone_is_enough(trained, tmp_path):
    file = shutil.copy(trained / "last.safetensors", tmp_path / "elsewhere.safetensors")
    loaded = load_model(file)
    x, _ = splits(loaded.card.recipe).test.batch(slice(0, 9))
    state = torch.load(trained / "state.pt", weights_only=True)["model"]
    assert loaded.card.recipe == recipe("train.epochs=3", "train.optimizer.sgd.lr=0.02")
    assert (loaded.card.classes, loaded.card.epoch, loaded.card.file) == (tuple("0123456789"), 3, file)
    assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.model.state_dict().items())
    assert loaded.model(x).shape == (9, 10)


def test_a_directory_means_its_best_weights_else_its_last(trained, tmp_path):
    assert load_model(trained).card.file == trained / "best.safetensors"
    shutil.copy(trained / "last.safetensors", tmp_path / "last.safetensors")
    assert load_model(tmp_path).card.file == tmp_path / "last.safetensors"


def test_every_changed_byte_of_the_weights_is_noticed(trained, tmp_path):
    content = (trained / "last.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    for place in range(header, len(content), (len(content) - header) // 23):
        damaged = bytearray(content)
        damaged[place] ^= 0x01
        (tmp_path / "a.safetensors").write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"the file was changed|are not finite"):
            load_model(tmp_path / "a.safetensors")


@pytest.mark.parametrize("key", ["recipe", "shape", "classes", "hash"])
def test_weights_of_others_are_refused_and_the_way_to_use_them_named(trained, tmp_path, key):
    file = rewritten(trained / "last.safetensors", tmp_path / "a.safetensors", **{key: None})
    with pytest.raises(CheckpointError, match=f"{key} not stated; for other networks use --model and --weights"):
        load_model(file)


@pytest.mark.parametrize(
    "changes", [{"recipe": "{"}, {"recipe": "[]"}, {"shape": "x"}, {"classes": "3"}, {"epoch": "x"}, {"hash": "0" * 64}]
)
def test_metadata_that_was_tampered_with_is_an_error_that_names_the_file(trained, tmp_path, changes):
    file = rewritten(trained / "last.safetensors", tmp_path / "a.safetensors", **changes)
    with pytest.raises((CheckpointError, RecipeError), match=r"a\.safetensors: "):
        load_model(file)


def test_a_directory_without_weights_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"expected a run with best\.safetensors or last\.safetensors; got nei"):
        load_model(tmp_path)


def test_equal_weights_are_listed_once(trained, tmp_path):
    for label in ("best", "last"):
        shutil.copy(trained / "last.safetensors", tmp_path / f"{label}.safetensors")
    assert Run(tmp_path).labels() == ["best"]
    train(recipe(), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "last.safetensors", tmp_path / "last.safetensors")
    assert Run(tmp_path).labels() == ["best", "last"]


def test_weights_that_are_not_finite_are_no_content_of_a_file():
    of, good = recipe(), {"a": torch.ones(2), "n": torch.tensor(3)}
    assert safetensors_load(weights_content(of, splits(of), good, 1, kept=""))["a"].tolist() == [1.0, 1.0]
    with pytest.raises(TrainingError, match=r"epoch 2: expected finite weights, got others in a; none"):
        weights_content(of, splits(of), {**good, "a": torch.tensor([1.0, torch.nan])}, 2, kept="none")


def test_a_directory_belongs_to_one_recipe(tmp_path):
    run = Run(tmp_path)
    run.claim(recipe())
    run.state.touch()
    run.claim(recipe())
    with pytest.raises(RecipeError, match=r"holds a run of another recipe \(differs in train\.epochs\).*--fresh"):
        run.claim(recipe("train.epochs=5"))


@pytest.mark.parametrize("work", ["state.pt", "ledger/part.parquet"])
def test_a_directory_in_which_nothing_was_done_is_free(tmp_path, work):
    """A recipe that was refused before any work does not stand in the way of the mended one."""
    run = Run(tmp_path)
    run.claim(recipe())
    run.record(seed=3)
    run.claim(recipe("train.epochs=5"))
    assert "seed" not in run.info()
    assert (tmp_path / "recipe.yaml").read_text() == to_yaml(recipe("train.epochs=5"), Recipe)
    (tmp_path / work).parent.mkdir(exist_ok=True)
    (tmp_path / work).touch()
    with pytest.raises(RecipeError, match="holds a run of another recipe"):
        run.claim(recipe())


@pytest.mark.parametrize(
    "free", ["checks=[clean, {gaussian_noise: 0.1}]", "evaluate.batch_size=3", "evaluate.gallery=0"]
)
def test_checks_and_batch_size_may_change_between_two_visits(tmp_path, free):
    Run(tmp_path).claim(recipe())
    Run(tmp_path).claim(recipe(free))
    assert (tmp_path / "recipe.yaml").read_text() == to_yaml(recipe(free), Recipe)


def test_the_blocks_of_a_ledger_may_not_change_since_rows_of_both_would_count(tmp_path):
    Run(tmp_path).claim(recipe())
    Run(tmp_path).state.touch()
    with pytest.raises(RecipeError, match=r"differs in evaluate\.block"):
        Run(tmp_path).claim(recipe("evaluate.block=7"))


@pytest.mark.parametrize("content", ["{", "\t", "- a", "name: 3"])
def test_a_damaged_recipe_of_a_run_is_named(tmp_path, content):
    (tmp_path / "recipe.yaml").write_text(content)
    with pytest.raises(RecipeError, match=r"recipe\.yaml: "):
        Run(tmp_path).claim(recipe())


def test_facts_are_added_and_stay(tmp_path):
    run = Run(tmp_path)
    assert run.info() == {}
    run.record(a=1, b={"c": 2})
    run.record(a=3)
    assert run.info() == {"a": 3, "b": {"c": 2}}


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"3"])
def test_a_damaged_run_json_is_named(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"run\.json: expected JSON written by holdfast"):
        Run(tmp_path).info()


def test_training_images_are_cut_by_the_seed_the_subset_first_and_test_images_are_the_same_for_all_seeds():
    of = recipe("data.validation=0.2", "data.subset=30", "data.test_subset=20").data
    one, again, other = prepare(of, 0), prepare(of, 0), prepare(of, 1)
    assert (len(one.train), len(one.validation), len(one.test)) == (24, 6, 20)
    assert not set(one.train.index.tolist()) & set(one.validation.index.tolist())
    assert torch.equal(one.train.index, again.train.index)
    assert not torch.equal(one.train.index, other.train.index)
    assert not torch.equal(one.validation.index, other.validation.index)
    assert torch.equal(one.test.index, other.test.index)
    assert one.older is None
    assert not torch.equal(other.older.index, other.test.index)
    assert not torch.equal(prepare(replace(of, test_seed=1), 0).test.index, one.test.index)
    assert torch.equal(prepare(replace(of, test_seed=1), 0).test.index, other.older.index)


def test_a_factory_named_by_a_weights_file_is_not_called_without_trust(trained, tmp_path, monkeypatch):
    (tmp_path / "hostile.py").write_text("import pathlib\ndef make():\n    pathlib.Path('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    hostile = to_yaml(replace(recipe(), model=Python(factory="hostile:make")), Recipe)
    file = rewritten(trained / "last.safetensors", tmp_path / "a.safetensors", recipe=hostile)
    with pytest.raises(CheckpointError, match=r"calls hostile:make, .* --trust"):
        load_model(file)
    assert not (tmp_path / "ran").exists()
    assert read_card(file).recipe.model == Python(factory="hostile:make")  # reading is harmless
    with pytest.raises(RecipeError, match="to return a torch module"):
        load_model(file, trust=True)


def test_the_hash_depends_on_names_shapes_kinds_and_values_not_on_order_or_layout():
    base = {"a": torch.arange(4.0).view(2, 2), "b": torch.ones(1, dtype=torch.int64)}
    assert content_hash(dict(reversed(base.items()))) == content_hash(base)
    assert content_hash({**base, "a": base["a"].t().contiguous().t()}) == content_hash(base)
    changes = [base["a"].view(4), base["a"].double(), base["a"].t(), -base["a"], torch.tensor([[0.0, 1.0], [2.0, 3.5]])]
    hashes = {content_hash(base), *[content_hash({**base, "a": changed}) for changed in changes]}
    assert len({*hashes, content_hash({"c": base["a"], "b": base["b"]})}) == len(changes) + 2


def test_a_users_factory_that_raises_is_the_recipes_fault_and_a_bug_of_ours_is_not():
    broken = recipe("model={python: {factory: 'operator:truediv'}}").model
    with pytest.raises(RecipeError, match="model: calls operator:truediv, which could do anything"):
        new_network(broken, (1, 8, 8), 10)
    with pytest.raises(RecipeError):
        new_network(broken, (1, 8, 8), 10, trust=True)

    def architecture(shape, classes, **options):
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        new_network(architecture, (1, 8, 8), 10)
