"""Methods that a recipe names by their import paths run only with trust, and nothing of them is imported before."""

import json
import shutil
import sys
from dataclasses import replace

import pytest
import yaml

import holdfast
from holdfast.errors import CheckpointError, RecipeError
from holdfast.models import read_metadata, read_state, write_weights
from holdfast.recipe import Recipe, load_recipes, parse, parse_recipes, plain, to_yaml
from holdfast.recipe.foreign import Unresolved
from holdfast.recipe.strict import _foreign_entry
from holdfast.runs import code_of, load_model, resolved
from holdfast.runs.code import calls_of, require_trust
from tests.end_to_end.command import good, refused
from tests.plugged import ATTACK
from tests.training.tiny import TEXT

CODE = (
    "import pathlib\n\npathlib.Path('ran').touch()\n"
    + ATTACK
    + '''
from collections.abc import Sequence

from holdfast.types import Attack, Loss, Objective, Terms


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A loss times a number.

    Args:
        factor: the number.
        loss: the loss.
    """

    factor: float = 2.0
    loss: Loss

    def __call__(self, model, x, y, *, rng=None):
        return Terms(self.factor * self.loss(model(x), y).mean())


def gap(logits, y):
    """How far the label is from the largest logit."""
    return logits.amax(1) - logits.gather(1, y[:, None])[:, 0]


@dataclass(frozen=True)
class Faded:
    """Grey images."""

    share: float = 0.5

    def __call__(self, x, *, rng=None):
        return x + self.share * (0.5 - x)


class Plain:
    def __call__(self, x, *, rng=None):
        return x


@dataclass(frozen=True)
class Strange:
    """A field that no recipe can state."""

    given: "Nowhere"
'''
)
CHECKS = """
checks:
  - clean
  - python: {at: "theirs:Nudge", threat: {linf: 8/255}, share: 1}
  - eot: {attack: {python: {at: "theirs:Nudge", threat: {linf: 0.2}}}, draws: 2}
  - python: "theirs:Faded"
"""
RECIPE = TEXT.replace("name: tiny", "name: named") + CHECKS
OBJECTIVE = "{python: {at: 'theirs:Scaled', factor: 3, loss: {python: 'theirs:gap'}}}"


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(CODE)
    (tmp_path / "named.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()


def forget():
    """Let the module be imported anew."""
    sys.modules.pop("theirs", None)
    _foreign_entry.cache_clear()


def ran(place):
    forget()
    done = (place / "ran").exists()
    (place / "ran").unlink(missing_ok=True)
    return done


def test_reading_and_showing_a_recipe_imports_nothing(place):
    (recipe,) = load_recipes(place / "named.yaml")
    assert [isinstance(check, Unresolved) for check in recipe.checks] == [False, True, True, True]
    text = good("show", "named.yaml", cwd=place)
    first = text.partition("\n")[0]
    assert first.startswith("# Code that it would run, with --trust: ")
    assert 'theirs:Nudge {"share": 1, "threat": {"linf": "8/255"}} (' in first
    assert 'theirs:Nudge {"threat": {"linf": 0.2}} (' in first
    assert "theirs:Faded (" in first
    assert parse_recipes(text)[0].checks == recipe.checks
    assert not ran(place)


@pytest.mark.parametrize("verb", ["run", "train"])
def test_a_recipe_that_names_methods_is_refused_before_anything_is_imported(place, verb):
    line = refused(verb, "named.yaml", cwd=place)
    assert "named.yaml: expected --trust, since this recipe runs code that could do anything: theirs:Faded (" in line
    assert not ran(place)
    assert not (place / "runs").exists()


def test_a_trusted_recipe_runs_them_under_their_own_names(place):
    good("run", "named.yaml", "--trust", cwd=place)
    assert ran(place)
    ledger = holdfast.load_run("runs/named/seed-0").ledger
    rows = {row["check"]: row for row in ledger.unique("check").to_dicts()}
    row = rows["Nudge linf eps=8/255 share=1"]
    assert json.loads(row["params"]) == {"threat": {"linf": {"eps": 8 / 255}}, "share": 1}
    assert (row["method"], row["access"], row["thorough"]) == ("Nudge", "nothing", False)
    assert rows["Faded"]["kind"] == "corruption"
    assert "eot nudge linf eps=0.2 draws=2" in rows
    good("run", "named.yaml", cwd=place)  # it is remembered, and goes on
    (place / "theirs.py").write_text(CODE + "# changed\n")
    assert "expected --trust" in refused("run", "named.yaml", cwd=place)


def test_an_objective_with_a_loss_of_others_trains_and_its_network_needs_neither(place):
    (place / "named.yaml").write_text(RECIPE.replace("batch_size: 8", f"batch_size: 8, objective: {OBJECTIVE}"))
    assert OBJECTIVE in (place / "named.yaml").read_text()
    good("train", "named.yaml", "--trust", cwd=place)
    assert ran(place)
    assert load_model("runs/named/seed-0").model
    good("evaluate", "runs/named/seed-0", "--checks", "clean", cwd=place)
    assert not ran(place)


def test_the_checks_that_a_weights_file_names_need_trust(place):
    good("train", "named.yaml", "--trust", cwd=place)
    assert ran(place)
    line = refused("evaluate", "runs/named/seed-0", cwd=place)
    assert "best.safetensors: checks.1: calls theirs:Nudge" in line
    assert "allow it with --trust" in line
    assert not ran(place)
    good("evaluate", "runs/named/seed-0", "--trust", cwd=place)
    assert ran(place)


def test_what_the_user_types_is_allowed(place):
    good("train", "named.yaml", "--trust", cwd=place)
    assert ran(place)
    check = "{python: {at: 'theirs:Nudge', threat: {linf: 0.1}}}"
    good("evaluate", "runs/named/seed-0", "--checks", check, cwd=place)
    assert ran(place)
    assert "Nudge linf eps=0.1" in set(holdfast.load_run("runs/named/seed-0").ledger["check"])


def test_a_search_trusts_the_methods_that_it_names_whatever_fields_it_draws(place):
    changed = OBJECTIVE.replace("factor: 3", "factor: {search: log, low: 1, high: 3}")
    goal = "objective: {checks: [{python: {at: 'theirs:Nudge', threat: {linf: 0.1}}}], score: accuracy}"
    text = TEXT.replace("batch_size: 8", f"batch_size: 8, objective: {changed}")
    (place / "search.yaml").write_text(f"{text}search: {{trials: 2, sampler: random, {goal}}}\n")
    assert "expected --trust" in refused("search", "search.yaml", cwd=place)
    assert not ran(place)
    assert "Nudge linf eps=0.1" in good("search", "search.yaml", "--trust", cwd=place)
    assert ran(place)


def test_trust_tells_fields_apart(place):
    one = parse_recipes(RECIPE)[0].checks[1]
    (call,) = calls_of(one)
    require_trust(one, "here", trust=frozenset([call]))
    other = replace(one, stated={"python": {**one.stated["python"], "share": 0.5}})
    for trust in (False, frozenset([call])):
        with pytest.raises(RecipeError, match=r"here: calls theirs:Nudge.*allow it with --trust"):
            resolved(other, "here", trust=trust)
    assert not ran(place)
    assert resolved(one, trust=frozenset([call])).share == 1


def test_a_resolved_recipe_is_read_back_as_itself(place):
    (recipe,) = parse_recipes(RECIPE)
    ready = resolved(recipe, trust=True)
    again = parse(Recipe, plain(ready, Recipe))
    assert resolved(again, trust=True) == ready
    assert resolved(ready, trust=False) is ready
    assert list(code_of([again])) != []
    assert to_yaml(resolved(again, trust=True), Recipe) == to_yaml(ready, Recipe)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("{at: 'theirs:Nudge', threat: {linf: 0.1}, shares: 1}", "checks.1.python.shares: unknown name 'shares'"),
        ("{at: 'theirs:Nudge'}", "write, for example, {python: {at: theirs:Nudge, threat: {linf: 8/255}}}"),
        ("{at: 'theirs:Nudge', threat: {linf: 0.1}, share: a}", "checks.1.python.share: expected a number"),
        ("{at: 'theirs:Nowhere'}", "module 'theirs' has no 'Nowhere'"),
        ("{at: 'nowhere:Nudge'}", "cannot import 'nowhere': ModuleNotFoundError"),
        ("{at: 'theirs:Plain'}", "expected a frozen dataclass, an instance of one or a function; 'theirs:Plain'"),
        ("{at: 'theirs:Strange'}", "expected fields of types that a recipe can state; 'theirs:Strange' has others"),
    ],
)
def test_methods_are_read_as_strictly_as_ours(place, check, message):
    (recipe,) = parse_recipes(f"{TEXT}checks: [clean, {{python: {check}}}]")
    with pytest.raises(RecipeError) as caught:
        resolved(recipe, trust=True)
    assert message in str(caught.value)


@pytest.mark.parametrize("check", ["{share: 1}", "theirs", "3", "{at: 3}"])
def test_a_method_without_a_place_is_one_line(place, check):
    with pytest.raises(RecipeError, match=r"checks.*python: expected at: package.module:Name"):
        parse_recipes(f"{TEXT}checks: [clean, {{python: {check}}}]")


def test_python_needs_to_state_trust_too(place):
    with pytest.raises(RecipeError, match=r"checks.1: calls theirs:Nudge.*trust=True"):
        list(holdfast.run("named.yaml"))
    assert not ran(place)
    assert not (place / "runs").exists()
    list(holdfast.run("named.yaml", trust=True))
    assert ran(place)


def test_a_stored_choice_of_a_stranger_is_never_imported(place):
    good("train", "named.yaml", "--trust", cwd=place)
    assert ran(place)
    mixing = {"python": {"at": "theirs:Nudge", "threat": {"linf": 0.1}}}
    composite = {"standard": "a", "robust": "b", "mixing": mixing}
    for label in ("best", "last"):
        file = place / f"runs/named/seed-0/{label}.safetensors"
        metadata = read_metadata(file)
        hostile = {**yaml.safe_load(metadata["recipe"]), "model": {"composite": composite}}
        write_weights(file, read_state(file), {**metadata, "recipe": yaml.safe_dump(hostile)})
    with pytest.raises(CheckpointError, match="calls theirs:Nudge"):
        load_model("runs/named/seed-0")
    assert not ran(place)


def test_questions_and_tests_ask_for_no_code_that_they_do_not_run(place):
    text = RECIPE.replace("data: {", "data: {augment: [{python: 'theirs:Faded'}], ")
    assert text != RECIPE
    (place / "named.yaml").write_text(text)
    good("train", "named.yaml", "--trust", cwd=place)
    assert ran(place)
    good("analyse", "gradient-norm", "runs/named/seed-0", cwd=place)
    good("evaluate", "runs/named/seed-0", "--checks", "clean", cwd=place)
    good("evaluate", "runs/named/seed-0/last.safetensors", "--checks", "clean", cwd=place)
    assert not ran(place)
    line = refused("analyse", "segment", "runs/named/seed-0", cwd=place)  # with the attack of the run
    assert "best.safetensors: checks.1: calls theirs:Nudge" in line
    assert not ran(place)


def test_places_name_the_run_and_then_the_path_in_its_recipe(place):
    text = RECIPE.replace("share: 1}", "share: a}")
    with pytest.raises(RecipeError, match=r"^named/seed-0: checks.1: calls theirs:Nudge"):
        next(holdfast.run(yaml.safe_load(text)))
    with pytest.raises(RecipeError, match=r"^named/seed-0: checks.1.python.share: expected a number"):
        next(holdfast.run(yaml.safe_load(text), trust=True))


FLAT = """
import pathlib
from dataclasses import dataclass

from torch import nn

pathlib.Path('ran').touch()


@dataclass(frozen=True)
class Flat:
    width: int = 4

    def __call__(self, shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, self.width), nn.Linear(self.width, classes))
"""


@pytest.fixture
def flat(place):
    (place / "theirs.py").write_text(FLAT)
    text = TEXT.replace("{mlp: {hidden: [8]}}", "{python: {at: 'theirs:Flat', width: 3}}")
    (place / "flat.yaml").write_text(text.replace("name: tiny", "name: flat"))
    return "runs/flat/seed-0"


def test_an_architecture_by_its_import_path_is_trained_and_rebuilt_with_trust(flat, place):
    assert "expected --trust, since this recipe runs code" in refused("run", "flat.yaml", cwd=place)
    assert 'theirs:Flat {"width": 3} (' in good("show", "flat.yaml", cwd=place)
    assert not ran(place)
    good("run", "flat.yaml", "--trust", cwd=place)
    good("run", "flat.yaml", cwd=place)
    assert ran(place)
    assert "calls theirs:Flat" in refused("evaluate", flat, "--checks", "clean", cwd=place)
    with pytest.raises(CheckpointError, match="calls theirs:Flat"):
        load_model(flat)
    assert not ran(place)
    good("evaluate", flat, "--checks", "clean", "--trust", cwd=place)
    assert load_model(flat, trust=True).model[1].out_features == 3


def test_code_inside_the_networks_of_a_run_is_shown_and_trusted_where_a_question_takes_them(flat, place):
    good("train", "flat.yaml", "--trust", cwd=place)
    text = TEXT.replace("name: tiny", "name: asking") + f"analyses: [{{mixing: {{robust: {flat}, examples: 8}}}}]\n"
    (place / "asking.yaml").write_text(text)
    assert ran(place)
    assert 'runs code that could do anything: theirs:Flat {"width": 3} (' in refused("run", "asking.yaml", cwd=place)
    surface = f"{{surface: {{along: [fgsm@{flat}, random]}}}}"
    (recipe,) = parse_recipes(f"{TEXT}analyses: [{surface}]")
    assert [*code_of([recipe])] == ['theirs:Flat {"width": 3}']
    assert not ran(place)
    good("run", "asking.yaml", "--trust", cwd=place)


def test_show_lists_the_code_inside_a_composite(flat, place):
    good("train", "flat.yaml", "--trust", cwd=place)
    (place / "tiny.yaml").write_text(TEXT)
    good("train", "tiny.yaml", cwd=place)
    both = f"{{composite: {{standard: runs/tiny/seed-0, robust: {flat}, mixing: probability, strength: 2}}}}"
    (place / "both.yaml").write_text(
        TEXT.replace("{mlp: {hidden: [8]}}", both).replace("name: tiny", "name: both") + "checks: [clean]\n"
    )
    good("run", "both.yaml", "--trust", cwd=place)
    shutil.move(place / "runs/flat", place / "runs/gone")
    assert ran(place)
    assert 'theirs:Flat {"width": 3} (' in good("show", "runs/both/seed-0", cwd=place)
    assert not ran(place)
