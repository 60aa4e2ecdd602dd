"""HAR: its probabilities, its gradients, and lazy inference, which is always the same as the full one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from holdfast.attacks import PGD, Hierarchical
from holdfast.attacks.hierarchical import groups_network
from holdfast.ensembles.har import HAR, composed, parameters_of, predict_lazily
from holdfast.errors import ModelError
from holdfast.hierarchy import hierarchy_of
from holdfast.threat import Linf
from tests.zoo import images, normed, smooth


class Fixed(nn.Module):
    """The same probabilities for every image."""

    def __init__(self, *shares):
        super().__init__()
        self.register_buffer("logits", torch.tensor(shares, dtype=torch.float64).log())

    def forward(self, x):
        return self.logits.expand(len(x), -1) + 0 * x.flatten(1).sum(1, keepdim=True).double()


X = images(3)


@pytest.mark.parametrize(
    ("groups", "leaves", "expected"),
    [
        ((0.7, 0.3), ((0.6, 0.3, 0.1), (0.5, 0.5)), (0.42, 0.21, 0.07, 0.15, 0.15)),
        ((0.55, 0.45), ((0.4, 0.3, 0.3), (0.9, 0.1)), (0.22, 0.165, 0.165, 0.405, 0.045)),
    ],
    ids=["the group of the largest class", "the class of a less likely group"],
)
def test_products_of_the_two_examples(groups, leaves, expected):
    model = HAR(Fixed(*groups), [Fixed(*one) for one in leaves], [(0, 1, 2), (3, 4)])
    torch.testing.assert_close(model(X).exp()[0], torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    answer = model.predict(X)
    assert answer.prediction.tolist() == [int(torch.tensor(expected).argmax())] * 3
    assert answer.evaluated.tolist() == [1 if groups[0] == 0.7 else 2] * 3


PARTITIONS = st.lists(st.integers(0, 4), min_size=3, max_size=9).filter(lambda of: len(set(of)) > 1)


def random_har(of, seed):
    """A network of random linear parts, with the classes of each group in a random order."""
    torch.manual_seed(seed)
    leaves = []
    for group in sorted(set(of)):
        members = [leaf for leaf, own in enumerate(of) if own == group]
        leaves.append([members[place] for place in torch.randperm(len(members)).tolist()])

    def part(size):
        return nn.Sequential(nn.Flatten(), nn.Linear(4, size)).double()

    return HAR(part(len(leaves)), [part(len(some)) if len(some) > 1 else None for some in leaves], leaves).eval()


@given(PARTITIONS, st.integers(0, 1000))
def test_probabilities_sum_to_one_in_any_order_of_labels(of, seed):
    model, x = random_har(of, seed), images(4, (1, 2, 2)).double()
    shares = model(x).exp()
    torch.testing.assert_close(shares.sum(1), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)
    groups = model.log_groups(x).exp()
    for group, some in enumerate(model.leaves):
        torch.testing.assert_close(shares[:, list(some)].sum(1), groups[:, group], rtol=0, atol=1e-12)
        within = model.log_leaves(group, x).exp() * groups[:, [group]]
        torch.testing.assert_close(shares[:, list(some)], within, rtol=0, atol=1e-12)


@given(PARTITIONS, st.integers(0, 1000))
def test_group_logits_that_are_sums_of_leaf_logits_give_the_flat_softmax(of, seed):
    groups = sorted(set(of))
    leaves = [[leaf for leaf, own in enumerate(of) if own == group] for group in groups]
    logits = torch.randn(6, len(of), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    log_groups = torch.stack([logits[:, some].logsumexp(1) for some in leaves], dim=1).log_softmax(1)
    parts = [log_groups[:, [group]] + logits[:, some].log_softmax(1) for group, some in enumerate(leaves)]
    torch.testing.assert_close(composed(parts, leaves), logits.log_softmax(1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("step", [0.0, 0.5], ids=["random", "with ties"])
def test_lazy_inference_is_full_inference_on_ten_thousand_cases(step):
    torch.manual_seed(1)
    leaves = [(7, 2), (0, 5, 9), (1,), (8, 3, 4, 6)]
    raw = [torch.randn(10_000, size, dtype=torch.float64) * 2 for size in (4, 2, 3, 1, 4)]
    rounded = [one if step == 0 else (one / step).round() * step for one in raw]
    # Rounded log-probabilities tie often; they need not sum to one, only stay below 0.
    groups, *of_classes = [one.log_softmax(1) if step == 0 else -one.abs() for one in rounded]
    full = composed([groups[:, [g]] + of_classes[g] for g in range(4)], leaves)
    answer = predict_lazily(groups, lambda group, rows: of_classes[group][rows], leaves)
    assert torch.equal(answer.prediction, full.argmax(1))
    assert torch.equal(answer.log_probability, full.amax(1))
    assert 1 <= float(answer.evaluated.double().mean()) < 3.5
    assert int(answer.evaluated.max()) <= 4
    if step:
        ties = (full == full.amax(1, keepdim=True)).sum(1) > 1
        assert int(ties.sum()) > 1000


@given(PARTITIONS, st.integers(0, 1000))
def test_lazy_inference_of_networks_predicts_what_their_logits_say(of, seed):
    model, x = random_har(of, seed), images(20, (1, 2, 2)).double()
    answer = model.predict(x)
    with torch.no_grad():
        assert torch.equal(answer.prediction, model(x).argmax(1))
    assert bool((answer.evaluated <= len(model.of_leaves)).all())


def of_smooth():
    return HAR(smooth(3), [smooth(2, seed=1), None, smooth(3, seed=2)], [(4, 0), (2,), (1, 5, 3)]).eval()


def test_recomputed_gradients_are_those_of_all_networks_at_once():
    model, x = of_smooth(), images(4).requires_grad_()
    (recomputed,) = torch.autograd.grad(model(x)[:, 3].sum(), x)
    groups = model.log_groups(x)
    direct = composed([groups[:, [g]] + model.log_leaves(g, x) for g in range(3)], model.leaves)
    (expected,) = torch.autograd.grad(direct[:, 3].sum(), x)
    torch.testing.assert_close(recomputed, expected, rtol=0, atol=0)
    (first,) = torch.autograd.grad(model(x)[:, 0].sum(), x, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), x)[0].shape == x.shape


def test_in_training_mode_statistics_move_once():
    def networks():
        return [normed(2, dropout=0.0).train(), normed(2, dropout=0.0).train()]

    once, parts = networks(), networks()
    model = HAR(normed(2, dropout=0.0), parts, [(0, 1), (2, 3)]).train()
    model(images(5).requires_grad_()).sum().backward()
    for one, other in zip(once, parts, strict=True):
        one(images(5))
        assert torch.equal(one.norm.running_mean, other.norm.running_mean)


def test_an_attack_on_the_sum_view_climbs_the_network_of_groups_alone():
    hierarchy = hierarchy_of(tuple("abcdef"), {"group": {"x": ["a", "e"], "y": ["c"], "z": ["b", "d", "f"]}})
    by_level = HAR(smooth(3), [smooth(2, seed=1), None, smooth(3, seed=2)], [(0, 4), (2,), (1, 3, 5)]).eval()
    assert groups_network(by_level, hierarchy.border()) is by_level.of_groups
    assert groups_network(smooth(6), hierarchy.border()) is None
    x = images(6)
    with torch.no_grad():
        y = by_level(x).argmax(1)
    meta = Hierarchical(attack=PGD(threat=Linf(0.2), steps=5), view="sum", hierarchy=hierarchy)
    direct = PGD(threat=Linf(0.2), steps=5, until_lost=False)
    groups = torch.tensor(hierarchy.levels[0].of)[y]
    assert torch.equal(meta(by_level, x, y), direct(by_level.of_groups, x, groups))


def test_parameters_are_counted_by_network():
    model = of_smooth()
    sizes = parameters_of(model)
    assert sizes["all"] == sum(one.numel() for one in model.parameters())
    assert list(sizes) == ["groups", "0", "2", "all"]


@pytest.mark.parametrize(
    ("networks", "leaves", "problem"),
    [
        ([None, None], [(0,), (0,)], "every class once"),
        ([None, None], [(0,), (2,)], "every class once"),
        ([None], [(0,)], "in two groups or more"),
        ([None], [(0,), (1,)], "for each of 2 groups; got 1"),
        ([None, None], [(0, 1), (2,)], "expected a network of the 2 classes of group 0; got None"),
        ([smooth(2), smooth(1)], [(0, 1), (2,)], "expected no network of the single class of group 1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(networks, leaves, problem):
    with pytest.raises(ModelError, match=problem):
        HAR(smooth(2), networks, leaves)


def test_networks_of_other_classes_are_refused():
    with pytest.raises(ModelError, match="har: of_groups: expected logits of 2 classes"):
        HAR(smooth(3), [smooth(2), None], [(0, 1), (2,)])(images(2))
    with pytest.raises(ModelError, match="har: of_leaves 0: expected logits of 2 classes"):
        HAR(smooth(2), [smooth(3), None], [(0, 1), (2,)])(images(2))
