"""Variants with parts: one recipe becomes a run for the groups, one for each group, and the whole."""

from pathlib import Path

import pytest
import yaml

from holdfast.attacks import PGD, Hierarchical
from holdfast.corruptions import Clean
from holdfast.ensembles import HAROfRuns
from holdfast.errors import RecipeError
from holdfast.models import MODELS
from holdfast.objectives import Adversarial, Standard
from holdfast.recipe import load_recipes, parse_recipes

BASE = "name: r\ndata: {source: digits, hierarchy: digits}\nmodel: mlp\n"
ATTACK = "adversarial: {pgd: {threat: {linf: 0.1}, steps: 2}}"


def read(variant, *overrides, base=BASE, **more):
    return parse_recipes(f"{base}variants:\n  flat: {{}}\n  har: {variant}\n", overrides, file=Path("r.yaml"), **more)


def error(variant, *overrides, base=BASE, **more):
    with pytest.raises(RecipeError) as caught:
        read(variant, *overrides, base=base, **more)
    return str(caught.value)


@pytest.mark.parametrize("stated", ["", "{}", "group", "{level: group}"])
def test_a_variant_with_parts_is_a_run_for_the_groups_one_for_each_group_and_the_whole(stated):
    runs = {run.name: run for run in read(f"{{parts: {stated}}}")}
    views = {name: run.data.view for name, run in runs.items()}
    assert views == {
        "r/flat/seed-0": None,
        "r/har.groups/seed-0": "group",
        "r/har.leaves.with_a_loop/seed-0": "group/with a loop",
        "r/har.leaves.without/seed-0": "group/without",
        "r/har/seed-0": None,
    }
    *parts, whole = [run for name, run in runs.items() if "flat" not in name]
    assert {run.model for run in parts} == {MODELS["mlp"]}
    assert whole.model == HAROfRuns(
        groups="runs/r/har.groups/seed-{seed}",
        leaves={
            "with a loop": "runs/r/har.leaves.with_a_loop/seed-{seed}",
            "without": "runs/r/har.leaves.without/seed-{seed}",
        },
        level="group",
    )


def test_the_whole_takes_its_parts_from_the_directory_of_all_runs_and_of_its_own_seed():
    runs = read("{parts: {}}", "seeds=[2, 5]", out=Path("/else where"))
    assert [run.seed for run in runs] == [2, 5] * 5
    whole = runs[-1]
    assert whole.model.roles["groups"] == "/else where/r/har.groups/seed-{seed}"
    assert f"{whole.model.groups.replace('{seed}', '5')}" == f"/else where/{runs[3].name}"


def test_checks_that_need_the_hierarchy_are_left_to_the_whole():
    checks = "checks: [{pgd: {threat: {linf: {each: [0.1, 0.2]}}}}, {hierarchical: {attack: {pgd: {linf: 0.1}}}}]\n"
    runs = read("{parts: {}}", base=BASE + checks)
    assert [[type(check) for check in run.checks] for run in runs] == [
        [PGD, PGD, Hierarchical], *[[PGD, PGD]] * 3, [PGD, PGD, Hierarchical],
    ]  # fmt: skip
    only = "checks: [{hierarchical: {attack: {pgd: {linf: 0.1}}}}]\n"
    assert [run.checks for run in read("{parts: {}}", base=BASE + only)][1:4] == [(Clean(),)] * 3


def test_parts_are_trained_as_the_variant_says_and_the_whole_is_not():
    train = f"train: {{epochs: 3, keep_every: 1, objective: {{{ATTACK}}}, fabric: {{accelerator: cpu}}}}\n"
    changes = "{data: {validation: 0.2}, parts: {groups: {train: {epochs: 7}}, leaves: {model: {mlp: {hidden: [4]}}}}}"
    groups, *leaves, whole = read(changes, base=f"{BASE}{train}epoch_checks: clean\n")[1:]
    assert groups.train.epochs == 7
    assert groups.model == MODELS["mlp"]
    assert {(one.train.epochs, one.model.hidden) for one in leaves} == {(3, (4,))}
    assert all(isinstance(one.train.objective, Adversarial) for one in (groups, *leaves))
    assert {one.data.validation for one in (groups, *leaves, whole)} == {0.2}
    assert (whole.train.objective, whole.train.fabric.accelerator, whole.epoch_checks) == (Standard(), "cpu", ())


def test_overrides_reach_every_part_and_leave_the_whole_a_har():
    *parts, whole = read("{parts: {}}", "model.mlp.hidden=[5]", "train.epochs=2", "data.subset=50")[1:]
    assert {(one.model.hidden, one.train.epochs, one.data.subset) for one in parts} == {((5,), 2, 50)}
    assert isinstance(whole.model, HAROfRuns)
    assert whole.data.subset == 50


def test_a_variant_may_be_wanted_with_its_parts_or_one_part_alone():
    assert [run.name.split("/")[1] for run in read("{parts: {}}", only=["har"])][-1:] == ["har"]
    assert len(read("{parts: {}}", only=["har"])) == 4
    assert [run.name for run in read("{parts: {}}", only=["har.groups"])] == ["r/har.groups/seed-0"]
    assert "unknown name 'har.group'; known: flat, har, har.groups, " in error("{parts: {}}", only=["har.group"])


def test_groups_of_one_class_have_no_network_and_a_level_may_be_named():
    base = "name: r\ndata: {source: fashion_mnist, hierarchy: fashion_mnist}\nmodel: mlp\n"
    names = [run.name.split("/")[1] for run in read("{parts: {}}", base=base)]
    assert names == ["flat", "har.groups", "har.leaves.tops", "har.leaves.shoes", "har"]
    names = [run.name.split("/")[1] for run in read("{parts: area}", base=base)]
    assert names == ["flat", "har.groups", "har.leaves.clothes", "har.leaves.accessories", "har"]


def test_the_groups_of_cifar100_are_known_without_its_data():
    runs = read("{parts: {}}", base="name: r\ndata: {source: cifar100, hierarchy: coarse}\nmodel: mlp\n")
    assert len(runs) == 1 + 1 + 20 + 1
    assert runs[2].data.view == "group/aquatic_mammals"


def test_a_hierarchy_of_a_file_is_read(tmp_path):
    file = tmp_path / "groups.yaml"
    file.write_text(yaml.safe_dump({"levels": {"group": {"a": [0, 1], "b": [2, 3, 4, 5, 6, 7, 8, 9]}}}))
    base = f"name: r\ndata: {{source: digits, hierarchy: {{file: '{file}'}}}}\nmodel: mlp\n"
    assert [run.data.view for run in read("{parts: {}}", base=base)] == [None, "group", "group/a", "group/b", None]


@pytest.mark.parametrize(
    ("variant", "problem"),
    [
        ("{parts: {level: area}}", "r.yaml:6: variants.har.parts.level: unknown name 'area'; known: group"),
        ("{parts: {levle: group}}", "variants.har.parts.levle: unknown name 'levle'"),
        ("{parts: {groups: {seed: 3}}}", "groups.seed: the same in all parts"),
        ("{parts: {leaves: {train: {epohcs: 3}}}}", "r.yaml:6: variants.har.parts.leaves.train.epohcs: unknown name"),
        ("{data: {hierarchy: null}, parts: {}}", "expected groups that can be known without the data"),
        ("{data: {hierarchy: coarse}, parts: {}}", "expected groups that can be known without the data"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(variant, problem):
    assert problem in error(variant)


def test_parts_are_of_variants_and_have_names_of_their_own():
    with pytest.raises(RecipeError, match="unknown name 'parts'"):
        parse_recipes(f"{BASE}parts: {{}}\n")
    with pytest.raises(RecipeError, match=r"expected each name once; got 'har\.groups' twice"):
        parse_recipes(f"{BASE}variants: {{har: {{parts: {{}}}}, har.groups: {{}}}}\n")
    levels = {"group": {str(number): [2 * number, 2 * number + 1] for number in range(999)}}
    many = yaml.safe_dump({"table": {"levels": levels}}, default_flow_style=True, width=10**6).strip()
    with pytest.raises(RecipeError, match="expected at most 1000 runs; got 1001 variants x 1 seeds"):
        parse_recipes(f"name: r\ndata: {{source: digits, hierarchy: {many}}}\nmodel: mlp\nvariants: {{h: {{parts: }}}}")


def test_the_recipe_of_the_digits_has_a_run_for_each_part():
    names = [run.name.split("/")[1] for run in load_recipes(Path("recipes/digits_har.yaml"))]
    assert names == ["flat", "shared", "har.groups", "har.leaves.with_a_loop", "har.leaves.without", "har"]
