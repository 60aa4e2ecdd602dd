import math

import pytest
import torch
import torch.nn.functional as F

from holdfast.losses import cross_entropy
from holdfast.objectives import Annealing, LargeMargin
from holdfast.objectives.large_margin import large_margin_logits, psi
from tests.objectives.test_discriminative import B, Direct, Q, W, Y, close

ANGLES = torch.linspace(0, math.pi, 1001, dtype=torch.float64)
AT_ONCE = Annealing(base=0.0)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7])
def test_psi_is_what_the_paper_says_of_the_angle(m):
    k = (ANGLES * m / math.pi).floor().clamp(max=m - 1)
    expected = (-1.0) ** k * torch.cos(m * ANGLES) - 2 * k
    torch.testing.assert_close(psi(torch.cos(ANGLES), m), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_psi_falls_without_a_jump_and_is_never_above_the_cosine(m):
    values = psi(torch.cos(ANGLES), m)
    steps = values.diff()
    assert bool((steps <= 1e-12).all())
    assert float(steps.abs().max()) < 2 * m * math.pi / 1000
    assert bool((values <= torch.cos(ANGLES) + 1e-12).all())
    assert float(values[-1]) == pytest.approx(1 - 2 * m)


def test_the_label_gets_the_harder_logit_and_the_bias_stays():
    logits = F.linear(Q, W, B)
    found = large_margin_logits(Q, logits, Y, W, 2, torch.zeros(()))
    # (1, 0) with row (1, 0): no angle, nothing changes. (1, 3) with row (0, 1): cos = 3 / sqrt 10, cos 2t = 0.8
    close(found[0], logits[0])
    close(found[4], [1.0, math.sqrt(10) * 0.8 + 0.5, -4.0])


def test_once_is_the_cross_entropy_and_more_is_harder():
    plain = cross_entropy(F.linear(Q, W, B), Y).mean()
    values = [float(LargeMargin(m=m, annealing=AT_ONCE)(Direct(W, B), Q, Y).total.detach()) for m in (1, 2, 3, 4)]
    assert values[0] == pytest.approx(float(plain))
    assert values == sorted(values)
    assert values[1] > values[0]


def test_annealing_mixes_with_the_plain_logit():
    logits = F.linear(Q, W, B)
    hard = large_margin_logits(Q, logits, Y, W, 2, torch.zeros(()))
    mixed = large_margin_logits(Q, logits, Y, W, 2, torch.tensor(3.0))
    close(mixed, (3 * logits + hard) / 4)


def test_it_counts_its_steps():
    annealing = Annealing(base=1000, gamma=0.1, power=2, least=5)
    memory = LargeMargin(annealing=annealing).hooks.start(Direct(W, B), 3, torch.arange(5))
    found = [float(memory(Direct(W, B), Q, Y).parts["annealing"]) for _ in range(3)]
    assert found == pytest.approx([1000 / 1.1**2, 1000 / 1.2**2, 1000 / 1.3**2])
    assert int(memory.state_dict()["step"]) == 3
    assert float(annealing(torch.tensor(1000))) == 5


@pytest.mark.parametrize("points", [torch.zeros(5, 2), torch.ones(5, 2) * torch.tensor([1.0, 0.0])])
def test_no_features_and_no_angle_have_finite_gradients(points):
    x, model = points.double().requires_grad_(), Direct(W, B)
    total = LargeMargin(m=4, annealing=AT_ONCE)(model, x, Y).total
    grads = torch.autograd.grad(total, [x, *model.parameters()])
    assert bool(total.isfinite())
    assert all(bool(grad.isfinite().all()) for grad in grads)


def test_impossible_settings_are_refused_at_once():
    with pytest.raises(ValueError, match="m must be at least 1"):
        LargeMargin(m=0)
    with pytest.raises(ValueError, match="gamma must be finite and not negative"):
        Annealing(gamma=-1.0)
