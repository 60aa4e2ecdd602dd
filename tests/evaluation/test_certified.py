"""Certifiers as checks: rows by hand, blocks, budget, and what a broken one must not do."""

import copy
import dataclasses
import itertools
import math
import re

import numpy as np
import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import PGD
from holdfast.certify import CERTIFIERS, Margin
from holdfast.corruptions import Clean
from holdfast.data import Split
from holdfast.errors import ModelError
from holdfast.evaluation import Subject, evaluations
from holdfast.recipe import EvaluateRecipe
from holdfast.results import SCHEMA, Ledger
from holdfast.rng import Streams, streams
from holdfast.threat import L2
from holdfast.types import ABSTAIN, Certificate
from holdfast.wrappers import narrow
from tests import zoo
from tests.contracts import cheap


@dataclasses.dataclass(frozen=True, kw_only=True)
class Votes:
    """Asks about noisy copies, twice as often about the first half; abstains unless all agree."""

    sigma: float = 0.1
    n: int = 4
    norm = "l2"
    smoothed = True

    def __call__(self, model, x, *, rng=None):
        rng = streams(rng, x)
        votes = torch.stack([self.vote(model, x, rng) for _ in range(self.n)])
        first = torch.arange((len(x) + 1) // 2)
        for _ in range(self.n):
            self.vote(narrow(model, first), x[first], rng[first])
        agree = (votes == votes[0]).all(0)
        samples = self.n + self.n * (torch.arange(len(x)) < len(first))
        return Certificate(torch.where(agree, votes[0], ABSTAIN), agree.double() * self.sigma, samples)

    def vote(self, model, x, rng):
        return model(x + self.sigma * rng.normal(x)).argmax(1)


def data(count=40, *, classes=5):
    return Split(zoo.images(count, dtype=torch.float32), zoo.labels(count, classes), torch.arange(count) + 3)


def rows(model, split, checks, **how):
    blocks = evaluations(Subject(model, hash="h"), split, checks, how=EvaluateRecipe(**how))
    return pl.concat([block.rows for block in blocks if block.rows is not None])


def test_rows_are_those_by_hand_on_a_half_space():
    model = zoo.HalfSpace(torch.tensor([1.0, -2.0]), torch.tensor(0.5))
    x = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9], [0.5, 0.4]]).view(4, 1, 1, 2)
    y = torch.tensor([0, 1, 0, 0])
    frame = holdfast.evaluate(model, x, y, Margin(constant=2.0)).rows
    # Signed 0, 1.2, -1.2 and 0.2: margins of twice that, over sqrt(2) times the constant 2.
    assert dict(frame.schema) == SCHEMA
    assert frame["prediction"].to_list() == [-1, 1, 0, 1]
    assert frame["correct"].to_list() == [False, True, True, False]
    assert frame["radius"].to_list() == pytest.approx([0, 2.4 / math.sqrt(8), 2.4 / math.sqrt(8), 0.4 / math.sqrt(8)])
    said = frame.row(1, named=True)
    assert (said["method"], said["check"], said["norm"]) == ("margin", "margin constant=2", "l2")
    assert (said["loss"], said["distance"], said["queries"], said["by"], said["steps"]) == (None, 0, 1, None, None)


def test_the_bound_of_the_network_is_found_from_its_weights():
    model, split = zoo.linear(5, dtype=torch.float32), data()
    frame = rows(model, split, [Margin()], batch_size=7)
    exact = copy.deepcopy(model).double()
    with torch.no_grad():
        weight, logits = exact.weight.detach(), exact(split.x.double())
    first = logits.argmax(1, keepdim=True)
    lead = logits.gather(1, first) - logits
    apart = (weight[first] - weight).norm(dim=2)
    distances = (lead / apart).scatter(1, first, math.inf).amin(1)  # of a linear network, to the nearest hyperplane
    assert frame["radius"].to_list() == pytest.approx(distances.tolist())


@pytest.mark.parametrize("name", CERTIFIERS)
def test_every_certifier_is_a_check(name):
    certifier, split, model = cheap.cheap(cheap.CERTIFIERS, name, "CERTIFIERS"), data(6), zoo.smooth()
    certifier = cheap.bound(certifier, 5)
    if isinstance(certifier, cheap.OfMixture):
        certifier, model = certifier.certifier, certifier.composite(model)
    frame, alone = rows(model, split, [certifier]), Streams(0, "check", split.index)
    found = certifier(model, split.x.double(), rng=alone)
    assert set(frame["method"]) == {name}
    assert set(frame["norm"]) == {certifier.norm}
    assert frame["prediction"].to_list() == found.prediction.tolist()
    assert frame["radius"].to_list() == pytest.approx(found.radius.tolist(), rel=1e-9)
    assert frame["queries"].to_list() == ([1] * 6 if found.samples is None else found.samples.tolist())


def test_queries_are_counted_for_each_image():
    frame = rows(zoo.smooth(), data(10), [Votes(n=3)], batch_size=4)
    # Batches of 4, 4 and 2: the first half of each is asked twice as often.
    assert frame["queries"].to_list() == [6, 6, 3, 3, 6, 6, 3, 3, 6, 3]
    assert frame["seconds"].min() > 0


def test_abstaining_is_neither_right_nor_certified():
    frame = rows(zoo.smooth(), data(), [Votes(sigma=0.5)])
    silent = frame.filter(pl.col("prediction") == ABSTAIN)
    assert 0 < len(silent) < len(frame)
    assert not silent["correct"].any()
    assert set(silent["radius"]) == {0.0}


def test_a_summary_tells_radii_and_the_worst_case_leaves_them_out():
    results = holdfast.evaluate(zoo.smooth(), data().x, data().y, [Clean(), Votes(sigma=0.5), PGD(threat=L2(0.1))])
    assert results.worst_case["checks"].to_list() == [["clean", "pgd l2 eps=0.1"]]
    (row,) = results.certified.to_dicts()
    assert re.search(rf"Votes sigma=0.5 .*{row['average']:.3g}", str(results))


@pytest.mark.parametrize("size", [1, 7])
def test_nothing_depends_on_the_batch_size(size):
    model, exact = zoo.smooth(), ["example", "prediction", "correct"]
    one, whole = (rows(model, data(), [Margin(), Votes()], batch_size=b) for b in (size, 256))
    assert one.select(exact).equals(whole.select(exact))
    assert np.allclose(one["radius"], whole["radius"], rtol=1e-9)


CHECKS = [Votes(), Margin()]


def ledger_run(path, *, stop=None, checks=CHECKS, **how):
    fields = {"block": 30, "batch_size": 7, **how}
    work = evaluations(
        Subject(zoo.smooth(), hash="h"), data(), checks, how=EvaluateRecipe(**fields), ledger=Ledger(path),
        gallery=path / "gallery", points=path / "points",
    )  # fmt: skip
    return list(itertools.islice(work, stop))


def test_interrupted_after_any_block_the_ledger_ends_up_the_same(tmp_path):
    whole = ledger_run(tmp_path / "whole")
    # By sampling in blocks of 16, since an image may take long; the margin in those of the recipe.
    assert [block.done for block in whole] == [16, 32, 40, 70, 80]
    expected = Ledger(tmp_path / "whole").read().drop("seconds")
    for stop in range(len(whole)):
        ledger_run(tmp_path / str(stop), stop=stop)
        again = ledger_run(tmp_path / str(stop))
        assert [block.stored for block in again] == [True] * stop + [False] * (len(whole) - stop)
        assert Ledger(tmp_path / str(stop)).read().drop("seconds").equals(expected)


def test_small_blocks_of_the_recipe_stay(tmp_path):
    assert [block.done for block in ledger_run(tmp_path, block=10, checks=[Votes()])] == [10, 20, 30, 40]


def test_there_are_no_images_to_keep(tmp_path):
    ledger_run(tmp_path)
    assert not (tmp_path / "gallery").exists()
    assert not (tmp_path / "points").exists()


def test_the_seed_of_the_evaluation_is_that_of_the_noise():
    def votes(seed):
        blocks = evaluations(Subject(zoo.smooth()), data(), [Votes(sigma=0.5)], seed=seed)
        return pl.concat([block.rows for block in blocks])["prediction"].to_list()

    assert votes(0) == votes(0) != votes(1)


@pytest.mark.parametrize("check", [Votes(), Margin()])
def test_without_time_nothing_is_run_and_that_is_said(check):
    results = holdfast.evaluate(zoo.smooth(), data().x, data().y, check, settings=EvaluateRecipe(budget=0.0))
    assert results.rows.is_empty()
    (count,) = results.not_run.values()
    assert count == 40


def broken(x):
    logits = zoo.smooth()(x.double())
    logits[x[:, 0, 0, 0] > 0.9, 0] = torch.nan
    return logits


@pytest.mark.parametrize("check", [Votes(), Margin(constant=1.0)])
def test_logits_that_are_nan_are_never_certified(check):
    with pytest.raises(ModelError, match="logits are NaN for"):
        holdfast.evaluate(broken, data().x, data().y, check)


@pytest.mark.parametrize(
    ("prediction", "radius", "says"),
    [(0, -0.1, "got -0.1 for 40 of 40"), (0, math.inf, "got inf"), (-1, 0.5, "got 0.5")],
)
def test_an_impossible_certificate_is_refused(prediction, radius, says):
    class Wrong:
        norm, smoothed = "l2", False

        def __call__(self, model, x, *, rng=None):
            return Certificate(torch.full((len(x),), prediction), torch.full((len(x),), radius, dtype=torch.float64))

    with pytest.raises(ModelError, match=f"Wrong: expected a finite radius, 0 where it abstains; {says}"):
        holdfast.evaluate(zoo.smooth(), data().x, data().y, Wrong())


@pytest.mark.filterwarnings("ignore:inputs of the first batch normalisation")  # it was never trained
def test_modes_and_gradients_are_left_alone():
    model = zoo.with_dropout()
    modes = [module.training for module in model.modules()]
    one, two = (holdfast.evaluate(model, zoo.images(6), zoo.labels(6, 3), [Margin(), Votes()]).rows for _ in range(2))
    assert one.drop("seconds").equals(two.drop("seconds"))
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
