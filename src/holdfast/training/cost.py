"""What a step costs, against a standard step of the same network on the same batch."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from holdfast.objectives.passes import Passes
from holdfast.objectives.standard import Standard
from holdfast.objectives.temporarily_replaced import buffers_of, temporarily_replaced
from holdfast.optim.optimizers import Optimizer

TRIES, MOST, ENOUGH = 3, 30, 0.5
"""Standard steps that are timed, after one that is not: at least and at most, and seconds of them that are enough."""


@dataclass(frozen=True)
class Cost:
    """What the steps of an epoch cost. Seconds are those of the processor on a CPU, and elapsed ones elsewhere.

    Args:
        step_seconds: mean time of a step: objective, gradient of the weights and optimizer, without reading and
            augmenting the images. Where an objective replays a batch, all replays are one step.
        standard_seconds: time of a standard step, measured when this process began to train.
        forward: forward passes of a step, as the objective states them; None where it does not.
        backward: backward passes.
        expected: the same in standard steps.
    """

    step_seconds: float
    standard_seconds: float
    forward: int | None
    backward: int | None
    expected: float | None

    @classmethod
    def of(cls, step_seconds: float, standard_seconds: float, passes: Passes | None) -> Cost:
        """With the passes that an objective states, if it does."""
        if passes is None:
            return cls(step_seconds, standard_seconds, None, None, None)
        return cls(step_seconds, standard_seconds, passes.forward, passes.backward, passes.steps)


def standard_step(model: nn.Module, make: Optimizer, x: Tensor, y: Tensor) -> float:
    """Median seconds of a standard step.

    Training does not notice: buffers are stood in for by copies, and the optimizer moves copies of the weights. The
    caller keeps the random state, since layers such as dropout draw from it.

    Args:
        model: the network, in train mode.
        make: makes the optimizer.
        x: a batch.
        y: its labels.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    copies, buffers = [weight.detach().clone().requires_grad_() for weight in weights], buffers_of([model])
    optimizer, objective = make(copies), Standard()
    taken: list[float] = []
    with temporarily_replaced([model], buffers, [buffer.clone() for buffer in buffers]):
        while len(taken) <= TRIES or (len(taken) <= MOST and sum(taken[1:]) < ENOUGH):
            started = now(x.device)
            grads = torch.autograd.grad(objective(model, x, y).total, weights, allow_unused=True)
            for copied, grad in zip(copies, grads, strict=True):
                copied.grad = grad
            optimizer.step()
            taken.append(now(x.device) - started)
    return statistics.median(taken[1:])


def now(device: torch.device) -> float:
    """A clock for work on a device: processor time, which others on the machine do not change, or elapsed time."""
    if device.type == "cpu":
        return time.process_time()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()
