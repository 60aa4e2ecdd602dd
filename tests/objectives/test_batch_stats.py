"""Which statistics the attack and the loss see, and which of them move, on a small network with BatchNorm."""

import copy

import pytest
import torch
from torch import nn

from holdfast.attacks import FGSM
from holdfast.modes import evaluating
from holdfast.objectives import MMA, TRADES, Adversarial, Fast
from holdfast.objectives.batch_stats import BATCH_STATS, Statistics, normalisations
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module
from holdfast.threat import Linf
from tests.zoo import frozen_norm, images, labels, normed, smooth

COUNT = 8
X, Y = images(COUNT), labels(COUNT, 3)
BALL = Linf(0.2)


def network():
    """In train mode, with statistics that are not those of a new network."""
    model = normed(dropout=0.5).train()
    with torch.no_grad(), evaluating(model.dropout):
        model(0.3 + 0.2 * images(COUNT, seed=9))
    return model


def statistics(model):
    return [model.norm.running_mean.clone(), model.norm.running_var.clone(), int(model.norm.num_batches_tracked)]


def normalised(model, x):
    """What the layer makes of a batch: by its own statistics, or by the running ones."""
    hidden = model.convolution(x)
    return hidden, model.norm(hidden)


@pytest.mark.parametrize("kind", BATCH_STATS)
def test_an_attack_moves_nothing_and_leaves_every_flag_as_it_was(kind):
    model, seen = network(), []
    treated = Statistics(kind, model)
    model.dropout.register_forward_hook(lambda module, *_: seen.append(module.training))
    with same_module(model):
        for clean in (True, False):
            with treated.attacking(model, clean=clean), torch.no_grad():
                model(X)
    assert seen == [False, False]
    assert model.norm.track_running_stats


def test_frozen_attacks_see_running_statistics():
    model = network()
    with Statistics("frozen", model).attacking(model):
        hidden, found = normalised(model, X)
    mean, var, _ = statistics(model)
    expected = (hidden - mean[:, None, None]) / (var[:, None, None] + model.norm.eps).sqrt()
    torch.testing.assert_close(found, expected * model.norm.weight[:, None, None] + model.norm.bias[:, None, None])


def test_mixed_attacks_see_those_of_the_batch():
    model = network()
    with Statistics("mixed", model).attacking(model):
        hidden, found = normalised(model, X)
    mean, var = hidden.mean((0, 2, 3)), hidden.var((0, 2, 3), unbiased=False)
    expected = (hidden - mean[:, None, None]) / (var[:, None, None] + model.norm.eps).sqrt()
    torch.testing.assert_close(found, expected * model.norm.weight[:, None, None] + model.norm.bias[:, None, None])


@pytest.mark.parametrize("kind", BATCH_STATS)
def test_a_layer_frozen_by_hand_stays_frozen(kind):
    model = frozen_norm()
    treated = Statistics(kind, model)
    with same_module(model), treated.attacking(model), torch.no_grad():
        assert not model.norm.training
        model(X)
    with same_module(model), treated.clean(model), torch.no_grad():
        model(X)


def moved(model, x):
    """Statistics of a copy after it has seen a batch in train mode."""
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied(x)
    return statistics(copied)


@pytest.mark.parametrize(("kind", "kept", "other"), [("split", "clean", "adversarial"),
                                                     ("split_adversarial", "adversarial", "clean")])  # fmt: skip
def test_split_moves_each_kind_by_its_own_batches(kind, kept, other):
    model, z = network(), images(COUNT, seed=3)
    treated = Statistics(kind, model)
    start = copy.deepcopy(model)
    with torch.no_grad():
        with getattr(treated, kept)(model):
            model(X)
        with getattr(treated, other)(model):
            model(z)
    assert_same(statistics(model), moved(start, X))
    aside = [treated.running_mean_0, treated.running_var_0, int(treated.num_batches_tracked_0)]
    assert_same(aside, moved(start, z))
    # Attacks see the adversarial ones, in eval mode, and clean images the clean ones.
    for clean, expected in ((kept == "clean", statistics(model)), (kept != "clean", aside)):
        with treated.attacking(model, clean=clean):
            assert_same(statistics(model), expected)


def assert_same(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(torch.as_tensor(mine), torch.as_tensor(theirs))


def trades(model, kind):
    """An epoch of one batch, with the points that it used."""
    work = TRADES(threat=BALL, steps=2, batch_stats=kind).hooks.start(model, 3, torch.arange(COUNT))
    z = work.search(model, X, Y, rng=Streams(0, "", COUNT))
    work.loss(model, X, Y, z)
    return work, z


@pytest.mark.parametrize("kind", BATCH_STATS)
def test_the_loss_moves_the_statistics_that_evaluation_uses(kind):
    model = network()
    model.dropout.p = 0.0
    start = copy.deepcopy(model)
    _, z = trades(model, kind)
    if kind == "split":
        expected = moved(start, X)
    elif kind == "split_adversarial":
        expected = moved(start, z)
    else:  # both, one after the other
        with torch.no_grad():
            start(X)
        expected = moved(start, z)
    assert_same(statistics(model), expected)


def test_attacks_find_other_points_with_other_statistics():
    points = []
    for kind in BATCH_STATS:
        model = network()
        model.dropout.p = 0.0
        work, _ = trades(model, kind)  # after one batch the statistics of the two kinds differ
        points.append(work.search(model, X, Y, rng=Streams(1, "", COUNT)))
    assert not any(torch.equal(points[i], points[j]) for i in range(3) for j in range(i))
    assert torch.equal(points[2], points[3])  # which statistics the network keeps is no matter to the attack


@pytest.mark.parametrize("make", [
    lambda kind: Adversarial(attack=FGSM(threat=BALL), batch_stats=kind),
    lambda kind: Fast(threat=BALL, batch_stats=kind),
])  # fmt: skip
def test_without_a_clean_loss_split_shows_the_clean_images_once_more(make):
    model, objective = network(), make("split")
    model.dropout.p = 0.0
    start = copy.deepcopy(model)
    work = objective.hooks.start(model, 3, torch.arange(COUNT))
    z = work.search(model, X, Y, rng=Streams(0, "", COUNT))
    terms = work.loss(model, X, Y, z)
    assert_same(statistics(model), moved(start, X))
    assert_same([work.statistics.running_mean_0], moved(start, z)[:1])
    assert objective.passes.forward == make("frozen").passes.forward + 1
    plain = make("frozen").hooks.start(start, 3, torch.arange(COUNT))
    torch.testing.assert_close(terms.total, plain.loss(start, X, Y, z).total)  # train mode normalises by the batch


def test_mma_searches_with_the_statistics_it_is_told():
    model, points = network(), []
    model.dropout.p = 0.0
    with torch.no_grad(), evaluating(model):
        model.head.weight.mul_(50)  # so that examples are right by more than the soft maximum of the others
        right = model(X).argmax(1)
    for kind in ("frozen", "mixed"):
        work = MMA(threat=Linf(1.0), steps=5, least=0.5, batch_stats=kind).hooks.start(model, 3, torch.arange(COUNT))
        with same_module(model):
            points.append(work.search(model, X, right, rng=Streams(0, "", COUNT)).points)
    assert not torch.equal(*points)


def test_the_statistics_aside_are_part_of_the_state():
    model = network()
    work, _ = trades(model, "split")
    assert set(work.state_dict()) == {
        f"statistics.{name}_0" for name in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert not TRADES(threat=BALL).hooks.start(model, 3, torch.arange(COUNT)).state_dict()


def test_layers_without_running_statistics_and_other_networks_do_not_notice():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16, track_running_stats=False), nn.Linear(16, 3)).double()
    assert normalisations(model) == []
    assert normalisations(lambda x: x) == []
    points = [
        TRADES(threat=BALL, steps=2, batch_stats=kind)(smooth(3), X, Y, rng=Streams(0, "", COUNT)).total
        for kind in BATCH_STATS
    ]
    assert all(torch.equal(points[0], other) for other in points[1:])
