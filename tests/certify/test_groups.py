"""Certificates of groups: sound, never below those of classes, and exact on linear classifiers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.attacks import PGD, Hierarchical
from holdfast.certify import GaussianSmoothing, GroupCertificate, LaplaceSmoothing, Margin, SmoothedMargin
from holdfast.errors import ModelError, RecipeError
from holdfast.hierarchy import hierarchy_of
from holdfast.lipschitz.radii import group_radius, margin_radius
from holdfast.results.certified_radii import contradictions
from holdfast.results.groups import across
from holdfast.rng import Streams
from holdfast.testing import certifier as contract
from holdfast.threat import L2, Linf
from holdfast.traits import is_smoothed, traits_of
from holdfast.types import ABSTAIN
from tests.attacks.crossing import HIERARCHY, can_cross, subject
from tests.contracts.cheap import OfAnyClasses
from tests.zoo import images, linear, smooth

LEVEL = HIERARCHY.levels[0]
MEMBERS = [LEVEL.members(group) for group in range(len(LEVEL.groups))]


def of_groups(certifier, **fields):
    return GroupCertificate(certifier=certifier, **{"hierarchy": HIERARCHY, **fields})


def groups(labels):
    return torch.tensor(LEVEL.of)[labels]


@given(st.integers(0, 10_000), st.booleans())
def test_the_margin_radius_of_a_group_is_never_below_that_of_its_class(seed, ties):
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(8, 6, dtype=torch.float64, generator=draw)
    logits = logits.round() if ties else logits
    growth = torch.rand(6, 6, dtype=torch.float64, generator=draw) + 0.1
    rounding = torch.rand(8, dtype=torch.float64, generator=draw) / 10
    radius, group = group_radius(logits, growth, MEMBERS, rounding)
    of_class, label = margin_radius(logits, growth, rounding)
    assert bool((radius >= of_class).all())
    assert torch.equal(group, groups(label))


@given(st.integers(0, 10_000))
def test_a_class_in_every_group_gives_the_certificate_of_classes(seed):
    logits = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    alone = group_radius(logits, 2.0, [(k,) for k in range(5)], 0.01)
    assert all(map(torch.equal, alone, margin_radius(logits, 2.0, 0.01)))


def test_by_hand():
    logits = torch.tensor([[3.0, 1.0, 2.5, 0.0]])  # group of classes 0 and 2
    radius, group = group_radius(logits, 1.0, [(0, 2), (1, 3)])
    assert radius.item() == pytest.approx(2.0)  # class 1 must overtake class 0
    assert group.item() == 0
    growth = torch.tensor([[0.0, 8, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]])
    assert group_radius(logits, growth, [(0, 2), (1, 3)])[0].item() == pytest.approx(1.5)  # class 2 is ahead for longer
    assert margin_radius(logits, growth)[0].item() == pytest.approx(0.25)


def test_two_groups_with_equal_logits_are_not_certified_but_two_classes_of_a_group_may_tie():
    logits = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    assert group_radius(logits, 1.0, [(0, 2), (1, 3)])[0].tolist() == [0.0, pytest.approx(1.0)]


def test_no_point_nearer_than_the_radius_is_in_another_group_by_linear_programs():
    model, x, y = subject()
    certificate = of_groups(Margin(norm="linf"))(model, x)
    assert torch.equal(certificate.prediction, groups(y))
    assert bool((certificate.radius > Margin(norm="linf")(model, x).radius).any())
    for eps in (0.01, 0.05, 0.1, 0.2):
        crossed = can_cross(eps)
        assert not bool((crossed & (certificate.radius > eps * (1 + 1e-9))).any())


@pytest.mark.parametrize(("norm", "threat"), [("linf", Linf), ("l2", L2)])
def test_no_attack_on_groups_succeeds_inside(norm, threat):
    model, x = smooth(6), images(20, low=0.2, high=0.8)
    certificate = of_groups(Margin(norm=norm))(model, x)
    for row in range(len(x)):
        image, radius, group = x[row : row + 1], float(certificate.radius[row]), int(certificate.prediction[row])
        assert radius > 0
        attack = Hierarchical(attack=PGD(threat=threat(0.999 * radius), steps=15), hierarchy=HIERARCHY)
        label = torch.tensor(LEVEL.members(group)[:1])
        with torch.no_grad():
            assert groups(model(attack(model, image, label)).argmax(1)).item() == group


@pytest.mark.parametrize("smoothing", [GaussianSmoothing(sigma=0.2, n=300, n0=50), LaplaceSmoothing(scale=0.1, n=300)])
def test_a_smoothed_radius_of_a_group_is_not_below_that_of_a_class_in_it(smoothing):
    model, x, _ = subject()
    rng = Streams(3, "a", len(x))
    leaf, group = smoothing(model, x, rng=rng), of_groups(smoothing)(model, x, rng=rng)
    answered = leaf.prediction != ABSTAIN
    same = answered & (group.prediction == groups(leaf.prediction.clamp(min=0)))
    assert int(same.sum()) > 10
    assert bool((group.radius[same] >= leaf.radius[same]).all())
    assert bool((group.radius[same] > leaf.radius[same]).any())
    assert bool(((group.prediction != ABSTAIN) & ~answered).any())


def test_the_most_frequent_group_need_not_have_the_most_frequent_class():
    hierarchy = hierarchy_of(tuple("abc"), {"group": {"x": ["a"], "y": ["b", "c"]}})

    def thirds(z):  # a in 4 of 10, b and c in 3 of 10 each, whatever the image
        share = torch.special.ndtr(z.flatten(1)[:, 0] / 0.1)
        labels = (share > 0.4).long() + (share > 0.7).long()
        return torch.nn.functional.one_hot(labels, 3).double()

    x = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    smoothing = GaussianSmoothing(sigma=0.1, n=4000, n0=400)
    assert smoothing(thirds, x).prediction.item() == ABSTAIN
    certificate = GroupCertificate(certifier=smoothing, hierarchy=hierarchy)(thirds, x)
    assert certificate.prediction.item() == 1
    assert certificate.radius.item() > 0


@pytest.mark.parametrize(
    "certifier",
    [Margin(norm="l2"), GaussianSmoothing(sigma=0.1, n=256, n0=32, alpha=0.01)],
    ids=["margin", "smoothing"],
)
@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
def test_contracts_of_certifiers(check, certifier):
    check(OfAnyClasses(GroupCertificate(certifier=certifier)))


def test_what_it_is():
    margin, smoothing = of_groups(Margin(norm="linf")), of_groups(GaussianSmoothing(sigma=0.1))
    assert (margin.norm, margin.smoothed, margin.bound_in, margin.certified_level) == ("linf", False, "linf", "group")
    assert (smoothing.norm, smoothing.smoothed, smoothing.bound_in) == ("l2", True, None)
    assert traits_of(margin).certifies == "network, group"
    assert not is_smoothed("network, group")
    assert is_smoothed(traits_of(smoothing).certifies)
    assert margin.is_right(torch.tensor([0, 1, -1]), torch.tensor([3, 0, 0])).tolist() == [True, False, False]


def test_what_proves_nothing_of_groups_is_refused():
    with pytest.raises(RecipeError, match=r"expected one of Margin, GaussianSmoothing, .*; got SmoothedMargin"):
        of_groups(SmoothedMargin(sigma=0.1))
    with pytest.raises(RecipeError, match="unknown name 'grup'"):
        of_groups(Margin(), level="grup")
    with pytest.raises(RecipeError, match="expected a hierarchy; got None"):
        GroupCertificate(certifier=Margin())(linear(6), images(1))
    with pytest.raises(ModelError, match="expected logits of its 6 classes"):
        of_groups(Margin())(linear(4), images(1))


def test_attacks_on_classes_do_not_refute_certificates_of_groups():
    model, x, y = subject()
    checks = [of_groups(Margin(norm="linf")), Margin(norm="linf"), PGD(threat=Linf(0.1), steps=10)]
    rows = holdfast.evaluate(model, x, y, checks, hierarchy=HIERARCHY).rows
    assert contradictions(rows).is_empty()
    seen = across(rows, HIERARCHY.border())
    assert contradictions(seen).is_empty()
    mine = seen.filter(check=next(name for name in rows["check"].unique() if name.startswith("group_certificate")))
    assert mine["certifies"].unique().to_list() == ["network"]
    assert mine["correct"].to_list() == [True] * len(x)
    of_class = seen.filter(check="margin norm=linf").sort("example")
    assert bool((mine.sort("example")["radius"] >= of_class["radius"]).all())
    other = hierarchy_of(HIERARCHY.classes, {"pair": {"x": ["a", "b", "c"], "y": ["d", "e", "f"]}})
    assert "group_certificate" not in set(across(rows, other.border())["method"])
