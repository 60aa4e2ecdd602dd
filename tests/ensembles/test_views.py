"""A view answers with the side of the predicted class, ties included, and has the gradient of the chosen class."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.attacks import APGD, FAB, PGD, AutoAttack, EightBit, Hierarchical, Square, TargetedAPGD
from holdfast.attacks.starting import Attempt, Pool
from holdfast.ensembles.views import GroupView, SideView, group_maxima, group_sums, groups_of, sides, view_from
from holdfast.errors import ModelError
from holdfast.hierarchy import hierarchy_of
from holdfast.testing import attack as contract
from holdfast.threat import Linf
from holdfast.wrappers import narrow
from tests.contracts.cheap import OfAnyClasses
from tests.zoo import images, linear, smooth


def level_of(of):
    """A level from the group of each class."""
    names = [f"c{leaf}" for leaf in range(len(of))]
    groups = {f"g{one}": [names[leaf] for leaf in range(len(of)) if of[leaf] == one] for one in sorted(set(of))}
    return hierarchy_of(names, {"group": groups}).levels[0]


OF = st.lists(st.integers(0, 3), min_size=2, max_size=8).filter(lambda of: len(set(of)) > 1)


@given(OF, st.data())
def test_the_answer_is_the_group_of_the_predicted_class_also_where_logits_are_equal(of, data):
    level = level_of(of)
    row = st.lists(st.integers(-1, 1), min_size=len(of), max_size=len(of))
    logits = torch.tensor(data.draw(st.lists(row, min_size=1, max_size=5)), dtype=torch.float32)
    predicted = torch.tensor(level.of)[logits.argmax(1)]
    assert torch.equal(group_maxima(logits, level).argmax(1), predicted)
    assert torch.equal(group_maxima(logits, level).amax(1), logits.amax(1))


@given(st.integers(2, 7), st.data())
def test_the_answer_of_a_general_border_is_the_side_of_the_predicted_class(classes, data):
    flags = st.lists(st.booleans(), min_size=classes, max_size=classes)
    crossing = torch.tensor(data.draw(st.lists(flags, min_size=3, max_size=3)))
    row = st.lists(st.integers(-1, 1), min_size=classes, max_size=classes)
    logits = torch.tensor(data.draw(st.lists(row, min_size=3, max_size=3)), dtype=torch.float64)
    beyond = crossing.gather(1, logits.argmax(1, keepdim=True))[:, 0]
    assert torch.equal(sides(logits, crossing).argmax(1), beyond.long())


def test_of_equal_logits_the_first_class_counts_not_the_first_group():
    level = level_of([0, 1, 0])  # classes 1 and 2 have equal logits; 1 is predicted, which is in the later group
    values = group_maxima(torch.tensor([[0.0, 2.0, 2.0]]), level)
    assert values.argmax(1).tolist() == [1]
    assert values[0, 1] == 2.0
    assert values[0, 0] == np.nextafter(np.float32(2), np.float32(0))


def test_values_are_exact_where_nothing_ties():
    logits = torch.tensor([[0.1, -3.0, 0.7, 0.2]])
    assert group_maxima(logits, level_of([0, 1, 1, 0])).tolist() == torch.tensor([[0.2, 0.7]]).tolist()
    assert sides(logits, torch.tensor([[True, False, True, False]])).tolist() == torch.tensor([[0.2, 0.7]]).tolist()


@given(OF, st.integers(0, 1000))
def test_gradients_are_those_of_the_chosen_class(of, seed):
    level = level_of(of)
    logits = torch.randn(4, len(of), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    logits[0] = 1.0  # all tie: the first class of each group is the chosen one
    logits.requires_grad_()
    for group in range(len(level.groups)):
        (grad,) = torch.autograd.grad(group_maxima(logits, level)[:, group].sum(), logits)
        members = torch.tensor(level.members(group))
        chosen = members[logits[:, members].argmax(1)]
        assert torch.equal(grad, torch.nn.functional.one_hot(chosen, len(of)).double())


def test_gradients_of_a_general_border_are_those_of_the_chosen_class():
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0]], requires_grad=True)
    crossing = torch.tensor([[False, False, True, True]])
    within, beyond = sides(logits, crossing).unbind(1)
    assert torch.autograd.grad(within.sum(), logits, retain_graph=True)[0].tolist() == [[0, 1, 0, 0]]
    assert torch.autograd.grad(beyond.sum(), logits)[0].tolist() == [[0, 0, 1, 0]]


@given(OF, st.integers(0, 1000))
def test_sums_are_logarithms_of_the_probabilities_of_groups(of, seed):
    level = level_of(of)
    logits = torch.randn(5, len(of), dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    expected = torch.zeros(5, len(level.groups), dtype=torch.float64)
    expected.index_add_(1, torch.tensor(level.of), logits.softmax(1))
    torch.testing.assert_close(group_sums(logits, level).softmax(1), expected, rtol=1e-12, atol=1e-14)
    crossing = torch.rand(5, len(of), generator=torch.Generator().manual_seed(seed)) < 0.5
    torch.testing.assert_close(
        sides(logits, crossing, "sum").exp()[:, 1], (logits.exp() * crossing).sum(1), rtol=1e-12, atol=1e-14
    )


def test_nothing_to_cross_to_is_finite():
    values = sides(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
    assert bool(values.isfinite().all())
    assert values.argmax(1).tolist() == [0]


HIERARCHY = hierarchy_of(tuple("abcde"), {"group": {"x": ["a", "d"], "y": ["e", "b"], "z": ["c"]}})


def test_labels_are_groups_of_a_level_and_zero_on_a_general_border():
    model, y = smooth(), torch.tensor([0, 1, 2, 3, 4])
    view, groups = view_from(HIERARCHY.border(), model, y)
    assert isinstance(view, GroupView)
    assert groups.tolist() == [0, 1, 2, 0, 1]
    assert view(images(5)).shape == (5, 3)
    view, zeros = view_from(HIERARCHY.border(severity=2), model, y)
    assert isinstance(view, SideView)
    assert zeros.tolist() == [0] * 5
    assert view(images(5)).shape == (5, 2)


def test_a_side_view_keeps_the_sides_of_the_examples_that_stay_and_of_repeated_batches():
    model, x, y = smooth(), images(5), torch.tensor([0, 1, 2, 3, 4])
    view, _ = view_from(HIERARCHY.border(severity=2), model, y)
    rows = torch.tensor([4, 0, 2])
    torch.testing.assert_close(narrow(view, rows)(x[rows]), view(x)[rows])
    torch.testing.assert_close(view(x.repeat(3, 1, 1, 1)), view(x).repeat(3, 1))
    with pytest.raises(ValueError, match="3 rows asked about 5 examples"):
        view(x[:3])


def test_a_classifier_of_other_classes_is_refused():
    for border in (HIERARCHY.border(), HIERARCHY.border(severity=1)):
        view, _ = view_from(border, linear(4), torch.tensor([0]))
        with pytest.raises(ModelError, match=r"expected logits of its 5 classes; got shape \(1, 4\)"):
            view(images(1))


def test_images_to_start_from_are_known_by_their_groups():
    pool = Pool(images(3), torch.tensor([4, 2, 0]))
    view, _ = view_from(HIERARCHY.border(), Attempt(smooth(), pool=lambda: pool), torch.tensor([0]))
    assert view.starting_images().classes.tolist() == [1, 2, 0]
    assert GroupView(smooth(), HIERARCHY.levels[0]).starting_images() is None
    side, _ = view_from(HIERARCHY.border(severity=1), Attempt(smooth(), pool=lambda: pool), torch.tensor([0]))
    assert side.starting_images() is None


def test_groups_are_on_the_device_of_the_labels():
    assert groups_of(HIERARCHY.levels[0], torch.zeros(1)).tolist() == [0, 1, 2, 0, 1]


THROUGH = {
    "pgd": PGD(threat=Linf(0.1), steps=4, restarts=2),
    "apgd": APGD(threat=Linf(0.1), steps=5),
    "apgd_targeted": TargetedAPGD(threat=Linf(0.1), steps=5, targets=2),
    "fab": FAB(threat=Linf(0.1), steps=3),
    "square": Square(threat=Linf(0.1), queries=15),
    "autoattack": AutoAttack(threat=Linf(0.1), steps=3, targets=1, queries=5),
    "eight_bit": EightBit(attack=PGD(threat=Linf(0.1), steps=2), repairs=1),
}
PROMISES = [check for check in contract.ALL if check not in contract.SUCCEEDS]


@pytest.mark.filterwarnings("ignore:.*examples not attacked. no starting point")
@pytest.mark.parametrize("check", PROMISES, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", THROUGH)
def test_contracts_of_attacks_hold_through_the_view(name, check):
    check(OfAnyClasses(Hierarchical(attack=THROUGH[name]), size=2))


@pytest.mark.parametrize("check", PROMISES, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", ["pgd", "fab", "square"])
def test_contracts_of_attacks_hold_on_the_sides_of_a_border(name, check):
    check(OfAnyClasses(Hierarchical(attack=THROUGH[name], severity=1), size=2))
