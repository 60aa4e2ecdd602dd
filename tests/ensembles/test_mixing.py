"""Reference values of equations 2, 5 and 10 and of mixed probabilities, computed apart; limits; gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.ensembles import Composite, GradientRatio, LocalBias, Probability, RobustTransform, strength_of
from holdfast.ensembles.composite import mixed
from holdfast.ensembles.mixing import mix_logits, mix_probabilities, robust_share
from holdfast.errors import ModelError
from holdfast.models import MODELS, build
from tests.zoo import Linear, generator, images, normed, smooth

G = torch.tensor([[2, 1, 0]], dtype=torch.float64)
H = torch.tensor([[0.5, 1.5, 0.2]], dtype=torch.float64)
STEEP_G = torch.tensor([[4, 3, 2]], dtype=torch.float64)
STEEP_H = torch.tensor([[1, 2, 4]], dtype=torch.float64)


def close(found, expected, atol=1e-8):
    torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64), rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.1, [1.57142857, 1.06521739, 0.00952381]),
        (1.0, [0.8, 1.3, 0.06666667]),
        (10.0, [0.53658537, 1.46875, 0.16666667]),
    ],
)
def test_equation_5(alpha, expected):
    close(mix_logits(G, H, robust_share(STEEP_G, STEEP_H, alpha)), expected)


def test_equation_10_has_one_ratio_for_all_classes():
    # The largest logits are class 0 of g and class 1 of h.
    share = robust_share(STEEP_G[:, :1], STEEP_H[:, 1:2], 1.0)
    close(mix_logits(G, H, share), [1.0, 1.33333333, 0.13333333])


def test_equation_2():
    # Ten neighbours, of which 3, 5 and 2 are of the classes.
    votes = 2 * torch.tensor([[0.3, 0.5, 0.2]], dtype=torch.float64) - 1
    share = robust_share(STEEP_G, torch.ones_like(STEEP_G), 1.0)
    close(mix_logits(G, votes, share), [0.08, 0.25, -0.4])


def test_mixed_probabilities():
    close(mix_probabilities(G, H, strength_of(0.76)), [-1.10837234, -0.65002391, -1.91141570])


def models(shape=(1, 4, 4)):
    return smooth(5, shape, seed=1), smooth(5, shape, seed=2)


MIXINGS = {
    "classes": GradientRatio(),
    "largest": GradientRatio(gradients="largest", norm="l2"),
    "bias": LocalBias(norm="l1"),
}


@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
@pytest.mark.parametrize("many", [False, True], ids=["one", "each"])
def test_the_ends_are_exact(mixing, many):
    (g, h), x = models(), images(4)
    at = (lambda value: torch.full((4,), value, dtype=x.dtype)) if many else float
    assert torch.equal(mixing(g, h, x, at(0.0)), g(x))
    assert torch.equal(mixing(g, h, x, at(math.inf)), h(x))


def test_the_ends_of_mixed_probabilities_are_exact():
    (g, h), x = models(), images(4)
    mixing = Probability(temperature=30.0)
    assert torch.equal(mixing(g, h, x, 0.0), g(x))
    assert torch.equal(mixing(g, h, x, math.inf), h(x) / 30)
    assert torch.equal(Probability()(g, h, x, math.inf), h(x))
    for each, end in ((0.0, g(x)), (math.inf, h(x) / 30)):
        found = mixing(g, h, x, torch.full((4,), each, dtype=x.dtype))
        torch.testing.assert_close(found, end.log_softmax(1), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("transform", [None, RobustTransform(), RobustTransform(sharpen=False)])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_mixed_probabilities_have_a_limit_at_infinite_strength(transform, temperature):
    (g, h), x = models(), images(4)
    mixing = Probability(temperature=temperature, transform=transform)
    limit, near, each = (mixing(g, h, x, end) for end in (math.inf, 1e12, torch.full((4,), math.inf, dtype=x.dtype)))
    torch.testing.assert_close(near.softmax(1), limit.softmax(1), rtol=0, atol=1e-11)
    torch.testing.assert_close(each.log_softmax(1), limit.log_softmax(1), rtol=1e-12, atol=1e-12)


def test_a_small_number_keeps_ratios_finite():
    weight = torch.tensor([[1.0, -1.0], [0.5, 0.0]], dtype=torch.float64)
    g, h = Linear(weight, torch.zeros(2).double()), Linear(2 * weight, torch.ones(2).double())
    x = torch.tensor([[0.3, 0.4]], dtype=torch.float64)
    ratio = torch.tensor([2.0, 0.5]) / (torch.tensor([4.0, 1.0]) + 0.5)
    expected = (g(x) + 3 * ratio * h(x)) / (1 + 3 * ratio)
    torch.testing.assert_close(GradientRatio(eps_c=0.5)(g, h, x, 3.0).detach(), expected.detach())


def test_of_equal_largest_logits_one_is_differentiated():
    weight = torch.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
    x = torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    model = Linear(weight, torch.zeros(2).double())
    (steep,) = GradientRatio(gradients="largest", norm="l1").measured(model, x)[1]
    assert steep.item() in (1.0, 3.0)  # shared between both it would be 1.5


@settings(deadline=None, max_examples=30)
@given(st.floats(1e-3, 1e3), st.integers(0, 99))
def test_equation_5_by_a_loop_over_classes(alpha, seed):
    (g, h), x = models(), images(3, seed=seed)
    found = GradientRatio(norm="l2", eps_c=0.0, block=2)(g, h, x, alpha)
    for i in range(5):
        z = x.clone().requires_grad_()
        steep = [torch.autograd.grad(model(z)[:, i].sum(), z)[0].flatten(1).square().sum(1).sqrt() for model in (g, h)]
        ratio = steep[0] / steep[1]
        expected = (g(x)[:, i] + alpha * ratio * h(x)[:, i]) / (1 + alpha * ratio)
        torch.testing.assert_close(found[:, i].detach(), expected.detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mixing", [*MIXINGS.values(), Probability()], ids=[*MIXINGS, "probability"])
def test_attacks_see_through_everything(mixing):
    """The gradient is that of the whole function, weights of the mixture included."""
    (g, h), x = models(), images(2)
    composite = Composite(g, h, mixing, 0.7).double()
    assert torch.autograd.gradcheck(composite, x.clone().requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("block", [None, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_gradients_of_many_classes_are_those_of_few(monkeypatch, block, linear):
    """Computed again block by block, they are the same, and so are theirs; weights that learn keep the whole graph."""
    weight = torch.randn(5, 16, dtype=torch.float64, generator=generator())
    (g, h), x = models(), images(3).requires_grad_()
    composite = Composite(Linear(weight, torch.zeros(5).double()) if linear else g, h, GradientRatio(block=block), 0.7)

    def derivatives():
        (first,) = torch.autograd.grad(composite(x).log_softmax(1)[:, 0].sum(), x, create_graph=True)
        return first, torch.autograd.grad(first.square().sum(), x)[0]

    plain = derivatives()
    monkeypatch.setattr("holdfast.ensembles.magnitudes.REMEMBERED", 4)
    for found, expected in zip(derivatives(), plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert torch.autograd.gradcheck(composite, x, atol=1e-6)
    learns = composite.robust.requires_grad_(True)
    composite(x).sum().backward()
    assert all(parameter.grad is not None for parameter in learns.parameters())


@pytest.mark.parametrize("alpha", [1e-44, 1e-30, 1e30, 1e38])
@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
def test_strengths_of_any_size_have_an_answer_and_a_gradient(mixing, alpha):
    g, h, x = smooth(5).float(), smooth(5, seed=1).float(), images(2).float().requires_grad_()
    for strength in (alpha, torch.tensor([alpha, 1.0], requires_grad=True)):
        found = Composite(g, h, mixing, 1.0).mixing(g, h, x, strength)
        torch.testing.assert_close(found[0], (g if alpha < 1 else h)(x)[0], rtol=1e-5, atol=1e-5)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(found.sum(), [x]))


@pytest.mark.parametrize("mixing", [*MIXINGS.values(), Probability()], ids=[*MIXINGS, "probability"])
def test_other_classes_are_not_broadcast(mixing):
    with pytest.raises(ModelError, match="expected two classifiers of the same classes, got 5 and 1"):
        Composite(smooth(5), smooth(1), mixing, 1.0)(images(2))


@pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)
def test_without_a_gradient_to_come_nothing_is_recorded(mixing):
    (g, h), x = models(), images(2)
    composite = Composite(g, h, mixing, 0.7)
    with torch.no_grad():
        plain = composite(x)
    assert not plain.requires_grad
    assert not composite(x).requires_grad
    torch.testing.assert_close(composite(x.clone().requires_grad_()).detach(), plain)
    assert all(parameter.grad is None for parameter in composite.parameters())


def test_inference_mode_is_refused_in_words():
    (g, h), x = models(), images(2)
    with torch.inference_mode(), pytest.raises(ModelError, match="inference mode forbids"):
        GradientRatio()(g, h, x, 1.0)
    with torch.inference_mode():
        strange = x + 0
    with pytest.raises(ModelError, match="inference mode forbids"):
        GradientRatio(gradients="largest")(g, h, strange, 1.0)


class Viewed(nn.Module):
    """A network of somebody else that takes images in the usual layout alone."""

    def forward(self, x):
        return x.view(len(x), -1)[:, :5].tanh()


@pytest.mark.parametrize("mixing", [GradientRatio(), GradientRatio(gradients="largest"), LocalBias()], ids=MIXINGS)
def test_the_layout_of_images_changes_nothing_and_is_not_forced_on_networks_of_others(mixing):
    asked = []
    own = build(MODELS["resnet10"], (3, 8, 8), 5, seed=1).double().eval().requires_grad_(False)
    own.register_forward_pre_hook(lambda module, given: asked.append(given[0].is_contiguous()))
    x = torch.rand(3, 3, 8, 8, dtype=torch.float64, generator=generator(0))
    for g, h in ((own, Viewed()), (Viewed(), own)):
        plain, through = mixing(g, h, x, 2.0), mixing(g, h, x.clone().requires_grad_(), 2.0)
        torch.testing.assert_close(plain, through.detach(), rtol=1e-12, atol=1e-12)
    assert asked[:2] == [False, True]  # faster so, but not where an attack differentiates it again


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_blocks_of_classes_change_nothing(block):
    (g, h), x = models(), images(3)
    whole = GradientRatio(block=5)(g, h, x, 2.0)
    torch.testing.assert_close(GradientRatio(block=block)(g, h, x, 2.0), whole, rtol=1e-12, atol=1e-12)


def test_a_class_that_answers_to_nothing_is_no_number_missing():
    weight = torch.randn(3, 16, dtype=torch.float64, generator=generator())
    weight[1] = 0
    flat = Linear(weight, torch.zeros(3, dtype=torch.float64))
    for eps_c in (0.0, 1e-8):
        found = GradientRatio(eps_c=eps_c)(flat, flat, images(2), 1.0)
        torch.testing.assert_close(found.detach(), flat(images(2)).detach())


def test_batch_statistics_stay_and_networks_may_differ():
    """Each has its own normalisation; in train mode of the whole they are judged as in eval mode."""
    g, h, x = normed(3), smooth(3, seed=4), images(5)
    composite = Composite(g.train(), h, GradientRatio(), 1.0).train()
    before = {name: tensor.clone() for name, tensor in g.state_dict().items()}
    assert torch.equal(composite(x), composite.eval()(x))
    assert all(torch.equal(tensor, before[name]) for name, tensor in g.state_dict().items())


def test_a_temperature_divides_the_robust_logits():
    (g, h), x = models(), images(3)
    found = Probability(temperature=0.5)(g, h, x, 2.0)
    torch.testing.assert_close(found, mix_probabilities(g(x), 2 * h(x), 2.0))


def test_mixed_probabilities_are_probabilities_and_small_ones_survive():
    g, h = torch.tensor([[200.0, 0.0]]), torch.tensor([[150.0, 0.0]])
    found = mix_probabilities(g, h, 1.0)
    assert torch.logsumexp(found, 1).item() == pytest.approx(0.0, abs=1e-6)
    assert found[0, 1].item() == pytest.approx(-150 - math.log(2), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: GradientRatio(norm="l0"), "norm must be linf, l2 or l1, got l0"),
        (lambda: GradientRatio(eps_c=-1.0), "eps_c must be finite and not negative"),
        (lambda: GradientRatio(block=0), "block must be at least 1"),
        (lambda: LocalBias(norm="l3"), "norm must be"),
        (lambda: mixed(Composite(*models(), Probability(), 1.0), images(2), -1.0), "strength must be a number from 0"),
        (lambda: Probability(temperature=0.0), r"temperature must lie in \[0.001, 1000\]"),
        (lambda: strength_of(1.5), r"share must lie in \[0, 1\]"),
        (lambda: Composite(nn.Identity(), nn.Identity(), Probability(), -1.0), "strength must be a number from 0 to"),
    ],
)
def test_impossible_settings_are_refused_at_once(make, says):
    with pytest.raises(ValueError, match=says):
        make()
