"""What all adapters share, with libraries made up here; and what they say when their library is missing."""

import dataclasses
import importlib.util
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
import torch

from holdfast.attacks import ART, Foolbox, Torchattacks, foreign, libraries
from holdfast.errors import ModelError, RecipeError
from holdfast.results import Ledger
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from holdfast.types import Threat
from holdfast.wrappers import Counted
from tests.end_to_end.command import holdfast
from tests.training.tiny import TEXT
from tests.zoo import half_space, half_space_points, images, labels, linear, normed

ADAPTERS = {"foolbox": Foolbox, "torchattacks": Torchattacks, "art": ART}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter to a library whose only attack is `find`, a function of model, images, labels and seed."""

    find: Any
    threat: Threat
    attack: str = "Only"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    together: int = 1
    budgeted: bool = True
    dtypes: tuple = (torch.float32, torch.float64)

    __call__ = foreign.run

    @property
    def library(self):
        return libraries.Library("theirs", self._make, self.dtypes)

    def _make(self, wanted, model, *, targeted, seed):
        return libraries.Made(lambda x, labels: self.find(model, x, labels, seed), self.budgeted)


def subject(count=6):
    model = half_space()
    return model, *half_space_points(model, count)


def moved(by):
    """Goes a fixed distance (linf) towards the other side, wherever that is."""

    def find(model, x, labels, seed):
        normal = half_space().weight.sign().to(x)
        return x + by * (1 - 2 * labels.to(x))[:, None, None, None] * normal

    return find


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_point_in_the_threat_set_is_returned_as_it_is(share):
    model, x, y = subject()
    z = Adapter(find=moved(0.1 * share), threat=Linf(0.1))(model, x, y)
    torch.testing.assert_close(
        z - x, 0.1 * share * (1 - 2 * y.double())[:, None] * model.weight.sign(), rtol=0, atol=1e-12
    )


def test_a_point_beyond_eps_is_not_clipped_but_not_found():
    model, x, y = subject()
    with pytest.warns(RuntimeWarning, match=r"theirs Only: 6 of 6 points left the linf ball of 0.1 .* by up to 0.001"):
        z = Adapter(find=moved(0.101), threat=Linf(0.1))(model, x, y)
    assert torch.equal(z, x)


def test_an_attack_that_minimises_a_distance_may_go_beyond_eps_without_a_word():
    model, x, y = subject()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(Adapter(find=moved(0.101), threat=Linf(0.1), budgeted=False)(model, x, y), x)


def test_what_rounding_carries_outside_goes_back_to_the_ball():
    model, x, y = subject()
    z = Adapter(find=moved(0.1 + 5e-7), threat=Linf(0.1))(model, x, y)
    distance = Linf(0.1).distance(z, x)
    assert bool((distance <= 0.1 + 1e-15).all())
    assert bool((distance > 0.0999999).all())


@pytest.mark.parametrize("value", [-0.001, 1.001])
def test_a_point_outside_the_box_is_not_found(value):
    model, x, y = subject()

    def find(model, x, labels, seed):
        return x.flatten(1).index_fill(1, torch.tensor(3), value).view_as(x)

    with pytest.warns(RuntimeWarning, match="or the box, by up to 0.001"):
        z = Adapter(find=find, threat=L2(5.0))(model, x, y)
    assert torch.equal(z, x)


def test_values_that_a_library_in_float32_leaves_alone_keep_all_their_digits():
    model, x, y = subject()

    def find(model, x, labels, seed):
        assert x.dtype == next(model.parameters()).dtype == model(x).dtype == torch.float32
        return x.flatten(1).index_fill(1, torch.tensor(3), 0.25).view_as(x)

    z = Adapter(find=find, threat=L0(1), dtypes=(torch.float32,))(model, x, y)
    assert z.dtype == x.dtype
    assert (z != x).nonzero()[:, 1].tolist() == [3] * 6


def test_each_example_is_asked_about_on_its_own_and_only_if_it_stands():
    model, x, y = subject()
    y = torch.where(torch.arange(6) == 2, 1 - y, y)  # one that is wrong already
    seen = []

    def find(model, x, labels, seed):
        seen.append(len(x))
        for _ in range(1 + len(seen)):
            model(x.repeat(3, 1, 1, 1))
        model(x)
        return x

    counts = torch.zeros(6, dtype=torch.int64)
    z = Adapter(find=find, threat=Linf(0.1))(Counted(model, counts), x, y)
    assert torch.equal(z, x)
    assert seen == [1] * 5
    assert counts.tolist() == [1 + 3 * 2 + 1, 1 + 3 * 3 + 1, 1, 1 + 3 * 4 + 1, 1 + 3 * 5 + 1, 1 + 3 * 6 + 1]


def test_examples_handed_over_together_share_their_queries_evenly():
    model, x, y = subject()

    def find(model, x, labels, seed):
        model(x), model(x[:2]), model(x[:1])
        return x

    counts = torch.zeros(6, dtype=torch.int64)
    Adapter(find=find, threat=Linf(0.1), together=4)(Counted(model, counts), x, y)
    assert counts.tolist() == [1 + 2] * 3 + [1 + 1] + [1 + 3, 1 + 2]


def test_pieces_do_not_depend_on_who_is_lost_nor_on_batches_that_they_divide():
    model, x, y = subject(12)
    y = torch.where(torch.arange(12) == 1, 1 - y, y)

    def find(model, x, labels, seed):
        return x + 0.1 * torch.rand(x.shape, dtype=x.dtype)

    attack = Adapter(find=find, threat=Linf(0.1), together=3)
    whole = attack(model, x, y, rng=Streams(0, "a", 12))
    rows = torch.arange(12).split(6)
    assert torch.equal(whole, torch.cat([attack(model, x[r], y[r], rng=Streams(0, "a", r)) for r in rows]))
    assert whole[1].equal(x[1])


def test_random_numbers_and_seeds_are_of_the_example():
    model, x, y = subject()
    seeds = []

    def find(model, x, labels, seed):
        seeds.append(seed)
        return x + 0.1 * torch.rand(x.shape, dtype=x.dtype)

    attack = Adapter(find=find, threat=Linf(0.1))
    first = attack(model, x, y, rng=Streams(0, "a", 6))
    alone = attack(model, x[3:4], y[3:4], rng=Streams(0, "a", [3]))
    assert torch.equal(first[3:4], alone)
    assert seeds[3] == seeds[6]
    assert len(set(seeds)) == 6


def test_labels_are_those_to_leave_or_those_to_go_to():
    model, x, y = linear(5), images(6), labels(6, 5)
    y, target = model(x).argmax(1), (model(x).argmax(1) + 2) % 5
    heard = []

    def find(model, x, labels, seed):
        heard.append(int(labels))
        assert model.classes == 5
        return x

    Adapter(find=find, threat=Linf(0.1))(model, x, y)
    Adapter(find=find, threat=Linf(0.1))(model, x, y, target=target)
    assert heard == [*y.tolist(), *target.tolist()]


def test_a_library_cannot_reach_the_model():
    network = normed().train()

    def find(model, x, labels, seed):
        assert not model.training
        model.train()
        x.requires_grad_()
        model(x).sum().backward()
        assert bool((x.grad != 0).any())
        model.zero_grad()
        model.requires_grad_(False)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        return x

    before = {name: weight.clone() for name, weight in network.named_parameters()}
    Adapter(find=find, threat=Linf(0.1))(network, images(3), labels(3, 3))
    assert network.training
    for name, weight in network.named_parameters():
        assert weight.grad is None
        assert weight.requires_grad
        assert torch.equal(weight, before[name])


@pytest.mark.parametrize(
    ("find", "kind", "message"),
    [
        (
            lambda m, x, y, s: x[:, :, :, :1],
            ModelError,
            "theirs Only: expected points like the images; got points of shape",
        ),
        (lambda m, x, y, s: x / 0, ModelError, "theirs Only: .* not finite"),
        (lambda m, x, y, s: {}["steps"], RecipeError, "^theirs Only: KeyError: 'steps'$"),
        (lambda m, x, y, s: int("many"), RecipeError, "^theirs Only: invalid literal for int"),
    ],
)
def test_what_a_library_does_wrong_is_one_line_with_its_name(find, kind, message):
    with pytest.raises(kind, match=message):
        Adapter(find=find, threat=Linf(0.1))(*subject())


def test_an_error_of_the_model_stays_one():
    model, x, y = subject()

    def find(model, x, labels, seed):
        x.requires_grad_()
        torch.autograd.grad(model(x).sum(), x)

    with pytest.raises(ModelError, match="no gradient"):
        Adapter(find=find, threat=Linf(0.1))(lambda x: model(x).detach(), x, y)


@pytest.mark.parametrize(
    ("name", "install"),
    [("foolbox", "'holdfast[foolbox]'"), ("torchattacks", "--no-deps torchattacks"), ("art", "'holdfast[art]'")],
)
def test_a_missing_library_is_an_error_when_it_is_needed_and_says_what_to_install(name, install, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda wanted: None if wanted == name else find_spec(wanted))
    monkeypatch.setitem(sys.modules, name, None)
    for module in [m for m in sys.modules if m.startswith(f"{name}.")]:
        monkeypatch.delitem(sys.modules, module)
    attack = ADAPTERS[name](attack="PGD", threat=Linf(0.1))  # a run's recipe can be read without it
    with pytest.raises(RecipeError, match=rf"^cannot import {name} .*; pip install {re.escape(install)}$"):
        attack(*subject())


@pytest.mark.parametrize("name", ADAPTERS)
def test_no_library_is_needed_to_refuse_what_no_library_can_do(name):
    class Everywhere(Linf):
        pass

    with pytest.raises(ValueError, match="together must be at least 1, got 0"):
        ADAPTERS[name](attack="PGD", threat=Linf(0.1), together=0)
    with pytest.raises(ValueError, match=f"{name} has no everywhere attack; threats that it has: linf, l2, l1, l0"):
        ADAPTERS[name](attack="PGD", threat=Everywhere(0.1))


def test_importing_the_attacks_imports_no_library():
    code = (
        "import holdfast.attacks, holdfast.recipe, sys; print(*({'foolbox', 'torchattacks', 'art'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_recipe_with_attacks_of_all_libraries_lands_in_one_ledger(tmp_path):
    for name in ADAPTERS:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    (tmp_path / "tiny.yaml").write_text(
        TEXT.replace("subset: 40", "subset: 400, test_subset: 20")
        + """
checks:
  - foolbox: {attack: LinfPGD, threat: {linf: 8/255}, options: {steps: 3}}
  - torchattacks: {attack: PGD, threat: {linf: 8/255}, options: {steps: 4, alpha: 2/255}}
  - art: {attack: ProjectedGradientDescent, threat: {l2: 0.5}, options: {max_iter: 5}, together: 20}
"""
    )
    done = holdfast("run", "tiny.yaml", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    rows = Ledger(tmp_path / "runs/tiny/seed-0/ledger").read().filter(pl.col("weights") == "best")
    expected = {
        "foolbox attack=LinfPGD linf eps=8/255 steps=3": ("foolbox", "linf", 8 / 255, {2, 5}),
        "torchattacks attack=PGD linf eps=8/255 alpha=2/255 steps=4": ("torchattacks", "linf", 8 / 255, {2, 6}),
        "art attack=ProjectedGradientDescent l2 eps=0.5 max_iter=5 together=20": ("art", "l2", 0.5, {2, 9}),
    }
    assert set(rows["check"]) == set(expected)
    for label, (method, norm, eps, queries) in expected.items():
        mine = rows.filter(pl.col("check") == label)
        assert len(mine) == 20
        assert (set(mine["method"]), set(mine["norm"])) == ({method}, {norm})
        assert 0 < mine["distance"].max() <= eps * (1 + 1e-6)
        assert set(mine["queries"]) == queries  # lost already, or attacked; one is the final look of the ledger


def test_slips_in_a_recipe_are_told_with_their_place(tmp_path):
    pytest.importorskip("foolbox")
    (tmp_path / "tiny.yaml").write_text(TEXT + "checks:\n  - foolbox: {attack: LinfPDG, threat: {linf: 0.1}}\n")
    done = holdfast("run", "tiny.yaml", cwd=tmp_path)
    assert done.code == 2
    assert "tiny.yaml:7: checks.0.foolbox: attack: unknown name 'LinfPDG'; known: " in done.err
    assert "Did you mean 'LinfPGD'?" in done.err


def test_the_orders_are_those_of_the_norms():
    x, z = images(3), images(3, seed=1)
    for kind in (Linf, L2, L1, L0):
        by_order = torch.linalg.vector_norm((z - x).flatten(1), libraries.ORDERS[kind], dim=1)
        torch.testing.assert_close(kind(1).distance(z, x), by_order)
