"""Decision-based attacks on a published network that sees nearly all uniform noise as an eight."""

import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import Boundary, HopSkipJump, Targeted
from holdfast.attacks.decision import NOISE
from holdfast.threat import L2, Linf
from tests.reference.mnist import lenet, mnist, needed

pytestmark = needed

ATTACKS = [
    HopSkipJump(threat=L2(20.0), steps=1, samples=10),
    HopSkipJump(threat=Linf(1.0), steps=1, samples=10),
    Boundary(threat=L2(20.0), steps=10),
]


def right(count):
    """The first images that the network gets right."""
    model, (x, y) = lenet("standard"), mnist(count)
    with torch.no_grad():
        rows = (model(x).argmax(1) == y).nonzero()[:, 0]
    return model, x[rows], y[rows]


@pytest.mark.parametrize("attack", ATTACKS, ids=["hopskipjump-l2", "hopskipjump-linf", "boundary"])
def test_every_eight_is_broken_at_an_eps_that_holds_all_images(attack):
    # From 100 images of uniform noise alone, 4 of 20 had no start and counted as robust.
    model, x, y = right(300)
    eights = (y == 8).nonzero()[:20, 0]
    assert len(eights) == 20
    with torch.no_grad():
        assert bool((model(attack(model, x[eights], y[eights])).argmax(1) != 8).all())
    others = (y != 8).nonzero()[:30, 0]
    rows = torch.cat([eights, others])
    results = holdfast.evaluate(model, x[rows], y[rows], attack).rows.filter(pl.col("label") == 8)
    assert not results["correct"].any()
    assert results["not_run"].null_count() == 20


@pytest.mark.parametrize("attack", ATTACKS, ids=["hopskipjump-l2", "hopskipjump-linf", "boundary"])
def test_every_target_is_reached_from_the_images_of_the_data(attack, monkeypatch):
    # From noise, 32 of 40 images were not led to the class after theirs; FAB leads all of them there.
    model, x, y = right(100)
    results = holdfast.evaluate(model, x[:40], y[:40], Targeted(attack=attack)).rows
    assert results["prediction"].to_list() == ((y[:40] + 1) % 10).tolist()
    monkeypatch.setattr("holdfast.attacks.decision.NOISE", NOISE[:1])
    alone = (y == 3).nonzero()[0]  # and no image, nor any noise, is seen as a four
    few = holdfast.evaluate(model, x[alone], y[alone], Targeted(attack=attack))
    assert few.rows["not_run"].to_list() == ["no starting point"]
    assert few.table["unsettled"].to_list() == [1]
