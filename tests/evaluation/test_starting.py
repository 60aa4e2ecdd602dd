"""What evaluation gives decision-based attacks to start from, and what it says of examples that had no start."""

from dataclasses import dataclass

import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import EOT, FGSM, PGD, Boundary, EightBit, HopSkipJump, StartingFrom, Targeted
from holdfast.attacks.decision import NOISE
from holdfast.data import Split
from holdfast.errors import RecipeError
from holdfast.evaluation import Subject, evaluations
from holdfast.evaluation.starting import IMAGES, first_of_each_class
from holdfast.recipe import EvaluateRecipe
from holdfast.results import Ledger, accuracies
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.types import Threat

HOPSKIPJUMP = HopSkipJump(threat=L2(5.0), steps=10, samples=60, starts=3)
ATTACKS = {
    "hopskipjump": HOPSKIPJUMP,
    "boundary": Boundary(threat=L2(5.0), steps=500, starts=3),
    "targeted": Targeted(attack=HOPSKIPJUMP),
    "eot": EOT(attack=HOPSKIPJUMP, draws=1),
}


@pytest.fixture(autouse=True)
def _uniform_noise_alone(monkeypatch):
    monkeypatch.setattr("holdfast.attacks.decision.NOISE", NOISE[:1])


class Bright(torch.nn.Module):
    """Class 1 where the mean of the image exceeds 0.72, which uniform noise of 25 values does not: 3.8 deviations."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(50.0))

    def forward(self, z):
        signed = z.flatten(1).mean(1) - 0.72
        return torch.stack([torch.zeros_like(signed), self.slope * signed], 1)


def grey(count, seed=0):
    """Images of class 0, of which the other half-space is at this distance; the box is farther."""
    x = 0.4 + 0.2 * Streams(seed, "grey", count).uniform(torch.zeros(count, 1, 5, 5))
    return x, 5 * (0.72 - x.flatten(1).mean(1))


def both(count=6):
    """Grey images and, at the end, three of the other class."""
    x, distance = grey(count)
    bright = 0.9 + 0.05 * Streams(1, "bright", 3).uniform(torch.zeros(3, 1, 5, 5))
    return torch.cat([x, bright]), torch.tensor([0] * count + [1] * 3), distance


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_images_of_the_data_start_what_noise_does_not(attack):
    x, y, truth = both()
    results = holdfast.evaluate(Bright(), x, y, attack)
    grey_rows = results.rows.filter(pl.col("label") == 0)
    found = torch.tensor(grey_rows["distance"].to_list())
    assert not grey_rows["correct"].any()
    assert bool((found >= truth - 1e-5).all())
    assert bool((found <= 1.2 * truth).all())
    assert results.rows["not_run"].null_count() == len(x)
    assert "not attacked" not in str(results)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_example_without_a_start_is_not_counted_as_robust(attack):
    x, _ = grey(6)
    y = torch.tensor([0, 0, 0, 0, 0, 1])  # the last is wrong, and needs no attack
    results = holdfast.evaluate(Bright(), x, y, attack)
    assert results.rows["not_run"].to_list() == ["no starting point"] * 5 + [None]
    row = results.table.row(0, named=True)
    assert (row["correct"], row["unsettled"], row["not_attacked"], row["reason"]) == (5, 5, 5, "no starting point")
    assert "5 examples not attacked (no starting point)" in str(results)
    assert "at most" in str(results)
    worst = results.worst_case.row(0, named=True)
    assert (worst["unsettled"], worst["not_attacked"], worst["reason"]) == (5, 5, "no starting point")


def test_what_another_method_breaks_after_it_needs_no_start():
    x, y, _ = both(4)
    attack = EightBit(attack=HopSkipJump(threat=L2(5.0), steps=1, starts=1), repairs=300)
    rows = holdfast.evaluate(Bright(), x[:4], y[:4], attack).rows
    assert not rows["correct"].any()
    assert rows["not_run"].null_count() == 4


def test_results_do_not_depend_on_batches():
    x, y, _ = both(7)
    runs = [
        holdfast.evaluate(Bright().double(), x, y, HOPSKIPJUMP, settings=EvaluateRecipe(batch_size=size)).rows
        for size in (1, 4, 64)
    ]
    for rows in runs[1:]:
        assert rows["distance"].to_list() == pytest.approx(runs[0]["distance"].to_list(), abs=1e-9)
        assert rows["not_run"].equals(runs[0]["not_run"])


@pytest.mark.parametrize("started", [True, False])
def test_a_block_that_is_run_again_has_the_same_rows(tmp_path, started):
    x, y, _ = both(7)
    count = 10 if started else 7
    split = Split(x[:count], y[:count], torch.arange(count).flip(0))
    ledger, how = Ledger(tmp_path), EvaluateRecipe(batch_size=2, block=3)

    def run():
        list(evaluations(Subject(Bright().double()), split, [HOPSKIPJUMP], how=how, ledger=ledger))
        return ledger.read().drop("seconds")

    whole = run()
    assert whole["not_run"].null_count() == (10 if started else 0)
    for number in (0, 2):
        ledger.parts()[number].unlink()
        assert run().equals(whole)


def test_the_images_are_the_first_that_the_model_sees_as_each_class():
    x = torch.linspace(0, 1, 400)[:, None, None, None].expand(400, 1, 2, 2)
    split = Split(x, torch.arange(400) % 4, torch.arange(400))

    def model(z):  # four equal parts, so that labels do not matter
        return torch.nn.functional.one_hot((4 * z[:, 0, 0, 0]).clamp(max=3.9).long(), 4).float()

    for size in (7, 1000):
        pool = first_of_each_class(model, split, size)
        assert torch.bincount(pool.classes).tolist() == [IMAGES // 4] * 4
        assert torch.equal(model(pool.images).argmax(1), pool.classes)
        assert torch.equal(pool.images[: IMAGES // 4], x[: IMAGES // 4])


def test_no_more_of_the_data_is_asked_about_than_needed():
    x, y, _ = both(6)
    order = [6] * 60 + [0] * 60 + [7] * 9
    sizes = []

    def model(z):
        sizes.append(len(z))
        return Bright()(z)

    first_of_each_class(model, Split(x[order], y[order], torch.arange(129)), 8)
    assert sum(sizes) == 112  # sixty of one class and then the fifty of the other, in batches of eight


def test_attacks_that_start_at_the_image_ask_for_no_others(monkeypatch):
    monkeypatch.setattr("holdfast.evaluation.setting.first_of_each_class", None)
    x, y, _ = both(6)
    holdfast.evaluate(Bright(), x, y, PGD(threat=Linf(0.01), steps=1))
    with pytest.raises(TypeError):
        holdfast.evaluate(Bright(), x, y, HOPSKIPJUMP)


def test_starting_images_of_a_check_are_refused_since_the_ledger_could_not_name_them():
    x, y, _ = both()
    for check in (StartingFrom(attack=HOPSKIPJUMP, images=x), EOT(attack=StartingFrom(attack=HOPSKIPJUMP, images=x))):
        with pytest.raises(RecipeError, match="without StartingFrom: evaluation starts from its own images"):
            holdfast.evaluate(Bright(), x, y, check)


@dataclass(frozen=True)
class Both:
    """A composed attack whose first component needs a start."""

    threat: Threat

    def components(self):
        return {
            "walk": HopSkipJump(threat=self.threat, steps=2, samples=10, starts=2),
            "climb": FGSM(threat=self.threat),
        }

    def __call__(self, model, x, y, *, target=None, rng=None):
        raise NotImplementedError


@pytest.mark.parametrize("order", ["published", "yield"])
def test_a_component_that_could_not_run_leaves_an_upper_bound_unless_another_breaks_the_example(
    tmp_path, monkeypatch, order
):
    monkeypatch.setattr("holdfast.evaluation.setting.describe", lambda check, kind: ("both", "both", "{}"))
    x, distance = grey(6)
    eps = float(distance.sort().values[2:4].mean())
    split, how = Split(x, torch.zeros(6, dtype=torch.int64), torch.arange(6)), EvaluateRecipe(block=4, order=order)
    ledger, queries = Ledger(tmp_path), set()
    for _ in range(2):  # a second visit changes nothing
        list(evaluations(Subject(Bright()), split, [Both(L2(eps))], how=how, ledger=ledger))
        rows = ledger.read()
        broken = (distance < eps).tolist()
        assert rows["correct"].to_list() == [not one for one in broken]
        assert rows["not_run"].to_list() == [None if one else "walk: no starting point" for one in broken]
        assert accuracies(rows)["unsettled"].to_list() == [6 - sum(broken)]
        queries.add(tuple(rows["queries"]))
    assert len(queries) == 1
