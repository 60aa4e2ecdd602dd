"""A weights file may describe any network: it is built only if the file holds its weights."""

import json

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from holdfast import budget
from holdfast.errors import CheckpointError, HoldfastError, RecipeError
from holdfast.models import build
from holdfast.models.mlp import MLP
from holdfast.runs import load_model, networks, new_network
from tests.training.tiny import recipe, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    train(recipe(), place)
    with safe_open(place / "best.safetensors", framework="pt") as file:
        return file.metadata(), load_file(place / "best.safetensors")


def changed(trained, path, **metadata):
    facts, state = trained
    stated = {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
    save_file(state, path, {**facts, **stated})
    return path


def with_model(trained, model):
    stored = yaml.safe_load(trained[0]["recipe"])
    return yaml.safe_dump({**stored, "model": model})


HUGE = {
    "layers of 100,000 units": {"mlp": {"hidden": [100_000, 100_000]}},
    "a million layers": {"densenet": {"depth": 99_997}},
    "a convolution of 100,000 channels": {"cnn": {"blocks": [[100_000, 100_000]]}},
    "a kernel of 100,000": {"cnn": {"kernel": 100_000}},
    "sizes beyond any network": {"mlp": {"hidden": [10**15]}},
    "negative sizes": {"mlp": {"hidden": [8], "feature_dim": -3}},
    "another network of usual size": {"resnet18": {}},
}


@pytest.mark.parametrize("model", HUGE.values(), ids=HUGE)
def test_a_file_that_describes_more_than_it_holds_is_refused_before_anything_is_built(
    trained, tmp_path, monkeypatch, model
):
    path = changed(trained, tmp_path / "a.safetensors", recipe=with_model(trained, model))
    built, make = [], torch.nn.Linear.__init__

    def record(self, inputs, outputs, *rest, **more):
        make(self, inputs, outputs, *rest, **more)
        built.append(self.weight.device.type)

    monkeypatch.setattr(torch.nn.Linear, "__init__", record)
    with pytest.raises(HoldfastError) as caught:
        load_model(path)
    assert len(str(caught.value).splitlines()) == 1
    assert set(built) <= {"meta"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"shape": [2**31, 8, 8]}, "shape: expected channels, height and width"),
        ({"shape": [1, 8]}, "shape: expected channels, height and width"),
        ({"shape": [1, 8, "8"]}, r"shape\.2: expected a whole number; got '8'"),
        ({"shape": [1, 0, 8]}, "shape: expected channels, height and width"),
        ({"shape": [3, 10**9, 10**9]}, r"an image: needs 1\.2e\+07 TB of memory"),
        ({"classes": []}, "classes: expected 1 to 100000 names; got 0"),
        ({"classes": [1, 2]}, r"classes\.0: expected a string; got 1"),
        ({"classes": "[" * 100_000}, "nested too deeply"),
        ({"bases": [1]}, "bases: expected an object"),
        ({"epoch": "last"}, "epoch: expected a whole number; got .last"),
        ({"epoch": "9" * 5000}, "epoch: expected a whole number; got .999"),
        ({"recipe": "seed: " + "9" * 5000}, r"the number 9+\.\.\. of 5000 digits is too large"),
        ({"recipe": "[" * 1000}, "expected metadata written by holdfast"),
    ],
)
def test_what_a_file_says_of_images_is_checked(trained, tmp_path, metadata, message):
    path = changed(trained, tmp_path / "a.safetensors", **metadata)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_model(path)
    assert len(str(caught.value).splitlines()) == 1


def test_the_file_itself_is_read(trained, tmp_path):
    path = changed(trained, tmp_path / "a.safetensors")
    assert load_model(path).model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_a_recipe_has_a_budget_too(monkeypatch):
    monkeypatch.setenv(budget.VARIABLE, "1M")
    with pytest.raises(RecipeError, match=r"model: the network: needs 40 GB of memory"):
        new_network(MLP(hidden=(100_000, 100_000)), (1, 8, 8), 10)


def test_planning_leaves_the_weights_of_a_seed_as_they_are():
    architecture = MLP(hidden=(8,))
    planned, direct = new_network(architecture, (1, 8, 8), 10, seed=3), build(architecture, (1, 8, 8), 10, seed=3)
    for name, tensor in direct.state_dict().items():
        assert torch.equal(planned.state_dict()[name], tensor)
    assert networks.EXTERNAL
