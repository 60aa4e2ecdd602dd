"""Nearest neighbours against scikit-learn, by hand, and what attacks can follow."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from holdfast.data.digits import Digits
from holdfast.ensembles import Composite, LocalBias, NearestNeighbours
from holdfast.ensembles import neighbours as module
from tests.zoo import generator, images, labels, smooth


def halves():
    x, y = Digits()().train.batch(slice(None))
    return x[:900], y[:900], x[900:1100], y[900:1100]


def test_logits_by_hand():
    x = torch.tensor([0.0, 1.0, 2.0, 3.0, 10.0]).double().view(-1, 1, 1, 1)
    y = torch.tensor([0, 0, 1, 1, 2])
    at = torch.tensor([[[[1.4]]]]).double()
    found = NearestNeighbours(x, y, 3, k=3)(at)
    torch.testing.assert_close(found, torch.tensor([[2 * 2 / 3 - 1, 2 / 3 - 1, -1]]).double())  # 1, 2, 0
    weights = torch.tensor([1 / 0.4, 1 / 0.6, 1 / 1.4]).double()
    share = weights / weights.sum()
    expected = 2 * torch.stack([share[0] + share[2], share[1], share[1] * 0])[None] - 1
    torch.testing.assert_close(NearestNeighbours(x, y, 3, k=3, weights="distance")(at), expected)
    exact = NearestNeighbours(x, y, 3, k=3, weights="distance")(x[2:3])
    torch.testing.assert_close(exact, torch.tensor([[-1.0, 1.0, -1.0]]).double())


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("k", [1, 5, 50])
def test_as_in_scikit_learn(weights, k):
    x, y, test, _ = halves()
    mean, std = x.double().mean((0, 2, 3)), x.double().std((0, 2, 3), correction=0)

    def flat(each):
        return ((each.double() - mean) / std).flatten(1).numpy()

    oracle = KNeighborsClassifier(k, weights=weights, algorithm="brute").fit(flat(x), y.numpy())
    expected = 2 * oracle.predict_proba(flat(test)) - 1
    found = NearestNeighbours(x, y, 10, k=k, weights=weights)(test)
    # Equally far neighbours may be others: nearly all rows agree.
    same = np.isclose(found.numpy(), expected, atol=1e-5).all(1)
    assert same.mean() > 0.98


@pytest.mark.parametrize(("k", "classes"), [(180, 10), (30, 3), (100, 10)])
def test_equal_votes_are_equal_logits(k, classes):
    """The oracle of all images is constant; elsewhere the first of several winners is the answer."""
    x, y = torch.rand(180, 1, 8, 8, generator=generator()), torch.arange(180) % classes
    oracle, asked = NearestNeighbours(x, y, classes, k=k), torch.rand(200, 1, 8, 8, generator=generator(1))
    votes = torch.nn.functional.one_hot(y[oracle.neighbours(asked)], classes).sum(1)
    assert torch.equal(oracle(asked), 2 * votes.float() / k - 1)
    assert torch.equal(oracle(asked).argmax(1), votes.argmax(1))
    if k == 180:
        assert int(oracle(asked).argmax(1).max()) == 0


def test_blocks_and_channels(monkeypatch):
    x, y = images(60, (3, 4, 4)), labels(60, 4)
    x = x * torch.tensor([1.0, 0.01, 1.0]).double().view(3, 1, 1)  # standardised, the dim channel counts as much
    oracle, at = NearestNeighbours(x, y, 4, k=4), images(9, (3, 4, 4), seed=5)
    whole = oracle.neighbours(at)
    monkeypatch.setattr(module, "BLOCK", 120)
    assert torch.equal(oracle.neighbours(at), whole)
    z = (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), correction=0, keepdim=True)
    there = (at - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), correction=0, keepdim=True)
    brute = torch.cdist(there.flatten(1), z.flatten(1)).topk(4, largest=False).indices
    assert torch.equal(whole, brute)


def test_faiss_finds_the_same_neighbours():
    pytest.importorskip("faiss")
    x, y, at = images(200).float(), labels(200, 3), images(20, seed=4).float()
    exact, other = (NearestNeighbours(x, y, 3, k=7, search=search) for search in ("exact", "faiss"))
    assert torch.equal(other.neighbours(at), exact.neighbours(at))
    torch.testing.assert_close(other(at), exact(at))


def test_the_soft_one_has_a_gradient_and_the_others_none():
    x, y = images(40), labels(40, 3)
    soft = NearestNeighbours(x, y, 3, k=40, weights="soft", temperature=3.0)
    at = images(2, seed=3)
    assert torch.autograd.gradcheck(soft, at.clone().requires_grad_())
    assert not NearestNeighbours(x, y, 3, k=5)(at.clone().requires_grad_()).requires_grad
    colder = NearestNeighbours(x, y, 3, k=40, weights="soft", temperature=1e-4)
    torch.testing.assert_close(colder(at), NearestNeighbours(x, y, 3, k=1)(at), atol=1e-6, rtol=0)


def test_an_oracle_for_local_bias():
    x, y, test, truth = halves()
    oracle = NearestNeighbours(x, y, 10, k=5)
    with torch.no_grad():
        right = float((oracle(test).argmax(1) == truth).double().mean())
    assert right > 0.9
    model = Composite(smooth(10, (1, 8, 8)).float(), oracle, LocalBias(), 1e6)
    with torch.no_grad():
        torch.testing.assert_close(model(test), oracle(test), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"k": 0}, "k must lie between 1 and the 6 images, got 0"),
        ({"k": 7}, "k must lie between 1 and the 6 images, got 7"),
        ({"weights": "near"}, "weights must be uniform, distance or soft, got near"),
        ({"search": "tree"}, "search must be exact or faiss"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"k": 1, "weights": "soft"}, "soft weights of one neighbour have no gradient; expected k of 2 or more"),
    ],
)
def test_impossible_settings_are_refused_at_once(fields, says):
    with pytest.raises(ValueError, match=says):
        NearestNeighbours(images(6), labels(6, 3), 3, **{"k": 2, **fields})
