"""Recipe files: sweeps, variants, seeds, overrides, and messages that name the place."""

import math
from pathlib import Path

import pytest

from holdfast.attacks import FGSM, PGD, Aimed
from holdfast.corruptions import Clean, GaussianNoise, UniformNoise
from holdfast.data import Digits, Npz
from holdfast.errors import RecipeError
from holdfast.models import MODELS
from holdfast.objectives import Adversarial, Noisy, Standard
from holdfast.optim import SGD, Adam, MultiStep
from holdfast.recipe import fitting_attack, load_recipes, parse_recipes
from holdfast.threat import L1, L2, Linf

BASE = "name: r\ndata: digits\nmodel: mlp\n"


def read(text="", *overrides):
    return parse_recipes(BASE + text, overrides, file=Path("r.yaml"))


def one(text="", *overrides):
    (recipe,) = read(text, *overrides)
    return recipe


def error(text, *overrides):
    with pytest.raises(RecipeError) as caught:
        parse_recipes(text, overrides, file=Path("r.yaml"))
    return str(caught.value)


def test_a_recipe_needs_only_data_and_model():
    recipe = one()
    assert (recipe.name, recipe.seed, recipe.data.source) == ("r/seed-0", 0, Digits())
    assert recipe.model == MODELS["mlp"]
    assert recipe.checks == (Clean(),)


@pytest.mark.parametrize("name", ["", "name: ''\n", "name:\n"])
def test_a_file_without_a_name_is_named_after_the_file(tmp_path, name):
    file = tmp_path / "mine.yaml"
    file.write_text(f"{name}data: digits\nmodel: mlp\n")
    assert [recipe.name for recipe in load_recipes(file)] == ["mine/seed-0"]


@pytest.mark.parametrize(
    ("written", "eps"),
    [("8/255", 8 / 255), ("1e-3", 1e-3), ("0.5", 0.5), ("1", 1.0), ("2.5e-1", 0.25), ("' 1 / 4 '", 0.25)],
)
def test_numbers_may_be_fractions_and_powers_of_ten(written, eps):
    recipe = one(f"checks: [{{fgsm: {{threat: {{linf: {written}}}}}}}]")
    assert recipe.checks == (FGSM(threat=Linf(eps)),)
    assert type(recipe.checks[0].threat.eps) is float


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("checks: clean", "checks: [{clean: {}}]"),
        ("checks: [gaussian_noise: 0.1]", "checks: [{gaussian_noise: {sigma: 0.1}}]"),
        ("checks: [fgsm: {threat: {l2: 1/2}}]", "checks: [{fgsm: {threat: {l2: {eps: 0.5}}}}]"),
        ("checks: [fgsm: {l2: 1/2}]", "checks: [{fgsm: {threat: {l2: {eps: 0.5}}}}]"),
        ("train: {objective: {adversarial: {pgd: {linf: 0.1}}}}",
         "train: {objective: {adversarial: {attack: {pgd: {threat: {linf: {eps: 0.1}}}}}}}"),
        ("checks: [fmn: {l0: 20}]", "checks: [{fmn: {threat: {l0: {eps: 20.0}}}}]"),
        ("checks: [pgd: {threat: {l2: 1/2}, schedule: cosine}]",
         "checks: [{pgd: {threat: {l2: {eps: 0.5}}, schedule: {cosine: {}}}}]"),
        ("train: {objective: noisy}", "train: {objective: {noisy: null}}"),
        ("train: {schedule: {multistep: 3}}", "train: {schedule: {multistep: {milestones: [3.0]}}}"),
    ],
)  # fmt: skip
def test_shorthands_mean_what_is_written_out(short, long):
    assert one(short) == one(long)


def test_data_may_be_a_source_alone():
    (recipe,) = parse_recipes("data: {npz: a.npz}\nmodel: mlp\n")
    assert recipe.data.source == Npz(path="a.npz")


def test_each_writes_out_every_combination_in_order():
    checks = one("checks: [clean, {pgd: {threat: {linf: {each: [1/10, 1/5]}}, steps: {each: [1, 2]}}}]").checks
    assert checks == (
        Clean(), *[PGD(threat=Linf(eps), steps=steps) for eps in (0.1, 0.2) for steps in (1, 2)],
    )  # fmt: skip


def test_numbers_in_options_may_be_fractions_or_scientific_and_text_stays_text():
    said = "{a: 2/255, b: 1e-3, c: 3, d: inf, e: x/y, f: '3', g: true, h: 1.2.3/4}"
    model = one("", f"model={{python: {{factory: 'a:b', options: {said}}}}}").model
    assert model.options == {
        "a": 2 / 255, "b": 1e-3, "c": 3, "d": "inf", "e": "x/y", "f": "3", "g": True, "h": "1.2.3/4",
    }  # fmt: skip


def test_each_sweeps_over_options():
    said = "{attack: LinfPGD, threat: {linf: 0.1}, options: {rel_stepsize: {each: [1/10, 1/5]}, steps: 3}}"
    checks = one(f"checks: {{foolbox: {said}}}").checks
    assert [check.options for check in checks] == [{"rel_stepsize": size, "steps": 3} for size in (0.1, 0.2)]


def test_each_may_sweep_over_choices():
    checks = one("checks: {fgsm: {threat: {each: [{linf: 0.1}, {l1: 1}]}}}").checks
    assert checks == (FGSM(threat=Linf(0.1)), FGSM(threat=L1(1.0)))


def test_variants_merge_groups_and_replace_choices():
    recipes = read(
        "train: {epochs: 7, optimizer: {sgd: {lr: 0.5}}, objective: {noisy: 0.2}}\n"
        "variants:\n  as_is:\n  adam: {train: {optimizer: adam}}\n  plain: {train: {objective: standard, epochs: 2}}\n"
    )
    as_is, adam, plain = (recipe.train for recipe in recipes)
    assert [recipe.name for recipe in recipes] == ["r/as_is/seed-0", "r/adam/seed-0", "r/plain/seed-0"]
    assert (as_is.epochs, as_is.optimizer, as_is.objective) == (7, SGD(lr=0.5), Noisy(sigma=0.2))
    assert (adam.epochs, adam.optimizer, adam.objective) == (7, Adam(), Noisy(sigma=0.2))
    assert (plain.epochs, plain.optimizer, plain.objective) == (2, SGD(lr=0.5), Standard())


def test_a_variant_replaces_the_fields_of_a_choice_as_a_whole():
    (recipe,) = read(
        "train: {optimizer: {sgd: {lr: 0.5, momentum: 0.5}}}\nvariants: {a: {train: {optimizer: {sgd: {lr: 1}}}}}"
    )
    assert recipe.train.optimizer == SGD(lr=1.0)


@pytest.mark.parametrize("data", ["digits", "{digits: {}}", "{source: digits}"])
def test_a_variant_can_add_to_a_group_in_shorthand(data):
    (recipe,) = parse_recipes(f"data: {data}\nmodel: mlp\nvariants: {{a: {{data: {{validation: 0.2}}}}}}")
    assert (recipe.data.source, recipe.data.validation) == (Digits(), 0.2)


def test_a_variant_in_shorthand_keeps_the_rest_of_the_group():
    (recipe,) = parse_recipes(
        "data: {source: digits, validation: 0.2}\nmodel: mlp\nvariants: {a: {data: {npz: x.npz}}}"
    )
    assert (recipe.data.source, recipe.data.validation) == (Npz(path="x.npz"), 0.2)


def test_every_variant_runs_under_every_seed():
    names = [(recipe.name, recipe.seed) for recipe in read("seeds: [3, 5]\nvariants: {a: {}, b: {}}")]
    assert names == [("r/a/seed-3", 3), ("r/a/seed-5", 5), ("r/b/seed-3", 3), ("r/b/seed-5", 5)]


def test_a_seed_alone_is_a_list_of_one():
    assert [recipe.seed for recipe in read("seed: 4")] == [4]


@pytest.mark.parametrize(
    ("override", "look", "expected"),
    [
        ("train.epochs=5", lambda r: r.train.epochs, 5),
        ("train.optimizer.sgd.lr=1e-3", lambda r: r.train.optimizer, SGD(lr=1e-3, momentum=0.5)),
        ("train.optimizer=adam", lambda r: r.train.optimizer, Adam()),
        ("train.optimizer.adam.lr=1/2", lambda r: r.train.optimizer, Adam(lr=0.5)),
        ("train.schedule={multistep: [1, 2]}", lambda r: r.train.schedule, MultiStep(milestones=(1.0, 2.0))),
        ("train.schedule.multistep.milestones=[1]", lambda r: r.train.schedule, MultiStep(milestones=(1.0,))),
        ("train.objective.adversarial.attack.fgsm.threat.linf=1/4", lambda r: r.train.objective,
         Adversarial(attack=FGSM(threat=Linf(0.25)))),
        ("train.selection.attack.fgsm.threat.l2.eps=2", lambda r: r.train.selection.attack, FGSM(threat=L2(2.0))),
        ("train.clip=null", lambda r: r.train.clip, None),
        ("data.validation=0.25", lambda r: (r.data.source, r.data.validation), (Digits(), 0.25)),
        ("data.subset=20", lambda r: r.data.subset, 20),
        ("model.mlp.hidden=[3, 4]", lambda r: r.model.hidden, (3, 4)),
        ("model.linear={}", lambda r: r.model, MODELS["linear"]),
        ("checks=clean", lambda r: r.checks, (Clean(),)),
        ("checks=[{uniform_noise: 0.5}]", lambda r: r.checks, (UniformNoise(0.5),)),
        ("checks.1.gaussian_noise.sigma=0.5", lambda r: r.checks[1], GaussianNoise(0.5)),
        ("checks.1.uniform_noise.eps=0.5", lambda r: r.checks[1], UniformNoise(0.5)),
        ("checks.0=fgsm: {linf: 0.1}", lambda r: r.checks[0], FGSM(threat=Linf(0.1))),
        ("name=other", lambda r: r.name, "other/seed-0"),
        ("seed=7", lambda r: r.name, "r/seed-7"),
        (" train.epochs =6", lambda r: r.train.epochs, 6),
    ],
)  # fmt: skip
def test_overrides_reach_every_kind_of_field(override, look, expected):
    text = (
        "train: {optimizer: {sgd: {lr: 0.1, momentum: 0.5}}, clip: 1, objective: {adversarial: {pgd: {l2: 1}}},\n"
        "  selection: {attack: {pgd: {linf: 0.1}}}}\nchecks: [clean, {gaussian_noise: 0.1}]\n"
    )
    assert look(one(text, override)) == expected


def test_overrides_work_on_groups_that_the_file_leaves_out_and_on_shorthands():
    (recipe,) = parse_recipes("data: {npz: a.npz}\nmodel: mlp\n", ["data.validation=0.1", "evaluate.block=7"])
    assert (recipe.data.source, recipe.data.validation, recipe.evaluate.block) == (Npz(path="a.npz"), 0.1, 7)


def test_only_some_variants_in_the_order_of_the_file():
    text = "data: digits\nmodel: mlp\nseeds: [0, 1]\nvariants: {a: {}, 2: {}, c: {}}"
    names = [recipe.name for recipe in parse_recipes(text, only=["c", "2"])]
    assert names == ["recipe/2/seed-0", "recipe/2/seed-1", "recipe/c/seed-0", "recipe/c/seed-1"]
    with pytest.raises(RecipeError, match="recipe: variants: unknown name 'd'; known: 2, a, c"):
        parse_recipes(text, only=["a", "d"])
    for name in ("a", ""):
        with pytest.raises(RecipeError, match=f"unknown name '{name}'; known: none"):
            parse_recipes("data: digits\nmodel: mlp", only=[name])


def test_overrides_win_over_variants_and_can_change_them_and_the_seeds():
    text = "train: {epochs: 3}\nvariants: {a: {train: {epochs: 5}}, b: {}}"
    assert [r.train.epochs for r in read(text, "train.epochs=9")] == [9, 9]
    assert [r.train.epochs for r in read(text, "variants.a.train.epochs=8")] == [8, 3]
    assert [r.name for r in read(text, "variants={}", "seeds=[1, 2]")] == ["r/seed-1", "r/seed-2"]


def test_an_override_changes_one_place_where_the_file_uses_an_anchor_for_two():
    text = "data: digits\ntrain: {objective: {adversarial: {pgd: &pgd {linf: 0.1}}}}\nchecks: [{pgd: *pgd}]\nmodel: mlp"
    (recipe,) = parse_recipes(text, ["checks.0.pgd.threat=linf: 0.3"])
    assert (recipe.checks[0].threat, recipe.train.objective.attack.threat) == (Linf(0.3), Linf(0.1))


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.epochs", "--set: expected something like train.epochs=5"),
        ("=5", "--set: expected something like"),
        ("train..epochs=5", "--set: expected something like"),
        ("train.epochs=[1", "--set train.epochs: expected a YAML value; got '[1'"),
        ("checks.2.fgsm.threat=1", "--set checks.2: expected a position below 2 in a list; got '2'"),
        ("checks.x=clean", "--set checks.x: expected a position below 2"),
        ("train.epohcs=5", "train.epohcs: unknown name 'epohcs'; known: batch_size, "),
        ("train.epochs.more=5", "train.epochs: expected a valid integer"),
        ("train.optimizer.lr=5", "train.optimizer: unknown name 'lr'; known: adam, "),
        ("trian.epochs=5", "unknown name 'trian'"),
    ],
)
def test_a_bad_override_says_what_was_expected(override, says):
    assert says in error(BASE + "checks: [clean, {gaussian_noise: 0.1}]", override)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "trian: {}",
            "r.yaml:4: unknown name 'trian'; known: analyses, checks, data, epoch_checks, evaluate, model, name, "
            "seed, seeds, train, variants. Did you mean 'train'?",
        ),
        (
            "variants: {a: {train.epochs: 2}}",
            "variants.a.train.epochs: unknown name 'train.epochs'; known: analyses, checks, data, epoch_checks, "
            "evaluate, model, name, seed, train. Write train: {epochs: ...}.",
        ),
        ("train:\n  epochz: 3", "r.yaml:5: train.epochz: unknown name 'epochz'"),
        (
            "train:\n  optimizer:\n    sgd: {lrr: 3}",
            "r.yaml:6: train.optimizer.sgd.lrr: unknown name 'lrr'; known: lr, ",
        ),
        ("train:\n  optimizer:\n    sdg: {}", "r.yaml:5: train.optimizer: unknown name 'sdg'"),
        ("train: {epochs: 1.5}", "r.yaml:4: train.epochs: expected a valid integer; got 1.5 (float)"),
        ("train: {epochs: true}", "train.epochs: expected a valid integer; got True (bool)"),
        ("train: {warmup: abc}", "train.warmup: expected a number or a fraction such as 8/255; got 'abc' (str)"),
        ("train: {warmup: true}", "train.warmup: expected a number or a fraction"),
        ("train: {warmup: 1/0}", "train.warmup: expected a number or a fraction"),
        ("train: {warmup: 1/2/3}", "train.warmup: expected a number or a fraction"),
        ("train:\n  epochs: 0", "r.yaml:4: train: epochs must be at least 1, got 0"),
        (
            "checks:\n  - gaussian_noise: {sigma: {each: [1, 2]}}\n  - clean\n  - fgsm: {threat: {linf: 0.1}, lost: 3}",
            "r.yaml:7: checks.2.fgsm.lost: unknown name 'lost'",
        ),
        (
            "variants:\n  a:\n    data:\n      folder: {path: x, resize: bend}",
            "r.yaml:6: variants.a.data.source.folder: folder.resize: unknown name 'bend'; known: crop, stretch",
        ),
        ("checks: [{fgsm: {}}]", "checks.0.fgsm.threat: expected a value; got nothing"),
        ("checks: [{fgsm: {threat: {linf: 0.1, l2: 1}}}]", "checks.0.fgsm.threat: expected one name with its fields"),
        ("checks: [{pgd: {threat: {l0: 20}}}]", "checks.0.pgd: pgd has no l0 attack"),
        ("checks: [{fmn: {threat: {l0: 2.5}}}]", "checks.0.fmn.threat.l0: l0: eps must be a whole number"),
        ("checks: [{pgd: {threat: {linf: 0.1}, schedule: cosin}}]", "pgd.schedule: unknown name 'cosin'"),
        ("checks: []", "r.yaml: checks: at least one expected"),
        ("checks: [clean, clean]", "r.yaml: checks: expected each check once; got 'clean' 2 times"),
        ("checks: [{gaussian_noise: {each: [0.1, 0.1]}}]", "got 'gaussian_noise sigma=0.1' 2 times"),
        ("checks: [clean, {gaussian_noise: {each: []}}]", "checks.1.gaussian_noise.each: expected at least one value"),
        ("checks: [{gaussian_noise: {each: 5}}]", "checks.0.gaussian_noise.each: unknown name 'each'"),
        ("train: {warmup: {each: [1, 2]}}", "train.warmup: expected a number"),
        ("seeds: 3", "r.yaml: seeds: expected a list of different whole numbers; got 3"),
        ("seeds: []", "seeds: expected a list of different whole numbers"),
        ("seeds: [1, 1]", "seeds: expected a list of different whole numbers"),
        ("seeds: [true]", "seeds: expected a list of different whole numbers"),
        ("seed: 1.5", "seeds: expected a list of different whole numbers"),
        (f"seed: {2**63}", "seeds: expected a list of different whole numbers"),
        ("variants: [a]", "r.yaml: variants: expected names with what they change; got list"),
        ("variants: {a: 3}", "r.yaml: variants.a: expected a mapping; got int"),
        ("variants: {a: {seed: 3}}", "variants.a.seed: the same in all variants"),
        ("variants: {a: {name: b}}", "variants.a.name: the same in all variants"),
        ("variants:\n  a:\n    trian: {}", "trian: unknown name 'trian'"),
        ("variants:\n  a:\n    train:\n      epochz: 1", "r.yaml:7: variants.a.train.epochz: unknown name 'epochz'"),
        ("train:\n  epochs: x\nvariants:\n  a: {train: {clip: 1}}", "r.yaml:5: train.epochs: expected a valid integer"),
        ("train:\n  epochs: 3\n  epochs: 4", "r.yaml:6: expected YAML; 'epochs' is given twice"),
        ("train: {epochs: [}", "r.yaml:4: expected YAML; "),
        ("train: &t [*t]", "r.yaml: expected YAML; got values nested without end"),
        ("seed: 2024-13-45", "r.yaml: expected YAML; month must be in 1..12"),
        ("search: {trials: 3}", "search: this recipe has ranges; use `holdfast search`"),
        ("train: {selection: {metric: accuracies}}", "train.selection.metric: expected 'accuracy', 'loss', "),
        ("train: {selection: {metric: robust_accuracy}}", "train.selection: metric robust_accuracy needs an attack"),
        (
            "train: {selection: {metric: robust_accuracy, attack: {fgsm: {linf: 0.1}}}}",
            "r.yaml: selection by robust_accuracy needs data.validation > 0",
        ),
        (
            "train: {selection: {metric: corrupted_accuracy}}",
            "r.yaml: selection by corrupted_accuracy needs data.validation > 0",
        ),
    ],
)
def test_messages_name_file_line_path_and_what_was_expected(text, says):
    assert says in error(BASE + text)


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", "a//b", ".hidden", "a\\b", "a\tb"])
def test_a_name_cannot_leave_the_directory_of_runs(name):
    assert "name: " in error(f"name: {name!r}\ndata: digits\nmodel: mlp\n")


@pytest.mark.parametrize("text", ["", "- a", "just words", "3"])
def test_a_file_that_is_no_mapping_is_refused(text):
    assert "r.yaml: expected a mapping with name, data, model" in error(text)


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b"\xff\xfe\x00", None])
def test_an_unreadable_file_is_named(tmp_path, content):
    file = tmp_path / "bad.yaml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(RecipeError, match=r"bad\.yaml: expected "):
        load_recipes(file)


def test_yaml_anchors_and_merge_keys_work():
    recipe = one("train:\n  <<: &common {epochs: 3, batch_size: 9}\n  epochs: 4\nevaluate: {block: 5}")
    assert (recipe.train.epochs, recipe.train.batch_size) == (4, 9)


def test_overrides_of_one_reading_do_not_reach_the_next():
    text = "checks: [{gaussian_noise: 0.1}]"
    assert one(text, "checks.0.gaussian_noise.sigma=0.5") != one(text)
    assert one(text).checks == (GaussianNoise(0.1),)


@pytest.mark.parametrize("file", sorted(Path("recipes").glob("*.yaml")), ids=lambda file: file.name)
def test_the_recipes_that_come_along_can_be_read(file):
    assert load_recipes(file)


def composite(transform, fit, *, validation=0.1, check="fgsm: {linf: 0.1}"):
    """A recipe whose transformation is fitted."""
    mixing = f"{{probability: {{transform: {transform}}}}}"
    model = f"{{composite: {{standard: a, robust: b, mixing: {mixing}, fit: {fit}}}}}"
    return f"name: r\ndata: {{source: digits, validation: {validation}}}\nmodel: {model}\nchecks: [{check}]\n"


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (composite("true", "true"), composite("{}", "{}")),
        (composite("true", "false"), composite("{shift: -1.1}", "null")),
    ],
)
def test_an_optional_group_with_defaults_may_be_switched_on(short, long):
    assert parse_recipes(short) == parse_recipes(long)


def test_a_fit_takes_the_first_attack_among_the_checks():
    (recipe,) = parse_recipes(composite("{}", "true", check="clean, {fgsm: {linf: 0.1}}, {fgsm: {linf: 0.2}}"))
    assert fitting_attack(recipe.model.fit, recipe.checks) == FGSM(threat=Linf(0.1))
    (recipe,) = parse_recipes(composite("{}", "{attack: {pgd: {linf: 0.3}}}"))
    assert fitting_attack(recipe.model.fit, recipe.checks) == PGD(threat=Linf(0.3))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (composite("{}", "{keep: 2}"), "model.composite.fit: keep must lie in (0, 1]"),
        (composite("{}", "3"), "model.composite.fit.attack: expected one name with its fields"),
        (composite("null", "true"), "model.composite: fit: expected a mixing with a transformation to fit"),
        (composite("{correction: 0}", "true"), "fit: expected temperature 1 and correction 1"),
        (composite("{}", "true", validation=0), "model.fit needs data.validation > 0"),
        (
            composite("{}", "true", check="clean"),
            "model.fit: expected an attack in it or among the checks; got neither",
        ),
    ],
)
def test_a_fit_of_nothing_is_refused(text, says):
    assert says in error(text)


def test_recipes_with_a_transformation_aim_at_both_halves():
    """It masks gradients, so that attacks through it alone would be far too optimistic."""
    files = [*Path("recipes").rglob("*composite*.yaml"), Path("recipes/evidence/cifar10_pretrained.yaml")]
    mixings = [(one, getattr(one.model, "mixing", None)) for file in files for one in load_recipes(file)]
    transformed = [one for one, mixing in mixings if getattr(mixing, "transform", None) is not None]
    assert len(transformed) >= 5
    for recipe in transformed:
        assert {check.strength for check in recipe.checks if isinstance(check, Aimed)} >= {0.0, math.inf}
