"""Defended networks of runs: the weights of the run behind the defence, in a file that needs nobody else."""

import shutil

import pytest
import torch

from holdfast.ensembles import JPEG, Defended, DefendedRun
from holdfast.errors import RecipeError
from holdfast.runs import load_model, new_model
from tests.training.tiny import recipe, splits, train

DEFENCES = ["jpeg", "{bit_depth: {levels: 3}}", "feature_distillation", "{gaussian_votes: {copies: 5}}"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = tmp_path_factory.mktemp("networks")
    train(recipe("train.epochs=1"), made / "plain" / "seed-0")
    return made


def defended(place, defence="jpeg", *more):
    return recipe(f"model={{defended: {{network: '{place}/plain/seed-{{seed}}', defence: {defence}}}}}", *more)


@pytest.mark.parametrize("defence", DEFENCES)
def test_it_is_the_network_of_the_run_behind_the_defence(tmp_path, place, defence):
    of = defended(place, defence)
    assert train(of, tmp_path / "run") == []
    model = load_model(tmp_path / "run").model
    plain = load_model(place / "plain" / "seed-0").model.eval()
    x = splits(of).test.batch(slice(0, 20))[0]
    assert torch.equal(model.eval()(x), of.model.defence.around(plain)(x))
    assert torch.equal(new_model(of, splits(of)).eval()(x), model(x))
    assert not [name for name, weight in model.named_parameters() if weight.requires_grad]


def test_its_file_needs_nobody_else(tmp_path, place):
    copied = shutil.copytree(place, tmp_path / "networks")
    of = defended(copied)
    train(of, tmp_path / "run")
    shutil.rmtree(copied)
    loaded = load_model(tmp_path / "run")
    assert isinstance(loaded.model, Defended)
    assert loaded.model.defence == JPEG()
    assert list(loaded.card.bases) == ["network"]


def test_what_cannot_be_defended_is_refused_in_one_line(tmp_path, place):
    with pytest.raises(ValueError, match="network: expected the directory of a run"):
        DefendedRun(network=" ", defence=JPEG())
    with pytest.raises(RecipeError, match=r"model\.network: .*nowhere"):
        train(recipe("model={defended: {network: nowhere, defence: jpeg}}"), tmp_path / "run")
    train(defended(place), tmp_path / "once" / "seed-0")
    again = recipe(f"model={{defended: {{network: '{tmp_path}/once/seed-0', defence: jpeg}}}}")
    with pytest.raises(RecipeError, match="not a composite itself"):
        new_model(again, splits(again))
