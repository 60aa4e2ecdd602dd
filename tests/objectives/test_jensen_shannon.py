"""Consistency over views."""

import math

import pytest
import torch

from holdfast.augment import AugMix, HorizontalFlip, Spider, soften
from holdfast.losses import cross_entropy
from holdfast.objectives import JensenShannon
from holdfast.objectives.jensen_shannon import divergence
from holdfast.recipe import parse_recipes
from holdfast.rng import Streams
from tests.zoo import images, labels, linear


def test_divergence_has_its_closed_forms():
    # Three certain and different predictions have the uniform mixture: log 3. Equal ones do not diverge.
    apart = divergence(*(100.0 * torch.eye(3)[[k]] for k in range(3)))
    assert float(apart) == pytest.approx(math.log(3), rel=1e-6)
    logits = torch.randn(5, 4, dtype=torch.float64)
    assert divergence(logits, logits + 1, logits - 2).abs().max() < 1e-12
    # (1, 0) and (1/2, 1/2): the mixture is (3/4, 1/4).
    sure, unsure = torch.tensor([[80.0, 0.0]], dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    expected = (math.log(4 / 3) + 0.5 * math.log(2 / 3) + 0.5 * math.log(2)) / 2
    assert float(divergence(sure, unsure)) == pytest.approx(expected, rel=1e-9)


def test_divergence_is_entropy_of_the_mean_less_mean_of_entropies():
    logits = torch.randn(3, 7, 5, dtype=torch.float64)
    p = logits.softmax(2)
    entropy = torch.distributions.Categorical(p.mean(0)).entropy() - torch.distributions.Categorical(p).entropy().mean(
        0
    )
    torch.testing.assert_close(divergence(*logits), entropy)


def test_gradients_of_certain_predictions_are_finite():
    logits = (200 * torch.randn(3, 4, 5)).requires_grad_()
    (grad,) = torch.autograd.grad(divergence(*logits).sum(), logits)
    assert bool(grad.isfinite().all())


class Recorder:
    """A linear model that remembers what it saw."""

    def __init__(self):
        self.model, self.seen = linear(3), None

    def __call__(self, x):
        self.seen = x
        return self.model(x)


def test_the_clean_view_is_clean_and_the_others_differ():
    model, x, y = Recorder(), images(6), labels(6, 3)
    terms = JensenShannon(augment=(AugMix(),), weight=5.0)(model, x, y, rng=Streams(1, "v", 6))
    clean, one, other = model.seen.chunk(3)
    assert torch.equal(clean, x)
    assert not torch.equal(one, x)
    assert not torch.equal(one, other)
    logits = model(model.seen).chunk(3)
    torch.testing.assert_close(terms.parts["clean"], cross_entropy(logits[0], y).mean())
    torch.testing.assert_close(terms.total, cross_entropy(logits[0], y).mean() + 5 * divergence(*logits).mean())


@pytest.mark.parametrize("soft", [False, True])
def test_what_softens_labels_also_changes_the_clean_view(soft):
    model, x, y = Recorder(), images(6), labels(6, 3)
    target = soften(y, torch.full((6,), 0.7, dtype=torch.float64), 3) if soft else y
    spider = Spider(tau=0.2)  # much less than from an image to its mirror image
    objective = JensenShannon(augment=(HorizontalFlip(probability=1.0), spider), weight=0.0)
    terms = objective(model, x, target, rng=Streams(1, "v", 6))
    views = model.seen.chunk(3)
    assert len({tuple(view.flatten().tolist()) for view in views}) == 3  # each with its own numbers
    clean, *others = views
    distance = spider.confidence(clean, x, 3)
    assert bool((distance > spider.confidence(clean, x.flip(3), 3)).all())  # near x, not near its mirror image
    for other in others:
        assert bool((spider.confidence(other, x.flip(3), 3) > spider.confidence(other, x, 3)).all())
    label = soften(target, distance, 3)
    torch.testing.assert_close(terms.total, cross_entropy(model(clean), label).mean())


def test_the_ablation_without_smoothing_learns_the_same_images_with_hard_labels():
    model, x, y = Recorder(), images(6), labels(6, 3)
    JensenShannon(augment=(Spider(tau=1.0),), weight=0.0)(model, x, y, rng=Streams(1, "v", 6))
    smoothed = model.seen
    terms = JensenShannon(augment=(Spider(tau=1.0, smoothing="none"),), weight=0.0)(model, x, y, rng=Streams(1, "v", 6))
    assert torch.equal(model.seen, smoothed)
    torch.testing.assert_close(terms.total, cross_entropy(model(model.seen.chunk(3)[0]), y).mean())


def test_a_recipe_may_name_it_with_its_augmentations():
    text = "name: a\ndata: {source: digits}\nmodel: linear\ntrain: {objective: {jensen_shannon: {augment: %s}}}"
    (recipe,) = parse_recipes(text % "[augmix, {spider: {tau: 2}}]")
    assert recipe.train.objective == JensenShannon(augment=(AugMix(), Spider(tau=2.0)), weight=12.0)


def test_refuses_no_views_and_negative_weights():
    with pytest.raises(ValueError, match="augment: expected at least one augmentation, got none"):
        JensenShannon(augment=())
    with pytest.raises(ValueError, match="weight must not be negative, got -1"):
        JensenShannon(weight=-1.0)
