"""Few classes are tried, the nearest first, and what can be crossed is crossed all the same."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.attacks import HierarchicalHalving
from holdfast.attacks.hierarchical_halving import lead_beyond, nearest_classes, rank_within
from holdfast.hierarchy import hierarchy_of
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests.attacks.crossing import HIERARCHY, can_cross, crossed, subject
from tests.attacks.test_hierarchical_pgd import gradients_of
from tests.zoo import images, linear

EPS = 0.12


def halving(**fields):
    return HierarchicalHalving(**{"threat": Linf(EPS), "steps": 20, "hierarchy": HIERARCHY, **fields})


@pytest.mark.parametrize("fields", [{}, {"candidates": 1, "targets": 1}, {"severity": 2.0}], ids=str)
def test_crosses_what_linear_programs_can_cross_and_nothing_else(fields):
    model, x, y = subject()
    possible, easy = can_cross(EPS), can_cross(EPS, slack=0.05)
    broken = crossed(model, halving(**fields)(model, x, y), y)
    assert not bool((broken & ~possible).any())
    assert int((broken & easy).sum()) >= 0.95 * int(easy.sum())


def test_an_example_that_stands_costs_the_first_ascent_the_candidates_and_a_round_for_every_halving():
    names = [f"c{n}" for n in range(40)]
    hierarchy = hierarchy_of(names, {"group": {f"g{n}": names[n : n + 4] for n in range(0, 40, 4)}})
    model, x = linear(40), images(12)
    with torch.no_grad():
        y = model(x).argmax(1)
    for targets, rounds in ((1, 1), (2, 2), (4, 3), (8, 4)):
        attack = halving(threat=Linf(1e-6), steps=8, candidates=9, targets=targets, hierarchy=hierarchy)
        assert gradients_of(attack, model, x, y).tolist() == [8 + 9 + 8 * rounds] * 12


def test_a_broken_example_leaves_at_once_with_all_its_targets():
    model, x, y = subject()
    attack = halving(threat=Linf(0.3), steps=5, targets=2, candidates=3)
    broken = crossed(model, attack(model, x, y), y)
    assert bool((gradients_of(attack, model, x, y)[broken] < 5 + 3 + 2 * 5).all())
    looks = torch.zeros(len(x), dtype=torch.int64)
    wrong = (y + 1) % 6
    attack(Counted(model, looks), x, wrong)
    assert bool((looks[crossed(model, x, wrong)] == 2).all())  # one to know the classes, one to see


def test_the_nearest_class_of_a_linear_network_is_the_nearest_boundary():
    model, x, y = subject()
    crossing = torch.from_numpy(HIERARCHY.border().crossing)[y]
    with torch.no_grad():
        logits = model(x)
    for threat, order in ((Linf(0.1), 1), (L2(0.1), 2)):
        apart = torch.linalg.vector_norm(model.weight[:, None] - model.weight, order, dim=2).detach()
        distance = (logits.amax(1, keepdim=True) - logits) / apart[y].clamp_min(1e-9)  # all are right: within is y
        expected = distance.masked_fill(~crossing, torch.inf).argmin(1)
        assert torch.equal(nearest_classes(threat, model, x, crossing, 6)[:, 0], expected)


def test_only_the_likeliest_candidates_are_ranked_and_classes_that_do_not_cross_never():
    model, x, y = subject()
    crossing = torch.from_numpy(HIERARCHY.border().crossing)[y]
    with torch.no_grad():
        beyond = model(x).masked_fill(~crossing, -torch.inf)
    tried = nearest_classes(Linf(0.1), model, x, crossing, 2)
    assert torch.equal(tried.sort(1).values, beyond.topk(2, dim=1).indices.sort(1).values)
    everything = nearest_classes(Linf(0.1), model, x, crossing, 6)
    counts = crossing.sum(1)
    assert everything.shape[1] == int(counts.max())
    for row, count, flags in zip(everything.tolist(), counts.tolist(), crossing, strict=True):
        assert row[count:] == [-1] * (len(row) - count)
        assert all(bool(flags[label]) for label in row[:count])


def test_an_example_with_nothing_to_cross_to_is_left_alone():
    model, x, _ = subject()
    costs = [[0.0] * 6 for _ in range(6)]
    costs[0][1] = 1.0  # only a taken for b matters
    attack = halving(hierarchy=hierarchy_of(tuple("abcdef"), {}, costs), severity=1.0)
    y = torch.full((len(x),), 3)
    backward = gradients_of(attack, model, x, y)
    assert backward.tolist() == [20] * len(x)
    assert not bool(crossed(model, attack(model, x, y), y, attack.hierarchy.border(severity=1.0)).any())


def test_the_lead_is_between_the_likeliest_of_both_sides():
    logits = torch.tensor([[1.0, 5.0, 2.0, 4.0]])
    sides = torch.tensor([[[True, True, False, False], [False, False, True, False]]])
    assert lead_beyond(logits, sides).tolist() == [-3.0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), min_size=1, max_size=12))
def test_ranks_are_places_among_the_rows_of_a_group(rows):
    groups, values = (torch.tensor(column) for column in zip(*rows, strict=True))
    ranks = rank_within(groups, values.float()).tolist()
    for group in set(groups.tolist()):
        own = [n for n in range(len(rows)) if rows[n][0] == group]
        assert sorted(ranks[n] for n in own) == list(range(len(own)))
        ordered = sorted(own, key=lambda n: ranks[n])
        assert [rows[n][1] for n in ordered] == sorted((rows[n][1] for n in own), reverse=True)


@pytest.mark.parametrize("fields", [{"targets": 0}, {"targets": 11}, {"targets": 9, "steps": 8}, {"steps": 0}], ids=str)
def test_fields_that_mean_nothing_are_refused(fields):
    with pytest.raises(ValueError, match=r"targets must lie|steps and restarts"):
        halving(**fields)
