"""Fits with known optima, against a search by brute force, and what every fit promises."""

import itertools

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.attacks import PGD
from holdfast.ensembles import RobustTransform, TransformFit, fit_margins, fit_transform
from holdfast.ensembles.mixing import mix_sharpened
from holdfast.ensembles.transform_fit import POWERS, RESOLUTION, SCALES, SHIFTS, best_cutoff
from holdfast.errors import ModelError
from holdfast.threat import Linf
from tests.zoo import generator, images, labels, normed

SURE = torch.tensor([4.0, 0.0, 0.1, -0.1, 0.2])
UNSURE = torch.tensor([1.0, 0.9, 0.8, 0.0, -3.0])


def logits(like, count, seed=0, noise=0.05):
    return like + noise * torch.randn(count, len(like), generator=generator(seed))


def margins(h):
    top = h.softmax(1).sort(1, descending=True).values
    return top[:, 0] - top[:, 1]


@pytest.mark.parametrize(
    ("keep", "cutoff", "gap"),
    [
        (1.0, 0.1, 0.1),  # half way between the smallest, 0.2, and 0
        (0.75, 0.35, 0.05),  # 0.2 may go; of 0.4 the next below is 0.3, which is clean
        (0.5, 0.5, 0.1),
        (0.25, 0.75, 0.05),
        (0.01, 0.75, 0.05),  # one example at least is kept
    ],
)
def test_the_cutoff_is_a_quantile_of_the_margins_under_attack(keep, cutoff, gap):
    attacked, clean = torch.tensor([0.8, 0.2, 0.6, 0.4]), torch.tensor([0.3, 0.7])
    assert best_cutoff(attacked, clean, keep) == pytest.approx((cutoff, gap), abs=1e-6)


def test_margins_that_rounding_cannot_tell_apart_are_on_one_side():
    cutoff, gap = best_cutoff(torch.tensor([0.5]).double(), torch.tensor([0.5 - 1e-9, 0.1]).double(), 1.0)
    assert (cutoff, gap) == pytest.approx((0.3, 0.2))
    assert best_cutoff(torch.tensor([1e-8]), torch.tensor([0.5]), 1.0)[1] == 0


def test_answers_that_can_be_told_apart_are():
    """Sure right answers under attack, unsure wrong ones without: nothing right is lost, everything wrong is mended."""
    attacked, clean = logits(SURE, 50), logits(UNSURE, 50, seed=1)
    fitted = fit_margins(attacked, clean, keep=1.0)
    assert (fitted.kept, fitted.overruling) == (1.0, 0.0)
    g = torch.zeros_like(attacked).index_fill(1, torch.tensor(4), 1.0)
    answers = [mix_sharpened(g, fitted.transform(h), fitted.strength).argmax(1) for h in (attacked, clean)]
    assert torch.equal(answers[0], attacked.argmax(1))
    assert set(answers[1].tolist()) == {4}


def test_the_strength_lies_where_the_share_is_kept():
    """One unsure answer in ten under attack: keeping all of them costs the unsure clean ones, keeping 90 % does not."""
    attacked = torch.cat([logits(SURE, 90), logits(UNSURE, 10, seed=2)])
    clean = logits(UNSURE, 40, seed=1)
    generous, strict = (fit_margins(attacked, clean, keep=keep) for keep in (0.9, 1.0))
    assert (generous.kept, generous.overruling) == (0.9, 0.0)
    assert strict.kept == 1.0
    assert strict.overruling > 0.5
    low, high = (margins(generous.transform(h.double())) for h in (attacked[90:], attacked[:90]))
    assert max(low) < 1 / generous.strength < min(high)


def test_of_equal_combinations_the_cutoff_with_the_widest_gap_is_taken():
    attacked, clean = SURE[None].double(), UNSURE[None].double()
    fitted = fit_margins(attacked, clean, keep=1.0)
    best = max(
        float(margins(one(attacked)) - margins(one(clean)))
        for one in (RobustTransform(scale=s, power=p, shift=c) for s, p, c in itertools.product(SCALES, POWERS, SHIFTS))
    )
    found = float(margins(fitted.transform(attacked)) - margins(fitted.transform(clean)))
    assert found == pytest.approx(best)


@settings(deadline=None, max_examples=8)
@example(seed=395, keep=0.9, count=14)  # margins of 1e-8, far below the resolution
@given(seed=st.integers(0, 999), keep=st.sampled_from([0.5, 0.9, 0.985, 1.0]), count=st.integers(1, 40))
def test_no_other_combination_overrules_more_and_the_share_is_kept(seed, keep, count):
    attacked, clean = logits(SURE, count, seed, 1.5).double(), logits(UNSURE, 30, seed + 1, 1.0).double()
    fitted = fit_margins(attacked, clean, keep=keep)
    assert fitted.kept >= keep
    assert (margins(fitted.transform(attacked)) > 1 / fitted.strength).double().mean() == fitted.kept
    assert (margins(fitted.transform(clean)) > 1 / fitted.strength).double().mean() == fitted.overruling
    lost = int(count * (1 - keep) + 1e-9)
    for scale, power, shift in itertools.islice(itertools.product(SCALES, POWERS, SHIFTS), seed % 7, None, 7):
        one = RobustTransform(scale=scale, power=power, shift=shift)
        smallest = margins(one(attacked)).sort().values[lost]
        assert (margins(one(clean)) >= smallest - RESOLUTION).double().mean() >= fitted.overruling


def test_a_network_is_fitted_to_its_own_answers():
    model, x, y = normed(4).train(), images(60), labels(60, 4)
    attack = PGD(threat=Linf(0.02), steps=3)
    fitted = fit_transform(model, x, y, attack, keep=0.9)
    assert model.training
    model.eval()
    with torch.no_grad():
        assert fitted.wrong_on_clean == (model(x).argmax(1) != y).sum()
    assert fitted.right_under_attack == (model(attack(model, x, y)).argmax(1) == y).sum()
    assert fitted.facts()["share"] == pytest.approx(fitted.strength / (1 + fitted.strength))


def test_without_examples_or_margins_there_is_nothing_to_fit():
    some, none = logits(SURE, 3), torch.zeros(0, 5)
    with pytest.raises(ModelError, match="right under attack; there are none"):
        fit_margins(none, some)
    with pytest.raises(ModelError, match="wrong without an attack; there are none"):
        fit_margins(some, none)
    with pytest.raises(ModelError, match="margins of all transformations are near 0"):
        fit_margins(torch.zeros(3, 5), some)
    with pytest.raises(ValueError, match=r"keep must lie in \(0, 1\]"):
        TransformFit(keep=0.0)
