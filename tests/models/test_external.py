import sys
import types

import pytest
import torch
from torch import nn

from holdfast.errors import RecipeError
from holdfast.models import MODELS, build
from holdfast.models.external import Python, Timm, Torchvision

SOURCE = """
from torch import nn

def make(features=12, classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(features, classes))

def wrong():
    return 3

NUMBER = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the working directory, which is not on the path."""
    (tmp_path / "my_networks.py").write_text(SOURCE)
    (tmp_path / "my_broken.py").write_text("raise OSError('no such library\\nsecond line')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield "my_networks"
    sys.modules.pop("my_networks", None)


def test_python_calls_the_factory_with_the_options_only(module):
    before = list(sys.path)
    model = Python(factory=f"{module}:make", options={"classes": 4})((3, 2, 2), 10)
    assert model(torch.rand(2, 3, 2, 2)).shape == (2, 4)
    assert isinstance(model, nn.Sequential)
    assert sys.path == before


def test_python_network_depends_on_the_seed_and_may_be_normalised(module):
    x = torch.rand(2, 3, 2, 2)
    factory = Python(factory=f"{module}:make")
    bare = build(factory, (3, 2, 2), 10, seed=1)
    normalised = Python(factory=f"{module}:make", mean=(0.5,) * 3, std=(0.25,) * 3)
    torch.testing.assert_close(build(normalised, (3, 2, 2), 10, seed=1)(x), bare((x - 0.5) / 0.25))


def test_the_normalisation_of_the_data_is_not_forced_on_a_foreign_network(module):
    factory, x = Python(factory=f"{module}:make"), torch.rand(2, 3, 2, 2)
    ours = build(factory, (3, 2, 2), 10, seed=1, mean=[0.5] * 3, std=[0.25] * 3)
    assert torch.equal(ours(x), build(factory, (3, 2, 2), 10, seed=1)(x))


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        ("my_networks", {}, "expected 'package.module:factory', got 'my_networks'"),
        ("no_such_module_here:make", {}, "cannot import 'no_such_module_here': ModuleNotFoundError"),
        ("my_broken:make", {}, "cannot import 'my_broken': OSError: no such library$"),
        ("my_networks:made", {}, "module 'my_networks' has no 'made'"),
        ("my_networks:NUMBER", {}, "module 'my_networks' has no callable 'NUMBER'"),
        ("my_networks:make", {"clases": 3}, "does not take these options: .*clases"),
        ("my_networks:wrong", {}, "expected my_networks:wrong to return a torch module, got a int"),
    ],
)
@pytest.mark.usefixtures("module")
def test_python_errors_are_one_line(factory, options, message):
    with pytest.raises(RecipeError, match=message) as error:
        Python(factory=factory, options=options)((3, 2, 2), 10)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("architecture", "library"), [(Timm(name="x"), "timm"), (Torchvision(name="x"), "torchvision")]
)
def test_a_missing_library_names_the_extra_to_install(monkeypatch, architecture, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(RecipeError, match=rf"cannot import {library} .*holdfast\[{library}\]"):
        architecture((3, 2, 2), 10)


def fake(**attributes):
    return types.SimpleNamespace(**attributes)


def make(channels, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 4, classes))


def test_timm_network_is_created_for_the_data(monkeypatch):
    library = fake(
        is_model=lambda name: name == "known",
        create_model=lambda name, pretrained, num_classes, in_chans: make(in_chans, num_classes),
    )
    monkeypatch.setitem(sys.modules, "timm", library)
    assert Timm(name="known", mean=(0.5,))((1, 2, 2), 7)(torch.rand(3, 1, 2, 2)).shape == (3, 7)
    with pytest.raises(RecipeError, match="timm has no network 'other'"):
        Timm(name="other")((1, 2, 2), 7)


def test_torchvision_network_is_created_for_the_data(monkeypatch):
    models = fake(
        list_models=lambda: ["known"],
        get_model=lambda name, weights, num_classes=1000: make(3, num_classes),
    )
    monkeypatch.setitem(sys.modules, "torchvision", fake(models=models))
    assert Torchvision(name="known")((3, 2, 2), 7)(torch.rand(3, 3, 2, 2)).shape == (3, 7)
    assert Torchvision(name="known", weights="DEFAULT")((3, 2, 2), 7)(torch.rand(3, 3, 2, 2)).shape == (3, 1000)
    with pytest.raises(RecipeError, match="torchvision has no network 'other'"):
        Torchvision(name="other")((3, 2, 2), 7)


def test_registry_holds_the_classes_whose_fields_have_no_defaults():
    assert (MODELS["python"], MODELS["timm"], MODELS["torchvision"]) == (Python, Timm, Torchvision)


@pytest.mark.parametrize(
    "name", ["checkpoint_path", "pretrained_cfg", "cache_dir", "pretrained_cfg_overlay", "img_siz"]
)
def test_options_of_timm_that_load_files_are_unknown(name):
    with pytest.raises(RecipeError, match=f"options: unknown name '{name}'; known: .*img_size"):
        Timm(name="known", options={name: "weights.pt"})


@pytest.mark.parametrize("value", ["a/b", "https://host", "..", {"file": 1}, ["a", "b/c"]])
def test_options_of_timm_are_numbers_and_words(value):
    with pytest.raises(RecipeError, match=r"options\.img_size: expected a number or a word; got"):
        Timm(name="known", options={"img_size": value})


def test_plain_options_reach_timm(monkeypatch):
    seen = {}
    library = fake(is_model=lambda name: True, create_model=lambda name, **given: seen.update(given) or make(1, 7))
    monkeypatch.setitem(sys.modules, "timm", library)
    options = {"img_size": [32, 32], "global_pool": "avg", "drop_rate": 0.1, "qkv_bias": False}
    Timm(name="known", options=options)((1, 2, 2), 7)
    assert {name: seen[name] for name in options} == options
