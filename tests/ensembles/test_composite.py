"""Classifiers of two classifiers are ordinary classifiers."""

import copy
import math

import pytest
import torch

from holdfast.attacks import APGD, PGD, AutoAttack
from holdfast.ensembles import AdaptiveComposite, Composite, GradientRatio, Policy, Probability
from holdfast.ensembles.composite import aimed, first_stage_maps, image_size_maps
from holdfast.errors import ModelError
from holdfast.models import MODELS, build
from holdfast.models.network import Normalised
from holdfast.rng import Streams
from holdfast.threat import Linf
from holdfast.wrappers import BPDA
from tests.zoo import digits, digits_mlp, digits_robust, generator, half_space, images, labels, seeded, smooth


def pair():
    return copy.deepcopy(digits_mlp()), copy.deepcopy(digits_robust())


def accuracy(model, x, y):
    with torch.no_grad():
        return float((model(x).argmax(1) == y).double().mean())


def test_strength_goes_from_the_accurate_to_the_robust():
    (g, h), (x, y) = pair(), digits()
    x, y = x[-100:], y[-100:]
    assert torch.equal(Composite(g, h, GradientRatio(), 0.0)(x), g(x))
    assert torch.equal(Composite(g, h, GradientRatio(), math.inf)(x), h(x))
    attack = PGD(threat=Linf(0.1), steps=10)

    def robust(strength):
        model = Composite(g, h, GradientRatio(), strength)
        return accuracy(model, attack(model, x, y, rng=Streams(0, "attack", len(x))), y)

    weak, middle, strong = (robust(strength) for strength in (0.0, 1.0, math.inf))
    assert weak < strong
    assert weak - 0.02 <= middle <= strong + 0.02


@pytest.mark.parametrize("attack", [PGD, APGD, AutoAttack], ids=lambda kind: kind.__name__)
def test_attacks_run_on_composites(attack):
    (g, h), (x, y) = pair(), digits()
    x, y = x[-12:], y[-12:]
    fields = {"queries": 20} if attack is AutoAttack else {}
    model = Composite(g, h, GradientRatio(gradients="largest"), 1.0)
    z = attack(threat=Linf(0.2), steps=4, **fields)(model, x, y, rng=Streams(0, "attack", len(x)))
    assert float((z - x).abs().max()) <= 0.2 + 1e-6
    assert accuracy(model, z, y) < accuracy(model, x, y)


def test_an_adversary_may_aim_elsewhere():
    (g, h), x = pair(), digits()[0][:5]
    composite = Composite(g, h, GradientRatio(), 3.0)
    assert torch.equal(aimed(composite, 0.0)(x), g(x))
    assert torch.equal(aimed(composite, math.inf)(x), h(x))
    assert torch.equal(aimed(composite, 3.0)(x), composite(x))


def test_an_oracle_of_strengths_is_as_good_as_the_better_one():
    """Theorem 3: with 0 where the accurate one is right, and infinity elsewhere, one right answer of two is enough."""
    (g, h), (x, y) = pair(), digits()
    x, y = x[:100], y[:100]
    attack = PGD(threat=Linf(0.15), steps=5)
    for points in (
        x,
        attack(g, x, y),
        attack(h, x, y),
        (x + 0.3 * torch.rand(x.shape, generator=generator())).clamp(0, 1),
    ):
        right_g, right_h = (model(points).argmax(1) == y for model in (g, h))
        strength = torch.where(right_g, 0.0, math.inf)
        with torch.no_grad():
            found = GradientRatio()(g, h, points, strength).argmax(1) == y
        assert torch.equal(found, right_g | right_h)
        assert found.sum() >= max(right_g.sum(), right_h.sum())


def adaptive(shape=(1, 8, 8), width=0.05):
    g, h = (build(MODELS[name], shape, 3, seed=7) for name in ("mlp", "lenet"))
    channels = tuple(image_size_maps(model, torch.zeros(1, *shape)).shape[1] for model in (g, h))
    return AdaptiveComposite(g, h, Probability(), seeded(lambda: Policy(channels, width=width))).eval()


def test_the_policy_chooses_for_every_image():
    model, x = adaptive(), images(6, (1, 8, 8), dtype=torch.float32)
    beta = model.strengths(x).detach()
    assert beta.shape == (6,)
    assert len(set(beta.tolist())) == 6
    expected = torch.cat([aimed(model, float(b.exp()))(x[i : i + 1]) for i, b in enumerate(beta)])
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)


def test_only_the_policy_learns_and_only_its_mode_changes():
    model, x, y = adaptive(), images(6, (1, 8, 8), dtype=torch.float32), labels(6, 3)
    model.train()
    assert model.policy.training
    assert not any(module.training for inner in (model.standard, model.robust) for module in inner.modules())
    torch.nn.functional.cross_entropy(model(x), y).backward()
    learns = {name.split(".")[0] for name, one in model.named_parameters() if one.grad is not None}
    assert learns == {"policy"}


def test_gradients_go_through_the_policy_and_around_it():
    model, x = adaptive(width=0.02).double(), images(1, (1, 8, 8))
    assert torch.autograd.gradcheck(model, x.clone().requires_grad_(), atol=1e-5)
    z = x.clone().requires_grad_()
    (through,) = torch.autograd.grad(model(z)[:, 0].sum(), z)
    with torch.no_grad():
        strength = model.strengths(x).exp()
    (around,) = torch.autograd.grad(model.mixing(model.standard, model.robust, z, strength)[:, 0].sum(), z)
    assert not torch.allclose(through, around)
    (found,) = torch.autograd.grad(aimed(model, None)(z)[:, 0].sum(), z)
    torch.testing.assert_close(found, around)
    torch.testing.assert_close(aimed(model, None)(x), model(x))
    fixed = Composite(model.standard, model.robust, model.mixing, 2.0)
    assert aimed(fixed, None) is fixed


def test_a_composite_is_aimed_at_behind_wrappers_and_inside_other_modules():
    pair, x = Composite(smooth(3), smooth(3, seed=1), GradientRatio(), 2.0), images(4)
    behind = Normalised(pair, [0.5], [0.25]).double()
    torch.testing.assert_close(aimed(behind, 0.0)(x), pair.standard((x - 0.5) / 0.25))
    torch.testing.assert_close(aimed(BPDA(behind, torch.round), 0.0)(x), behind_standard(pair, x.round()))
    assert aimed(behind, None) is behind
    torch.testing.assert_close(behind(x), pair((x - 0.5) / 0.25))  # nothing was changed in place


def behind_standard(pair, x):
    return pair.standard((x - 0.5) / 0.25)


def test_strengths_are_cut():
    policy = seeded(lambda: Policy((4, 4), width=0.05)).eval()
    with torch.no_grad():
        policy.head[-1].weight.fill_(1e6)
        found = policy(*torch.randn(2, 5, 4, 6, 6, generator=torch.Generator().manual_seed(0)))
    assert set(found.abs().tolist()) == {14.0}


@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), (3, 7, 9), (3, 32, 32)], ids=str)
def test_maps_of_any_size_will_do(shape):
    policy = seeded(lambda: Policy((3, 3), width=0.02)).eval()
    assert policy(torch.rand(2, *shape), torch.rand(2, 3, 4, 4)).shape == (2,)


class Foreign(torch.nn.Module):
    """A network of somebody else whose first stage has this stride."""

    def __init__(self, stride):
        super().__init__()
        self.stem = torch.nn.Conv2d(1, 5, 3, stride=stride, padding=1)

    def stages(self, x):
        yield self.stem(x)


def test_the_policy_sees_maps_of_the_size_of_the_image():
    """Of ours those before the pool; of foreign networks the first stage, or the image where that is smaller."""
    x = images(2, (1, 8, 8), dtype=torch.float32)
    assert image_size_maps(Foreign(1), x).shape == (2, 5, 8, 8)
    assert image_size_maps(Foreign(2), x) is x
    assert first_stage_maps(Foreign(2), x).shape == (2, 5, 4, 4)
    lenet = build(MODELS["lenet"], (1, 8, 8), 3)
    assert first_stage_maps(lenet, x).shape == (2, 32, 4, 4)
    assert image_size_maps(lenet, x).shape == (2, 32, 8, 8)
    shapes = []
    model = adaptive()
    model.policy.register_forward_pre_hook(lambda _, given: shapes.extend(maps.shape[2:] for maps in given))
    model(x)
    assert shapes == [(8, 8), (8, 8)]


def test_other_networks_are_one_line():
    plain = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    with pytest.raises(ModelError, match=r"a policy needs networks with stages\(x\), got Sequential"):
        image_size_maps(plain, torch.zeros(1, 1, 8, 8))
    composite = Composite(smooth(3), smooth(4), GradientRatio(), 1.0)
    with pytest.raises(ModelError, match="expected two classifiers of the same classes, got 3 and 4"):
        composite(images(2))
    with pytest.raises(ModelError, match="no gradient"):
        Composite(Rounded(), half_space(16), GradientRatio(), 1.0)(images(2))


class Rounded(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :2].detach()
