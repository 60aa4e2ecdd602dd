import pytest
import torch

from holdfast.losses import cross_entropy
from holdfast.objectives import MART
from holdfast.objectives.batch_stats import Statistics
from holdfast.objectives.mart import boosted_cross_entropy, weighted_divergence
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from tests.objectives.reference import LABELS, MOVED, NATURAL, asked
from tests.zoo import half_space, half_space_points, images, labels, smooth

FROZEN = Statistics("frozen", None)


def test_has_the_reference_values():
    terms = MART(threat=Linf(0.1)).loss(FROZEN, asked, NATURAL, LABELS, MOVED)
    assert float(terms.parts["boosted"]) == pytest.approx(1.3109866190, abs=1e-9)
    assert float(terms.parts["divergence"]) == pytest.approx(0.2033077613, abs=1e-9)
    assert float(terms.total) == pytest.approx(2.3275254254, abs=1e-9)


def test_the_divergence_goes_from_the_clean_prediction():
    reverse = weighted_divergence(NATURAL, MOVED, LABELS).mean()
    assert abs(float(reverse) - 0.2033077613) > 0.01


def test_the_best_wrong_class_counts_whether_or_not_it_is_the_prediction():
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 3.0]], dtype=torch.float64)
    p = logits.softmax(1)
    expected = -p[:, 1].log() - (1.0001 - torch.stack((p[0, 0], p[1, 2]))).log()
    torch.testing.assert_close(boosted_cross_entropy(logits, torch.tensor([1, 1])), expected)
    sure = torch.tensor([[100.0, 0.0, 0.0]])
    assert bool(boosted_cross_entropy(sure, torch.tensor([1])).isfinite().all())  # 1 - p would be 0


def test_a_sure_clean_prediction_weighs_nothing():
    natural = torch.tensor([[50.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    moved = torch.zeros(2, 3, dtype=torch.float64)
    moved[:, 1] = 2
    weighted = weighted_divergence(moved, natural, torch.tensor([0, 0]))
    assert float(weighted[0]) < 1e-6 < float(weighted[1])


@pytest.mark.parametrize("kind", [Linf, L2, L1])
def test_the_search_finds_the_optimum_of_a_half_space(kind):
    model, threat = half_space(), kind(0.05)
    x, y = half_space_points(model)
    z = MART(threat=threat, steps=40).search(FROZEN, model, x, y, Streams(0, "", len(x)))
    with torch.no_grad():
        gained = (model.signed(z) - model.signed(x)).abs() / 0.05
        torch.testing.assert_close(gained, threat.dual(model.weight[None]).expand(len(x)), rtol=2e-2, atol=0)
        assert bool((cross_entropy(model(z), y) > cross_entropy(model(x), y)).all())


def test_both_predictions_are_differentiated():
    model, x, y = smooth(), images(4), labels(4, 5)
    objective = MART(threat=Linf(0.1), steps=2)
    z = objective.search(FROZEN, model, x, y, Streams(0, "", 4))
    total = objective.loss(FROZEN, model, x, y, z).total
    log_p, log_q = model(x).log_softmax(1), model(z).log_softmax(1)
    of_label = torch.nn.functional.one_hot(y, 5).bool()
    boosted = -log_q[of_label] - (1.0001 - log_q.exp()[~of_label].view(4, 4).amax(1)).log()
    apart = (log_p.exp() * (log_p - log_q)).sum(1) * (1.0000001 - log_p.exp()[of_label])
    by_hand = boosted.mean() + 5 * apart.mean()
    parameters = list(model.parameters())
    torch.testing.assert_close(torch.autograd.grad(total, parameters), torch.autograd.grad(by_hand, parameters))
