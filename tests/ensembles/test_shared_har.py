"""HAR on a shared trunk: its probabilities, its place in recipes, and what training and files make of it."""

import math
import shutil

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from holdfast.attacks import PGD, Hierarchical
from holdfast.ensembles import HierarchicalHead, SharedHAR
from holdfast.ensembles.har import composed
from holdfast.ensembles.shared_har import composition, log_softmax_within
from holdfast.ensembles.views import group_sums
from holdfast.errors import ModelError, RecipeError
from holdfast.hierarchy import hierarchy_of
from holdfast.models import build
from holdfast.models.linear import Linear
from holdfast.models.lipschitz import LipschitzMLP
from holdfast.models.mlp import MLP
from holdfast.objectives.hierarchical import HierarchicalCrossEntropy
from holdfast.runs import load_model, new_model
from holdfast.threat import Linf
from tests.training.tiny import recipe, splits, train
from tests.zoo import images

PARTITIONS = st.lists(st.integers(0, 4), min_size=2, max_size=9).filter(lambda of: len(set(of)) > 1)
LETTERS = hierarchy_of(tuple("abcdef"), {"group": {"x": ["e", "a"], "y": ["c"], "z": ["b", "d", "f"]}})


def numbered(of):
    """The same groups as 0, 1, 2, ..."""
    groups = sorted(set(of))
    return torch.tensor([groups.index(group) for group in of])


def random_logits(of, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    sizes = (len(set(of)), len(of))
    return [scale * torch.randn(5, size, dtype=torch.float64, generator=generator) for size in sizes]


@given(PARTITIONS, st.integers(0, 1000), st.sampled_from([1.0, 30.0, 1000.0]))
def test_probabilities_sum_to_one_whatever_the_order_of_labels(of, seed, scale):
    (groups, classes), numbers = random_logits(of, seed, scale), numbered(of)
    shares = composition(groups, classes, numbers).exp()
    torch.testing.assert_close(shares.sum(1), torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-12)
    for group in range(groups.shape[1]):
        within = shares[:, numbers == group].sum(1)
        torch.testing.assert_close(within, groups.softmax(1)[:, group], rtol=0, atol=1e-12)


@given(PARTITIONS, st.integers(0, 1000))
def test_it_is_the_product_of_networks_with_these_logits(of, seed):
    (groups, classes), numbers = random_logits(of, seed), numbered(of)
    leaves = [(numbers == group).nonzero()[:, 0].tolist() for group in range(groups.shape[1])]
    log_groups = groups.log_softmax(1)
    parts = [log_groups[:, [group]] + classes[:, some].log_softmax(1) for group, some in enumerate(leaves)]
    torch.testing.assert_close(composition(groups, classes, numbers), composed(parts, leaves), rtol=0, atol=1e-12)


@given(PARTITIONS, st.integers(0, 1000))
def test_group_logits_that_are_sums_of_class_logits_give_the_flat_softmax(of, seed):
    (_, classes), numbers = random_logits(of, seed, 5.0), numbered(of)
    groups = torch.stack([classes[:, numbers == group].logsumexp(1) for group in range(len(set(of)))], dim=1)
    torch.testing.assert_close(composition(groups, classes, numbers), classes.log_softmax(1), rtol=0, atol=1e-12)


def test_it_does_not_overflow_and_has_second_derivatives():
    of = torch.tensor([0, 1, 0, 1, 2])
    far = torch.tensor([[1e4, -1e4, -1e4, 2e4, -3e4]], dtype=torch.float64)
    assert log_softmax_within(far, of, 3).isfinite().all()
    assert log_softmax_within(far, of, 3)[0, 4] == 0
    logits = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: log_softmax_within(z, of, 3), logits)
    assert torch.autograd.gradgradcheck(lambda z: log_softmax_within(z, of, 3), logits)


def network():
    return build(SharedHAR(network=MLP(hidden=(8,)), hierarchy=LETTERS), (1, 4, 4), 6).double().eval()


def test_the_sum_view_is_the_head_of_groups_so_that_an_attack_on_it_sees_this_head_alone():
    model, x = network(), images(5, (1, 4, 4)).double()
    log_groups = model.head.of_groups(model.features(x)).log_softmax(1)
    torch.testing.assert_close(group_sums(model(x), LETTERS.levels[0]), log_groups, rtol=0, atol=1e-12)
    y = model(x).argmax(1)
    attack = Hierarchical(attack=PGD(threat=Linf(0.2), steps=5), view="sum", hierarchy=LETTERS)
    direct = PGD(threat=Linf(0.2), steps=5, until_lost=False)
    groups = torch.tensor(LETTERS.levels[0].of)[y]
    torch.testing.assert_close(
        attack(model, x, y), direct(lambda z: model.head.of_groups(model.features(z)), x, groups)
    )


def test_a_weight_of_the_group_loss_is_hierarchical_cross_entropy():
    model, x = network(), images(6, (1, 4, 4)).double()
    y, of = torch.arange(6), torch.tensor(LETTERS.levels[0].of)
    weight = 0.7
    groups = F.cross_entropy(model.head.of_groups(model.features(x)), of[y])
    total = HierarchicalCrossEntropy(alpha=math.log(1 + weight), hierarchy=LETTERS)(model, x, y).total
    torch.testing.assert_close((1 + weight) * total, F.cross_entropy(model(x), y) + weight * groups)


def test_heads_cost_a_row_for_each_group_and_nothing_else():
    def sizes(architecture, classes):
        return sum(one.numel() for one in build(architecture, (3, 8, 8), classes).parameters())

    names = tuple(map(str, range(100)))
    for groups in (2, 20, 50):
        levels = {"group": {str(g): names[g::groups] for g in range(groups)}}
        shared = SharedHAR(network=MLP(hidden=(16,)), hierarchy=hierarchy_of(names, levels))
        assert sizes(shared, 100) - sizes(MLP(hidden=(16,)), 100) == groups * 17


RECIPE = ("data.hierarchy=digits", "model={shared_har: {network: {mlp: {hidden: [8]}}}}")


def x(of):
    return splits(of).test.batch(slice(0, 40))[0]


def test_a_recipe_trains_both_heads_and_its_file_needs_nothing_else(tmp_path):
    of = recipe(*RECIPE, "train.objective={hierarchical_cross_entropy: {alpha: 0.5}}")
    before = new_model(of, splits(of)).state_dict()
    train(of, tmp_path / "run")
    model = load_model(tmp_path / "run").model.eval()
    expected, after = model(x(of)), model.state_dict()
    assert isinstance(model.head, HierarchicalHead)
    trained = [name for name in before if name.endswith("weight")]
    assert len(trained) > 2
    assert not [name for name in trained if torch.equal(before[name], after[name])]
    groups = splits(of).hierarchy.levels[0]
    assert torch.equal(model.head.of, torch.tensor(groups.of))
    moved = shutil.move(tmp_path / "run" / "last.safetensors", tmp_path / "alone.safetensors")
    shutil.rmtree(tmp_path / "run")
    assert torch.equal(load_model(moved).model.eval()(x(of)), expected)
    torch.testing.assert_close(expected.exp().sum(1), torch.ones(40))


def test_heads_are_trained_alone_on_the_trunk_of_a_network_of_groups(tmp_path):
    trunk = recipe("data.hierarchy=digits", "data.view=group", "train.epochs=1")
    train(trunk, tmp_path / "trunk")
    of = recipe(*RECIPE, f"train.init_from={tmp_path / 'trunk'}", "train.freeze=features", "train.epochs=1")
    train(of, tmp_path / "run")
    begun, after = (load_model(tmp_path / name).model.eval() for name in ("trunk", "run"))
    assert torch.equal(after.features(x(of)), begun.features(x(of)))
    fresh = new_model(of, splits(of)).state_dict()
    for name in ("head.of_groups.weight", "head.of_classes.weight"):
        assert not torch.equal(after.state_dict()[name], fresh[name])


def test_networks_and_data_that_do_not_fit_are_refused():
    of = recipe(RECIPE[1])
    with pytest.raises(RecipeError, match="SharedHAR: expected data with a hierarchy"):
        new_model(of, splits(of))
    with pytest.raises(RecipeError, match="expected the 6 classes of its hierarchy; got 10"):
        SharedHAR(network=Linear(), hierarchy=LETTERS)((1, 4, 4), 10)
    with pytest.raises(RecipeError, match="expected data with a hierarchy"):
        SharedHAR(network=Linear())((1, 4, 4), 6)
    with pytest.raises(RecipeError, match="level: unknown name 'grup'"):
        SharedHAR(network=Linear(), level="grup", hierarchy=LETTERS)
    with pytest.raises(ValueError, match="whose head is a dense layer"):
        SharedHAR(network=LipschitzMLP(hidden=(8,)), hierarchy=LETTERS)((1, 4, 4), 6)
    with pytest.raises(ValueError, match="got another shared_har"):
        SharedHAR(network=SharedHAR(network=Linear()))
    with pytest.raises(ModelError, match=r"expected groups 0, 1, \.\.\. with a class each; got \[0, 2\]"):
        HierarchicalHead(4, [0, 2])
