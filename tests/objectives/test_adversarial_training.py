"""What the objectives with an inner attack share: stated passes, and no gradient of weights inside."""

import pytest
import torch

from holdfast.attacks import PGD
from holdfast.modes import evaluating
from holdfast.objectives import AWP, MART, MMA, OBJECTIVES, SAM, TRADES, Adversarial, Fast, Free, Passes
from holdfast.objectives.hooks import hooks_of
from holdfast.objectives.noisy import CleanAndNoisy, Noisy
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module
from holdfast.threat import L1, L2, Linf
from tests.contracts import cheap
from tests.zoo import images, linear, normed, smooth

BALL = Linf(0.05)
PGD3 = PGD(threat=BALL, steps=3)

INSTANCES = {
    "adversarial": Adversarial(attack=PGD3),
    "adversarial, two restarts": Adversarial(attack=PGD(threat=BALL, steps=3, restarts=2)),
    "adversarial, least likely": Adversarial(attack=PGD3, target="least_likely"),
    "adversarial, split": Adversarial(attack=PGD3, batch_stats="split"),
    "trades": TRADES(threat=BALL, steps=4),
    "mart": MART(threat=BALL, steps=4),
    "mma": MMA(threat=BALL, steps=4, searches=5),
    "fast": Fast(threat=BALL, alarm=None),
    "fast, split": Fast(threat=BALL, alarm=None, batch_stats="split"),
    "free": Free(threat=BALL, replays=1),
    "awp of trades": AWP(objective=TRADES(threat=BALL, steps=4)),
    "awp of pgd": AWP(objective=Adversarial(attack=PGD3)),
    "awp of noise": AWP(objective=Noisy()),
    "sam of trades": SAM(objective=TRADES(threat=BALL, steps=4)),
    "clean and noisy": CleanAndNoisy(),
}


def every():
    return pytest.mark.parametrize("objective", INSTANCES.values(), ids=INSTANCES)


def count(model, objective, x, y):
    """Calls of the network, and how often a gradient goes back through one of them, in units of the batch."""
    forward, backward = [], []

    def watch(_, __, logits):
        forward.append(len(logits))
        if logits.requires_grad:
            logits.register_hook(lambda grad: backward.append(len(grad)))

    handle = model.register_forward_hook(watch)
    total = objective(model, x, y, rng=Streams(1, "c", len(x))).total
    torch.autograd.grad(total, list(model.parameters()))
    handle.remove()
    return Passes(sum(forward) // len(x), sum(backward) // len(x))


@every()
def test_makes_the_passes_it_states(objective):
    model, x = linear(2), images(6)
    with torch.no_grad():
        y = model(x).argmax(1)  # all are right, so that MMA searches for all
    assert count(model, objective, x, y) == objective.passes


def test_pgd_training_states_at_most_a_look_more_than_the_thesis():
    found = Adversarial(attack=PGD(threat=BALL, steps=10)).passes
    assert found == Passes(12, 11)  # table 3.5: k + 1 and k + 1
    assert found.steps < 1.05 * 11


@every()
def test_no_gradient_of_weights_is_computed_in_the_search(objective, monkeypatch):
    if hooks_of(objective).start is None or isinstance(objective, AWP | SAM | Free):
        pytest.skip("nothing is searched")
    model, asked, x = normed(2, dropout=0.0).train(), [], images(6)
    with torch.no_grad(), evaluating(model):
        y = model(x).argmax(1)
    differentiate = torch.autograd.grad

    def watched(outputs, inputs, *arguments, **options):
        asked.extend(inputs if isinstance(inputs, list | tuple) else [inputs])
        return differentiate(outputs, inputs, *arguments, **options)

    monkeypatch.setattr(torch.autograd, "grad", watched)
    monkeypatch.setattr(torch.Tensor, "backward", None)
    work = objective.hooks.start(model, 2, torch.arange(6))
    with same_module(model):
        found = work.search(model, x, y, rng=Streams(0, "", 6))
    weights = {id(parameter) for parameter in model.parameters()}
    assert asked
    assert not any(id(tensor) in weights for tensor in asked)
    assert not getattr(found, "points", found).requires_grad


@pytest.mark.parametrize("threat", [L2(0.3), L1(0.8)])
@pytest.mark.parametrize("kind", [TRADES, MART, MMA, Fast, Free])
def test_every_norm_has_finite_gradients(kind, threat):
    model, x = smooth(), images(6)
    with torch.no_grad():
        y = model(x).argmax(1)
    terms = kind(threat=threat)(model, x, y)
    grads = torch.autograd.grad(terms.total, list(model.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_says_what_a_step_costs(name):
    said = cheap.cheap(cheap.OBJECTIVES, name, "OBJECTIVES").passes
    assert said.forward >= said.backward - 3
    assert min(said.forward, said.backward) >= 1
