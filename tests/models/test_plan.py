"""Networks are known by names and shapes before they get memory."""

import time
import tracemalloc

import pytest
import torch
from torch import nn

from holdfast.models import MODELS, build
from holdfast.models.cnn import CNN
from holdfast.models.mlp import MLP
from holdfast.models.plan import LARGEST, MOST_PARTS, bytes_of, planned, require_sizes

OWN = {name: entry for name, entry in MODELS.items() if not isinstance(entry, type)}


@pytest.mark.parametrize("name", OWN)
def test_a_plan_has_the_names_shapes_and_formats_of_the_network(name):
    shape = (3, 32, 32)
    plan, network = planned(OWN[name], shape, 10), build(OWN[name], shape, 10)
    facts = {key: (tensor.shape, tensor.dtype) for key, tensor in network.state_dict().items()}
    assert {key: (tensor.shape, tensor.dtype) for key, tensor in plan.state_dict().items()} == facts
    assert all(tensor.is_meta for tensor in plan.state_dict().values())
    assert bytes_of(plan) == bytes_of(network)


def test_a_plan_changes_no_random_number():
    before = torch.random.get_rng_state()
    planned(OWN["resnet18"], (3, 32, 32), 10)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_plan_of_terabytes_takes_no_memory():
    tracemalloc.start()
    plan = planned(MLP(hidden=(LARGEST, LARGEST, LARGEST)), (3, 1000, 1000), 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes_of(plan) > 10**12
    assert peak < 10**6


def test_a_network_of_too_many_parts_is_given_up():
    started = time.process_time()
    with pytest.raises(ValueError, match="expected a network of at most 20,000 layers and tensors"):
        planned(MLP(hidden=(8,) * 50_000), (1, 8, 8), 10)
    assert time.process_time() - started < 30
    planned(MLP(hidden=(8,) * (MOST_PARTS // 20)), (1, 8, 8), 10)


def test_hooks_are_gone_afterwards():
    with pytest.raises(ValueError, match="cannot be built"):
        planned(lambda shape, classes: nn.Linear(-1, classes), (1, 8, 8), 10)
    nn.Sequential(*(nn.Linear(1, 1) for _ in range(MOST_PARTS // 2)))
    assert not nn.Linear(1, 1).weight.is_meta


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        (MLP(hidden=(8, -1)), r"hidden: expected at most 100,000 and nothing negative; got -1"),
        (CNN(kernel=10**12), "kernel: expected at most 100,000"),
        (CNN(blocks=((16,), (10**9,))), "blocks: expected at most 100,000"),
    ],
)
def test_negative_and_huge_sizes_are_named(architecture, message):
    with pytest.raises(ValueError, match=message):
        require_sizes(architecture)
