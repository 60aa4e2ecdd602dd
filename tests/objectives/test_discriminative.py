"""Reference numbers (computed apart in float64), gradients, memory, and what may not break."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.augment import HorizontalFlip, RandomCrop, Spider
from holdfast.corruptions import Clean, GaussianNoise, UniformNoise
from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.objectives import Center, Discriminative, LargeMargin, TermWeights
from holdfast.objectives.centroids import class_sums, means
from holdfast.objectives.discriminative import compactness, margin_loss, signed_distances
from holdfast.rng import Streams, streams
from tests import chance
from tests.zoo import Affine, generator, half_space, images, labels, normed, seeded

Q = torch.tensor([[1, 0], [3, 0], [0, 2], [0, 4], [1, 3]], dtype=torch.float64)
NOISY = torch.tensor([[1, 1], [3, -1], [0, 1], [1, 4], [2, 3]], dtype=torch.float64)
Y = torch.tensor([0, 0, 1, 1, 1])
W = torch.tensor([[1, 0], [0, 1], [-1, -1]], dtype=torch.float64)
B = torch.tensor([0, 0.5, 0], dtype=torch.float64)
COUNTS = torch.tensor([2, 3, 0], dtype=torch.float64)


class Direct(nn.Module):
    """A network whose features are its input, so that features can be given; noisy ones through the noise."""

    def __init__(self, weight, bias):
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def features(self, x):
        return x

    @property
    def head(self):
        return Affine(self.weight, self.bias)

    def forward(self, x):
        return self.head(x)


@dataclasses.dataclass(frozen=True)
class Given:
    """A corruption that moves what the test wants moved."""

    def __call__(self, x, *, rng=None):
        return NOISY + (x - Q)


def objective(**changed):
    return Discriminative(**{"noise": Given(), "delta_d": 3.0, **changed})


def centroids():
    return means(*class_sums(Q, Y, 3))


def close(found, expected, **tolerance):
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=found.dtype), **tolerance)


def test_centroids_of_the_batch():
    sums, counts = class_sums(Q, Y, 3)
    assert torch.equal(counts, COUNTS)
    close(means(sums, counts), [[2, 0], [1 / 3, 3], [0, 0]])


def test_every_term_has_its_reference_value():
    parts = objective()(Direct(W, B), Q, Y).parts
    expected = {"compact": 0.2319691489, "noisy": 1.1157646740, "margin": 1.3500841772, "reg": 2.5092308564}
    for name, value in expected.items():
        assert float(parts[name].detach()) == pytest.approx(value, abs=1e-10), name
    close(parts["clean"], cross_entropy(F.linear(Q, W, B), Y).mean())


def test_the_total_has_the_weights_of_the_paper_or_those_of_the_code():
    loss = float(cross_entropy(F.linear(Q, W, B), Y).mean())
    assert float(objective()(Direct(W, B), Q, Y).total.detach()) - loss == pytest.approx(2.7003272310, abs=1e-10)
    pooled = objective(weights=TermWeights(pooled=True))(Direct(W, B), Q, Y)
    assert float(pooled.total.detach()) - loss == pytest.approx(2.0264603195, abs=1e-10)


def test_pooling_clean_and_noisy_features_is_half_of_each():
    both = compactness(torch.cat((Q, NOISY)), torch.cat((Y, Y)), centroids(), 2 * COUNTS, 0.5)
    assert float(both) == pytest.approx(0.6738669115, abs=1e-10)


def test_signed_distances_have_their_reference_values():
    found = signed_distances(centroids(), torch.arange(3), W, B)
    close(found[0], [torch.inf, 1.0606601718, 1.7888543820], rtol=0, atol=1e-10)
    close(found[1], [2.2391714738, torch.inf, 3.0559595692], rtol=0, atol=1e-10)


def test_the_papers_distance_times_sign_is_the_signed_distance():
    points = torch.randn(3, 2, dtype=torch.float64, generator=generator())
    found = signed_distances(points, torch.arange(3), W, B)
    for c in range(3):
        z = W @ points[c] + B
        for i in {0, 1, 2} - {c}:
            distance = ((W[c] - W[i]) @ points[c] + B[c] - B[i]).abs() / (W[c] - W[i]).norm()  # eq. 10
            close(found[c, i], -distance * torch.sign(z[i] - z[c]))  # eq. 9


def test_momentum_centroids_over_two_batches():
    memory = objective().hooks.start(Direct(W, B), 3, torch.arange(5))
    memory(Direct(W, B), Q, Y)
    close(memory.centroids, [[2, 0], [1 / 3, 3], [0, 0]])
    assert memory.seen.tolist() == [True, True, False]
    memory(Direct(W, B), Q + torch.tensor([1.0, 0.0]), Y)
    close(memory.centroids, [[2.01, 0], [0.34333333, 3], [0, 0]], rtol=0, atol=1e-8)


def test_a_class_that_is_absent_keeps_its_centroid_and_a_new_one_starts_at_its_batch_mean():
    memory = objective(weights=TermWeights(noisy=0)).hooks.start(Direct(W, B), 3, torch.arange(5))
    memory(Direct(W, B), Q, Y)
    terms = memory(Direct(W, B), Q[:1] + 4, torch.tensor([2]))
    close(memory.centroids, [[2, 0], [1 / 3, 3], [5, 4]])
    assert float(terms.parts["compact"].detach()) == 0  # one point that is its own centroid
    assert bool(terms.total.isfinite())


def second_batch(momentum, centre):
    """Gradient at the features of a second batch of one part of the loss, and the stored centroids before it."""
    model, moved = Direct(W, B), (Q + torch.tensor([1.0, -0.5])).requires_grad_()
    memory = objective(momentum=momentum).hooks.start(model, 3, torch.arange(5))
    memory(model, Q, Y)
    stored = memory.centroids.clone()
    terms = memory(model, moved, Y)
    return torch.autograd.grad(terms.parts[centre], moved)[0], stored, moved


@pytest.mark.parametrize("gamma", [0.9, 0.99])
def test_the_stored_part_is_constant_and_the_part_of_the_batch_keeps_its_gradient(gamma):
    for name in ("compact", "reg", "noisy"):
        found, stored, moved = second_batch(gamma, name)
        batch = means(*class_sums(moved, Y, 3))
        mixed = gamma * stored + (1 - gamma) * batch
        expected = {
            "compact": compactness(moved, Y, mixed, COUNTS, 0.5),
            "noisy": compactness(NOISY + moved - Q, Y, mixed, COUNTS, 0.5),
            "reg": (mixed[0].norm() + mixed[1].norm()) / 2,
        }[name]
        torch.testing.assert_close(found, torch.autograd.grad(expected, moved)[0])


@pytest.mark.parametrize("gamma", [0.9, 0.99])
def test_momentum_would_shrink_the_margins_gradient_by_one_minus_gamma(gamma):
    """Proposition 4.1, which is why the margin uses the batch's centroids. The proof prints it the other way round."""
    points, stored = Q.clone().requires_grad_(), centroids() + 0.01
    batch = means(*class_sums(points, Y, 3))
    grads = [
        torch.autograd.grad(margin_loss(used, COUNTS, W, B, 3.0), points, retain_graph=True)[0]
        for used in (batch, gamma * stored + (1 - gamma) * batch)
    ]
    torch.testing.assert_close(grads[1], (1 - gamma) * grads[0])
    assert not torch.allclose(grads[0], (1 - gamma) * grads[1])  # as printed in appendix C
    found, *_ = second_batch(gamma, "margin")
    assert float(found.norm()) == pytest.approx(float(grads[0].norm()), rel=1e-9)  # the objective does not shrink it


def test_the_margin_teaches_the_head_too_and_compactness_does_not():
    model = Direct(W, B)
    parts = objective()(model, Q, Y).parts
    weight, bias = torch.autograd.grad(parts["margin"], list(model.parameters()))
    assert float(weight.abs().max()) > 0
    close(bias, [0, 0, 0])  # classes 0 and 1 push the one hyperplane between them in opposite directions
    alone = margin_loss(centroids(), COUNTS * torch.tensor([1.0, 0, 0]), W, model.bias, 3.0)
    close(torch.autograd.grad(alone, model.bias)[0], [-(0.5**0.5), 0.5**0.5, 0])
    assert not parts["compact"].requires_grad  # these features have no weights before them


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 10_000))
def test_terms_are_what_a_loop_over_the_classes_says(count, classes, seed):
    random = generator(seed)
    q, noisy = torch.randn(2, count, 3, dtype=torch.float64, generator=random).unbind()
    y = torch.randint(classes, (count,), generator=random)
    weight, bias = torch.randn(classes, 3, dtype=torch.float64, generator=random), torch.randn(classes).double()
    sums, counts = class_sums(q, y, classes)
    compact, align, margin = [], [], []
    for c in y.unique().tolist():
        m = q[y == c].mean(0)
        compact.append(((q[y == c] - m).norm(dim=1) - 0.5).clamp_min(0).square().mean())
        align.append(((noisy[y == c] - m).norm(dim=1) - 0.5).clamp_min(0).square().mean())
        z = weight @ m + bias
        gaps = [1.0 - (z[c] - z[i]) / (weight[c] - weight[i]).norm() for i in range(classes) if i != c]
        margin.append(max([torch.zeros(()).double(), *gaps]))
    m = means(sums, counts)
    torch.testing.assert_close(compactness(q, y, m, counts, 0.5), torch.stack(compact).mean())
    torch.testing.assert_close(compactness(noisy, y, m, counts, 0.5), torch.stack(align).mean())
    torch.testing.assert_close(margin_loss(m, counts, weight, bias, 1.0), torch.stack(margin).mean())


DEGENERATE = {
    "equal rows": (torch.ones(3, 2), torch.zeros(3)),
    "a head of zeros": (torch.zeros(3, 2), torch.zeros(3)),
    "equal rows with other biases": (torch.ones(3, 2), torch.tensor([0.0, 1.0, 2.0])),
    "two equal rows": (torch.tensor([[1.0, 0], [1, 0], [0, 1]]), torch.zeros(3)),
    "ties": (torch.tensor([[0.0, 0], [1, 0], [-1, 0]]), torch.zeros(3)),
    "one class": (torch.ones(1, 2), torch.zeros(1)),
}


@pytest.mark.parametrize(("weight", "bias"), DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("points", [torch.zeros(4, 2), torch.ones(4, 2)], ids=["at zero", "at one point"])
def test_degenerate_heads_and_features_have_finite_terms_and_gradients(weight, bias, points):
    model, x = Direct(weight.double(), bias.double()), points.double().requires_grad_()
    y = torch.tensor([0, 0, 0, len(weight) - 1])
    terms = Discriminative(noise=Clean())(model, x, y)
    assert all(bool(part.isfinite()) for part in (terms.total, *terms.parts.values()))
    grads = torch.autograd.grad(terms.total, [x, *model.parameters()])
    assert all(bool(grad.isfinite().all()) for grad in grads)


def test_where_no_hyperplane_is_between_two_classes_there_is_no_margin_to_learn():
    model = Direct(torch.ones(3, 2).double(), torch.zeros(3).double())
    assert float(Discriminative(noise=Clean())(model, Q, Y).parts["margin"].detach()) == 0


def test_a_head_without_bias_is_one_with_zeros():
    with_zeros, without = (Discriminative(noise=Clean())(Direct(W, b), Q, Y) for b in (torch.zeros(3).double(), None))
    close(without.total, with_zeros.total)


@pytest.mark.parametrize("bias", [B.float(), None], ids=["bias", "no bias"])
def test_distances_have_the_precision_of_the_points(bias):
    weight = (W / 3).float()
    rounded = signed_distances(centroids(), torch.arange(3), weight, bias)
    exact = signed_distances(centroids(), torch.arange(3), weight.double(), None if bias is None else bias.double())
    assert torch.equal(rounded, exact)
    assert signed_distances(centroids().float(), torch.arange(3), W, B).dtype == torch.float32


def test_terms_of_a_half_precision_network_are_those_of_its_features_in_float32():
    weight, bias, x = (tensor.bfloat16() for tensor in (W / 3, B / 3, Q / 3))
    half = Discriminative(noise=Clean(), delta_d=3.0)(Direct(weight, bias), x, Y).parts
    single = Discriminative(noise=Clean(), delta_d=3.0)(Direct(weight.float(), bias.float()), x.float(), Y).parts
    for name in ("compact", "margin", "reg", "noisy"):
        assert half[name].dtype == torch.float32
        torch.testing.assert_close(half[name], single[name])


def views(of, x, rng):
    return of.clean_view(x, rng), of.noisy_view(x, rng)


def test_the_noise_is_a_choice_and_has_a_view_of_its_own():
    x, rng = images(6, (1, 8, 8)), Streams(3, "v", 6)
    clean, noisy = views(Discriminative(noise=UniformNoise(0.1)), x, rng)
    assert torch.equal(clean, x)
    assert 0 < float((noisy - x).abs().max()) <= 0.1
    expected = GaussianNoise(0.06)(x, rng=rng.split("noise"))
    assert torch.equal(Discriminative().noisy_view(x, rng), expected)


def test_views_are_independent_only_where_the_objective_makes_them():
    x, rng = images(2000, (1, 4, 4)), Streams(3, "v", 2000)
    assert torch.equal(*views(Discriminative(noise=Clean()), x, rng))
    clean, noisy = views(Discriminative(noise=Clean(), augment=(HorizontalFlip(),)), x, rng)
    flips = [(view != x).flatten(1).any(1) for view in (clean, noisy)]
    for a in (False, True):
        for b in (False, True):
            share = ((flips[0] == a) & (flips[1] == b)).double().mean()
            assert float(share) == pytest.approx(0.25, abs=chance.share_error(2000, 0.25))


def test_without_a_weight_for_noise_there_is_one_forward_pass():
    model, seen = Direct(W, B), []
    model.features = lambda x: (seen.append(x), x)[1]
    parts = objective(weights=TermWeights(noisy=0))(model, Q, Y).parts
    assert len(seen) == 1
    assert "noisy" not in parts
    objective()(model, Q, Y)
    assert len(seen) == 3


def test_it_is_only_its_fields_until_it_is_started():
    assert Discriminative() == Discriminative()
    memory = Discriminative().hooks.start(normed(), 3, torch.arange(9))
    assert set(memory.state_dict()) == {"centroids", "seen"}
    assert memory.centroids.shape == (3, 64)
    assert not list(memory.parameters())


def test_started_it_begins_as_it_is_unstarted():
    model, x, y = normed(), images(9), labels(9, 3)
    direct = Discriminative()(model, x, y)
    memory = Discriminative().hooks.start(model, 3, torch.arange(9))
    assert torch.equal(memory(model, x, y).total, direct.total)
    assert not torch.equal(memory(model, x.flip(3), y).total, Discriminative()(model, x.flip(3), y).total)


def test_a_network_may_have_more_outputs_than_there_are_classes():
    memory = Discriminative(noise=Clean()).hooks.start(Direct(W, B), 2, torch.arange(5))
    assert float(memory(Direct(W, B), Q, Y).parts["margin"].detach()) == pytest.approx(1.3500841772 + 2, abs=1e-9)


class Cosine(nn.Linear):
    def forward(self, x):
        return F.linear(F.normalize(x), F.normalize(self.weight))


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (nn.Sequential(nn.Linear(2, 3)), "needs a linear head with a weight .* got Sequential"),
        (nn.Conv2d(2, 3, 1), "needs a linear head with a weight .* got Conv2d"),
        (seeded(lambda: Cosine(2, 3)), "needs a head that is linear in the features, got Cosine"),
    ],
    ids=["sequential", "convolution", "cosine"],
)
def test_other_heads_are_one_line(head, says):
    model = nn.Module()
    model.features, model.head = lambda x: x, head
    with pytest.raises(ModelError, match=says):
        Discriminative().hooks.start(model, 3, torch.arange(5))


def test_models_without_features_are_one_line():
    with pytest.raises(ModelError, match=r"discriminative needs a model with features\(x\) and head, got HalfSpace"):
        Discriminative()(half_space(16), images(4), labels(4, 2))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\)"),
        ({"delta_v": -0.1}, "delta_v and delta_d must be finite and not negative"),
        ({"augment": (RandomCrop(padding=1), Spider(tau=1.0))}, "augmentations that leave labels alone"),
    ],
)
def test_impossible_settings_are_refused_at_once(fields, says):
    with pytest.raises(ValueError, match=says):
        Discriminative(**fields)


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_weights_are_finite_and_not_negative(weight):
    with pytest.raises(ValueError, match="margin must be finite and not negative"):
        TermWeights(margin=weight)


@pytest.mark.parametrize(
    "method", [Discriminative(), Center(), LargeMargin()], ids=lambda method: type(method).__name__
)
def test_a_network_that_does_more_than_its_head_is_refused_at_the_first_batch(method):
    class Doubled(Direct):
        def forward(self, x):
            return 2 * self.head(x)

    memory, model = method.hooks.start(Doubled(W, B), 3, torch.arange(5)), Doubled(W, B)
    with pytest.raises(ModelError, match=r"needs a model whose logits are head\(features\(x\)\)"):
        memory(model, Q, Y)
    memory = method.hooks.start(Direct(W, B), 3, torch.arange(5))
    memory(Direct(W, B), Q, Y)
    memory(model, Q, Y)  # asked once


def test_looking_at_a_network_moves_no_statistics():
    model, x, y = normed().train(), images(9), labels(9, 3)
    memory, other = Discriminative(noise=Clean()).hooks.start(model, 3, torch.arange(9)), copy.deepcopy(model)
    memory(model, x, y, rng=streams(None, x))
    Discriminative(noise=Clean())(other, x, y, rng=streams(None, x))
    assert model.training
    assert model.norm.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
