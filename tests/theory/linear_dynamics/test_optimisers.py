"""The rules against torch.optim and against the form that the thesis prints."""

import pytest
import torch

from holdfast.theory.linear_dynamics.descent import descend
from holdfast.theory.linear_dynamics.optimisers import GD, Adam, Momentum, RMSProp, SignGD, blank
from holdfast.theory.linear_dynamics.problem import dct_basis, thesis_problem, thesis_start, vector

RATE = 0.01


def peer(make, steps):
    """Weights of torch's optimizer, trained in the spatial domain, in the frequency domain."""
    problem, basis = thesis_problem(), dct_basis(3)
    covariance = basis.mT @ problem.variances.diag() @ basis
    target = basis.mT @ problem.target
    w = (basis.mT @ thesis_start()).requires_grad_()
    optimizer, path = make([w]), [thesis_start()]
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * (w - target) @ covariance @ (w - target)).backward()
        optimizer.step()
        path.append(basis @ w.detach())
    return torch.stack(path)


@pytest.mark.parametrize(
    ("optimiser", "make"),
    [
        (GD(rate=RATE), lambda w: torch.optim.SGD(w, RATE)),
        (Momentum(rate=RATE, momentum=0.8), lambda w: torch.optim.SGD(w, RATE, momentum=0.8)),
        (Adam(rate=RATE, betas=(0.8, 0.99)), lambda w: torch.optim.Adam(w, RATE, (0.8, 0.99))),
        (Adam(rate=RATE), lambda w: torch.optim.Adam(w, RATE)),
        (RMSProp(rate=RATE), lambda w: torch.optim.RMSprop(w, RATE)),
        (RMSProp(rate=RATE, decay=0.9, floor=1e-3), lambda w: torch.optim.RMSprop(w, RATE, alpha=0.9, eps=1e-3)),
    ],
    ids=["GD", "Momentum", "Adam", "Adam by default", "RMSProp by default", "RMSProp"],
)
def test_paths_are_those_of_torch(optimiser, make):
    path = descend(thesis_problem(), optimiser, thesis_start(), steps=400, basis=dct_basis(3))
    torch.testing.assert_close(path, peer(make, 400), rtol=1e-9, atol=1e-9)


def printed(gradients, first, second):
    """Steps of equation 4.2 with rate 1, whose parameters weigh the new gradient."""
    m = v = torch.zeros_like(gradients[0])
    for g in gradients:
        m, v = first * g + (1 - first) * m, second * g.square() + (1 - second) * v
        yield m / v.sqrt()


def steps_of(optimiser, gradients):
    memory = blank(gradients[0])
    for gradient in gradients:
        step, memory = optimiser(gradient, memory)
        yield step


def test_the_printed_parameters_are_one_minus_those_of_torch():
    gradients = [vector(1, -2), vector(3, 1), vector(-1, 0.5)]
    steps = [*steps_of(RMSProp(rate=1.0, decay=0.9, floor=0.0), gradients)]
    torch.testing.assert_close(steps, [*printed(gradients, 1.0, 0.1)])
    with pytest.raises(AssertionError):
        torch.testing.assert_close(steps, [*printed(gradients, 1.0, 0.9)])


def test_without_memory_it_is_the_sign():
    gradients = [vector(1, -2), vector(3, 1e-9)]
    signs = [*steps_of(SignGD(rate=1.0), gradients)]
    torch.testing.assert_close(signs, [*printed(gradients, 1.0, 1.0)])
    torch.testing.assert_close(signs, [*steps_of(RMSProp(rate=1.0, decay=0.0, floor=0.0), gradients)])
    torch.testing.assert_close(signs, [*steps_of(Adam(rate=1.0, betas=(0.0, 0.0), floor=0.0), gradients)])


def test_a_coordinate_without_gradient_stays():
    for optimiser in (GD(rate=1.0), Momentum(rate=1.0), SignGD(rate=1.0), Adam(rate=1.0), RMSProp(rate=1.0)):
        steps = [*steps_of(optimiser, [vector(0, 1), vector(0, -1)])]
        assert [float(step[0]) for step in steps] == [0, 0]
        assert float(steps[0][1]) > 0
