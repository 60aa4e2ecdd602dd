"""What the regularisers share: stated passes, examples that do not mix, gradients that reach the weights."""

import dataclasses

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.losses import difference_of_logits_ratio, margin
from holdfast.objectives import CURE, FOAR, LLR, SOAR, InputGradient, Jacobian, Passes, Standard
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from tests.zoo import Masked, frozen_norm, images, labels, linear, normed, smooth

COUNT, CLASSES = 5, 5
BALL = Linf(0.1)

INSTANCES = {
    "soar": SOAR(threat=BALL, clip=None),
    "soar, random start, two draws": SOAR(threat=BALL, start="random", draws=2),
    "soar, zero start": SOAR(threat=BALL, start="zero", clip=None),
    "soar, exact": SOAR(threat=BALL, step=None, draws=2, clip=None),
    "soar, margin": SOAR(threat=BALL, loss=margin, clip=None),
    "soar, dlr": SOAR(threat=BALL, loss=difference_of_logits_ratio, clip=None),
    "foar": FOAR(threat=BALL),
    "foar, zero start": FOAR(threat=BALL, start="zero"),
    "cure": CURE(),
    "llr": LLR(threat=BALL, steps=3),
    "input gradient": InputGradient(),
    "input gradient, l1": InputGradient(norm="l1"),
    "jacobian": Jacobian(weight=1.0),
    "jacobian, exact": Jacobian(weight=1.0, projections=CLASSES),
}


def every():
    return pytest.mark.parametrize("objective", INSTANCES.values(), ids=INSTANCES)


def batch():
    return images(COUNT, low=0.2, high=0.8), labels(COUNT, CLASSES)


STATED = {
    "soar": Passes(3, 4),
    "soar, random start, two draws": Passes(3, 4),
    "soar, zero start": Passes(2, 3),
    "soar, exact": Passes(2, 5),
    "foar": Passes(2, 3),
    "foar, zero start": Passes(1, 2),
    "cure": Passes(3, 3),
    "llr": Passes(6, 5),
    "input gradient": Passes(1, 2),
    "jacobian": Passes(1, 2),
    "jacobian, exact": Passes(1, CLASSES + 1),
}


@pytest.mark.parametrize("name", STATED)
def test_states_the_passes_of_the_thesis_and_of_its_algorithm(name):
    assert INSTANCES[name].passes == STATED[name]


@every()
def test_makes_the_passes_it_states(objective, monkeypatch):
    model, (x, y) = smooth(CLASSES), batch()
    forward, backward, differentiate = [], [], torch.autograd.grad

    def asked(z):
        assert len(z) == COUNT
        forward.append(z)
        return model(z)

    def counted(*arguments, **options):
        backward.append(arguments)
        return differentiate(*arguments, **options)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    total = objective(asked, x, y).total
    torch.autograd.grad(total, list(model.parameters()))
    assert Passes(len(forward), len(backward)) == objective.passes


def test_passes_add_and_are_told_in_standard_steps():
    assert Passes(1, 1).steps == 1
    assert Passes(11, 11).steps == 11  # PGD-10
    assert Passes(3, 4).steps == pytest.approx(11 / 3)
    assert Passes(1, 2) + Passes(2, 3) == Passes(3, 5)


@every()
def test_a_batch_is_the_mean_of_its_examples(objective):
    model, (x, y), rng = smooth(CLASSES), batch(), Streams(7, "b", COUNT)
    whole = objective(model, x, y, rng=rng)
    singles = [objective(model, x[[i]], y[[i]], rng=rng[[i]]).total for i in range(COUNT)]
    torch.testing.assert_close(whole.total, torch.stack(singles).mean(), rtol=1e-10, atol=1e-12)


@every()
def test_gradient_of_the_weights_is_that_of_finite_differences(objective):
    """The points found by sign steps do not move with a small change of the weights, so the total is smooth."""
    model, (x, y), rng = smooth(CLASSES), batch(), Streams(2, "w", COUNT)
    parameters = list(model.parameters())
    grads = torch.autograd.grad(objective(model, x, y, rng=rng).total, parameters)
    moves = [torch.randn(p.shape, dtype=p.dtype, generator=torch.Generator().manual_seed(4)) for p in parameters]
    expected = sum(float((grad * move).sum()) for grad, move in zip(grads, moves, strict=True))

    def at(distance):
        with torch.no_grad():
            for parameter, move in zip(parameters, moves, strict=True):
                parameter += distance * move
        total = float(objective(model, x, y, rng=rng).total.detach())
        with torch.no_grad():
            for parameter, move in zip(parameters, moves, strict=True):
                parameter -= distance * move
        return total

    slope = (at(1e-6) - at(-1e-6)) / 2e-6
    assert slope == pytest.approx(expected, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("threat", [L2(0.4), L1(1.0)])
@pytest.mark.parametrize("name", ["soar", "foar", "llr"])
def test_every_norm_has_finite_gradients(name, threat):
    objective, model, (x, y) = dataclasses.replace(INSTANCES[name], threat=threat), smooth(CLASSES), batch()
    terms = objective(model, x, y)
    grads = torch.autograd.grad(terms.total, list(model.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)
    assert float(terms.total.detach()) > float(terms.parts["loss"].detach())


@pytest.mark.parametrize(("name", "times"), [("soar", 2), ("foar", 1), ("cure", 1), ("llr", 1), ("jacobian", 1)])
def test_statistics_of_batches_move_where_the_documentation_says(name, times):
    """In eval mode: the step of PGD, both gradients of CURE, all of LLR but its cross entropy."""
    model, x, y = normed(dropout=0.0).train(), images(COUNT), labels(COUNT, 3)
    before = int(model.norm.num_batches_tracked)
    INSTANCES[name](model, x, y)
    assert int(model.norm.num_batches_tracked) - before == times


@every()
def test_a_network_without_a_gradient_is_refused_in_one_line(objective):
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = linear(CLASSES)

        def forward(self, x):
            return self.model(x.detach())

    with pytest.raises(ModelError, match="no gradient with respect to its input"):
        objective(Cut(), *batch())


@every()
def test_a_flat_loss_is_no_reason_to_stop(objective):
    """Where the gradient is exactly zero, norms have the gradient zero and not NaN."""
    model, (x, y) = Masked(smooth(CLASSES)), batch()
    total = objective(model, x, y).total
    grads = torch.autograd.grad(total, list(model.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)


@pytest.mark.parametrize("name", ["soar", "foar", "cure", "llr", "input gradient", "jacobian"])
def test_label_distributions_that_are_certain_are_labels(name):
    model, (x, y), objective = smooth(CLASSES), batch(), INSTANCES[name]
    certain = torch.nn.functional.one_hot(y, CLASSES).to(x)
    torch.testing.assert_close(objective(model, x, certain).total, objective(model, x, y).total)
    assert objective.soft_labels


@every()
def test_works_with_frozen_statistics_and_without_them(objective):
    for model in (frozen_norm(), normed(dropout=0.0)):
        if getattr(objective, "projections", 1) <= 3:
            assert bool(objective(model, images(COUNT), labels(COUNT, 3)).total.isfinite())


@pytest.mark.parametrize("name", ["soar", "foar, zero start", "cure", "llr", "input gradient", "jacobian"])
def test_descending_lowers_the_penalty_where_the_cross_entropy_alone_does_not(name):
    """Twenty steps on the same batch: the regulariser of a network trained with it is below that of one without."""
    objective, found = INSTANCES[name], {}
    part = next(part for part in ("regulariser", "curvature", "nonlinearity", "gradient", "jacobian")
                if part in objective(smooth(CLASSES), *batch()).parts)  # fmt: skip
    for kind, training in (("with", objective), ("without", Standard())):
        model, (x, y) = smooth(CLASSES), batch()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(20):
            optimizer.zero_grad()
            training(model, x, y).total.backward()
            optimizer.step()
        found[kind] = float(objective(model, x, y).parts[part].detach())
    assert found["with"] < found["without"]
