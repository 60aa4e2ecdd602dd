"""HAR networks of runs: parts of the same images, files that need nobody else, and refusals in one line."""

import shutil

import pytest
import torch

import holdfast
from holdfast.conduct.training import Trained
from holdfast.ensembles import HAR, HAROfRuns
from holdfast.errors import CheckpointError, RecipeError
from holdfast.runs import Run, find_bases, load_model, new_model
from tests.training.tiny import recipe, splits, train

LEAVES = {"with a loop": "loop", "without": "straight"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The parts: a network of two groups, and one for the classes of each."""
    place = tmp_path_factory.mktemp("parts")
    for name, view in (("groups", "group"), ("loop", "group/with a loop"), ("straight", "group/without")):
        part = recipe("data.hierarchy=digits", f"data.view={view}", "data.subset=200", "train.epochs=1")
        train(part, place / name / "seed-0")
    return place


@pytest.fixture
def place(made, tmp_path):
    """A copy of them, to be changed."""
    return shutil.copytree(made, tmp_path / "parts")


def har(place, *more, **leaves):
    paths = ", ".join(f"{group}: '{place}/{name}/seed-{{seed}}'" for group, name in {**LEAVES, **leaves}.items())
    model = f"model={{har: {{groups: '{place}/groups/seed-{{seed}}', leaves: {{{paths}}}}}}}"
    return recipe("data.hierarchy=digits", "data.subset=200", model, *more)


def x(of):
    return splits(of).test.batch(slice(0, 40))[0]


def test_it_has_the_weights_of_its_parts_in_the_order_of_all_classes(tmp_path, place):
    of = har(place)
    assert train(of, tmp_path / "run") == []
    model = load_model(tmp_path / "run").model
    assert isinstance(model, HAR)
    assert not [name for name, weight in model.named_parameters() if weight.requires_grad]
    log_groups, log_loop = (
        load_model(place / name / "seed-0").model.eval()(x(of)).log_softmax(1) for name in ("groups", "loop")
    )
    classes = splits(of).classes
    loop = splits(recipe("data.hierarchy=digits", "data.view=group/with a loop", "data.subset=200")).classes
    torch.testing.assert_close(
        model(x(of))[:, [classes.index(name) for name in loop]], log_groups[:, [0]] + log_loop, rtol=1e-6, atol=1e-6
    )
    assert torch.equal(model(x(of)), new_model(of, splits(of))(x(of)))
    assert torch.equal(model.predict(x(of)).prediction, model(x(of)).argmax(1))


def test_its_file_needs_nobody_else_and_says_what_it_was_made_of(tmp_path, place):
    of = har(place)
    train(of, tmp_path / "run")
    expected = load_model(tmp_path / "run").model(x(of))
    shutil.rmtree(place)
    loaded = load_model(shutil.move(tmp_path / "run" / "last.safetensors", tmp_path / "alone.safetensors"))
    assert torch.equal(loaded.model(x(of)), expected)
    assert list(loaded.card.bases) == ["groups", "leaves.with a loop", "leaves.without"]
    assert Run(tmp_path / "run").info()["bases"].keys() == loaded.card.bases.keys()


def test_a_recipe_with_parts_makes_every_run_and_goes_on_where_it_stopped(tmp_path):
    content = {
        "name": "r",
        "data": {"source": "digits", "hierarchy": "digits", "subset": 200, "test_subset": 40},
        "model": "linear",
        "train": {"epochs": 1},
        "checks": ["clean", {"hierarchical": {"attack": {"pgd": {"threat": {"linf": 0.1}, "steps": 2}}}}],
        "variants": {"har": {"parts": {}}},
    }
    out = tmp_path / "all runs"
    names = [f"r/har{part}/seed-0" for part in (".groups", ".leaves.with_a_loop", ".leaves.without", "")]

    def done():
        trained = [one for one in holdfast.run(content, out=out) if isinstance(one, Trained)]
        return {one.job.name: one.new for one in trained}

    assert list(done()) == names
    checks = {name: set(Run(out / name).ledger.read()["method"]) for name in names}
    assert checks == {name: {"clean"} for name in names[:3]} | {names[3]: {"clean", "hierarchical"}}
    assert not any(done().values())
    shutil.rmtree(out / names[2])
    shutil.rmtree(out / names[3])
    assert [name for name, new in done().items() if new] == [names[2]]
    whole, part = (load_model(out / name).model.eval() for name in (names[3], names[2]))
    some = splits(har(tmp_path)).test.batch(slice(0, 20))[0]
    torch.testing.assert_close(whole.log_leaves(1, some), part(some).log_softmax(1))


def test_parts_see_the_images_of_the_whole(place):
    whole = splits(har(place))
    for view in ("group", "group/without"):
        part = splits(recipe("data.hierarchy=digits", f"data.view={view}", "data.subset=200"))
        assert set(part.train.index.tolist()) <= set(whole.train.index.tolist())
        assert set(part.validation.index.tolist()) <= set(whole.validation.index.tolist())


def test_a_part_of_other_classes_or_weights_is_refused(tmp_path, place):
    swapped = har(place, **{"with a loop": "straight"})
    with pytest.raises(RecipeError, match=r"model\.leaves\.with a loop: .*expected a network of 4 classes"):
        find_bases(swapped, splits(swapped))
    of = har(place)
    train(of, tmp_path / "run")
    part = recipe("data.hierarchy=digits", "data.view=group", "data.subset=200", "seed=1", "train.epochs=1")
    shutil.rmtree(place / "groups")
    train(part, place / "groups" / "seed-0")
    with pytest.raises(RecipeError, match=r"model\.groups: .* has other weights"):
        find_bases(of, splits(of), Run(tmp_path / "run"))
    shutil.rmtree(place / "loop")
    with pytest.raises((RecipeError, CheckpointError), match="loop"):
        new_model(of, splits(of))


@pytest.mark.parametrize(
    ("leaves", "problem"),
    [
        ({"with a loop": "a"}, "expected a network of the classes of 'without'; got none"),
        ({"with a loop": "a", "without": "b", "others": "c"}, "leaves: unknown name 'others'"),
    ],
)
def test_every_group_of_several_classes_needs_a_network(leaves, problem):
    from holdfast.hierarchy import with_hierarchy

    of = splits(recipe("data.hierarchy=digits"))
    with pytest.raises(RecipeError, match=problem):
        with_hierarchy(HAROfRuns(groups="g", leaves=leaves), of.hierarchy)


def test_without_a_hierarchy_there_are_no_groups(place):
    of = har(place, "data.hierarchy=null")
    with pytest.raises(RecipeError, match="HAROfRuns: expected data with a hierarchy"):
        new_model(of, splits(of))
    with pytest.raises(ValueError, match=r"leaves\.x: expected the directory of a run"):
        HAROfRuns(groups="g", leaves={"x": " "})
