"""What objectives without an inner search state of their cost, against what goes through the network.

Those that search have their counts in test_adversarial_training.py, test_regularisers.py, test_hierarchical.py and
test_policy.py.
"""

import pytest
import torch

from holdfast.objectives import OBJECTIVES, Discriminative, Passes, TermWeights
from holdfast.rng import Streams
from tests.contracts import cheap
from tests.zoo import images, labels, normed

SEARCHING = {
    "adversarial", "trades", "mart", "mma", "fast", "free", "awp", "soar", "foar", "cure", "llr", "input_gradient",
    "jacobian", "policy", "hierarchical_cross_entropy",
}  # fmt: skip
INSTANCES = {
    name: cheap.bound(cheap.cheap(cheap.OBJECTIVES, name, "OBJECTIVES"), 3)
    for name in OBJECTIVES
    if name not in SEARCHING
}
INSTANCES["discriminative without noise"] = Discriminative(weights=TermWeights(noisy=0))


def passes_through_the_first_layer(objective, count=6):
    """Batches that go forward through the first layer, and gradients that come back, in units of the batch."""
    model, forward, backward = normed(dropout=0.0), [], []
    first = next(module for module in model.modules() if list(module.parameters(recurse=False)))

    def watch(module, inputs, output):
        forward.append(len(output))
        output.register_hook(lambda grad: backward.append(len(grad)))

    first.register_forward_hook(watch)
    x, y = images(count), labels(count, 3)
    total = objective(model, x, y, rng=Streams(1, "count", count)).total
    torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    return Passes(sum(forward) // count, sum(backward) // count)


@pytest.mark.parametrize("objective", INSTANCES.values(), ids=INSTANCES)
def test_makes_the_passes_it_states(objective):
    assert passes_through_the_first_layer(objective) == objective.passes
