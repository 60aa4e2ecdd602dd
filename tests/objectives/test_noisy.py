import pytest
import torch

from holdfast.corruptions import GaussianNoise
from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.objectives import CleanAndNoisy, Noisy, Stability
from holdfast.rng import Streams
from tests.zoo import half_space, images, labels, linear, normed

COUNT = 8
X, Y = images(COUNT), labels(COUNT, 3)


def rng():
    return Streams(2, "n", COUNT)


def noisy(sigma):
    return GaussianNoise(sigma)(X, rng=rng())


def test_noisy_is_the_cross_entropy_of_the_noisy_images():
    model = linear(3)
    expected = cross_entropy(model(noisy(0.3)), Y).mean()
    torch.testing.assert_close(Noisy(sigma=0.3)(model, X, Y, rng=rng()).total, expected)


@pytest.mark.parametrize(("joint", "divisor"), [(True, 1.7), (False, 1.0)])
def test_clean_and_noisy_is_the_weighted_mean_or_sum_of_its_parts(joint, divisor):
    model = linear(3)
    terms = CleanAndNoisy(sigma=0.3, weight=0.7, joint=joint)(model, X, Y, rng=rng())
    clean, loud = cross_entropy(model(X), Y).mean(), cross_entropy(model(noisy(0.3)), Y).mean()
    torch.testing.assert_close(terms.total, (clean + 0.7 * loud) / divisor)
    torch.testing.assert_close(terms.parts["clean"], clean)
    torch.testing.assert_close(terms.parts["noisy"], loud)


def test_a_joint_pass_is_the_mean_loss_of_one_batch_of_both():
    model = normed(dropout=0.0).train()
    expected = cross_entropy(model(torch.cat([X, noisy(0.3)])), torch.cat([Y, Y])).mean()
    torch.testing.assert_close(CleanAndNoisy(sigma=0.3)(model, X, Y, rng=rng()).total, expected)
    # Layers that look at the whole batch see both kinds of images at once, or one after the other.
    apart = CleanAndNoisy(sigma=0.3, joint=False)(model, X, Y, rng=rng()).total
    assert float((apart / 2 - expected).detach().abs()) > 1e-4


def test_a_joint_pass_takes_soft_labels():
    model, soft = linear(3), torch.nn.functional.one_hot(Y, 3).to(X)
    torch.testing.assert_close(CleanAndNoisy()(model, X, soft).total, CleanAndNoisy()(model, X, Y).total)


def test_stability_is_the_mean_distance_of_the_features_not_squared():
    model = linear(3)  # its features are the pixels, so the distance is that of the noise
    terms = Stability(sigma=0.3, weight=0.7)(model, X, Y, rng=rng())
    apart = (noisy(0.3) - X).flatten(1).norm(dim=1).mean()
    torch.testing.assert_close(terms.parts["stability"], apart)
    torch.testing.assert_close(terms.total, cross_entropy(model(X), Y).mean() + 0.7 * apart)


def test_without_noise_all_are_the_clean_loss():
    model = normed()
    clean = cross_entropy(model(X), Y).mean()
    torch.testing.assert_close(Noisy(sigma=0.0)(model, X, Y).total, clean)
    torch.testing.assert_close(CleanAndNoisy(sigma=0.0, weight=3.0)(model, X, Y).total, clean)
    torch.testing.assert_close(CleanAndNoisy(sigma=0.0, weight=1.0, joint=False)(model, X, Y).total, 2 * clean)
    terms = Stability(sigma=0.0)(model, X, Y)
    torch.testing.assert_close(terms.total, clean)
    grads = torch.autograd.grad(terms.total, list(model.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)  # the slope of a distance of zero is not NaN


def test_stability_wants_features_and_says_so():
    with pytest.raises(ModelError, match="needs a model with features"):
        Stability()(half_space(16), X, Y)


@pytest.mark.parametrize("kind", [Noisy, CleanAndNoisy, Stability])
def test_impossible_noise_is_refused_at_once(kind):
    with pytest.raises(ValueError, match="finite size, not negative"):
        kind(sigma=-1.0)


def test_a_weight_that_could_make_the_mean_infinite_is_refused():
    with pytest.raises(ValueError, match=r"weight must not be negative, got -1\.0"):
        CleanAndNoisy(weight=-1.0)
