"""A training state that this training cannot have written is refused in one line, before it is used."""

import copy

import pytest
import torch

from holdfast.errors import CheckpointError
from holdfast.runs import Run
from holdfast.training.checkpoint import load_state, state_content
from tests.tampering import put
from tests.training.tiny import RECORDS, recipe, train


@pytest.fixture(
    scope="module", params=["sgd: {lr: 0.1}", "adam: {}", "rmsprop: {momentum: 0.5}", "signsgd: {momentum: 0.5}"]
)
def begun(request, tmp_path_factory):
    """A run stopped within its second epoch, and its recipe."""
    of, path = recipe(f"train.optimizer={{{request.param}}}"), tmp_path_factory.mktemp("begun") / "run"
    train(of, path, RECORDS - 2)
    return of, path, torch.load(path / "state.pt", weights_only=True)


def first(optimizer):
    return next(iter(optimizer["state"].values()))


def changed(state, place, value):
    """The state with another value at a path of names."""
    state = copy.deepcopy(state)
    holder = state
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    return state


ZERO = torch.zeros(2, 3)
BAD = {
    "a step that is text": (("step",), "3"),
    "a step that is a tensor": (("step",), torch.tensor([1, 2])),
    "a negative step": (("step",), -1),
    "a step of another epoch": (("step",), 10**6),
    "a huge count of epochs": (("finished",), 2**63),
    "sums without examples": (("sums",), {"total": 1.0}),
    "sums of no examples": (("sums",), {"total": 1.0, "examples": 0.0}),
    "sums that are text": (("sums",), {"total": "a", "examples": 1.0}),
    "no model": (("model",), None),
    "a model that is a list": (("model",), [1, 2]),
    "weights of another shape": (("model", "head.weight"), ZERO),
    "weights without values": (("model", "head.bias"), torch.zeros(10, device="meta")),
    "sparse weights": (("model", "head.bias"), torch.zeros(10).to_sparse()),
    "complex weights": (("model", "head.bias"), torch.zeros(10, dtype=torch.complex64)),
    "weights that repeat one value": (("model", "head.bias"), torch.zeros(1).expand(10)),
    "an optimizer without groups": (("optimizer", "param_groups"), []),
    "an optimizer that goes the other way": (("optimizer", "param_groups", 0, "maximize"), True),
    "another weight decay": (("optimizer", "param_groups", 0, "weight_decay"), 1e9),
    "other parameters": (("optimizer", "param_groups", 0, "params"), [0, 0, 0, 0]),
    "memory of parameters by name": (("optimizer", "state"), {"a": {}}),
    "memory of a parameter that is none": (("optimizer", "state", 99), {"momentum_buffer": ZERO}),
    "memory that is a number": (("optimizer", "state", 0), 1),
    "memory of nothing": (("optimizer", "state", 0), {}),
    "a judge that is a list": (("judge",), []),
    "a judge without a best": (("judge",), {"stale": 0}),
    "seconds that are none": (("seconds",), None),
}


@pytest.mark.parametrize(("place", "value"), BAD.values(), ids=BAD)
def test_a_state_that_cannot_be_is_refused_in_one_line(begun, tmp_path, place, value):
    of, path, state = begun
    for file in path.iterdir():
        put(tmp_path / "run" / file.name, file.read_bytes()) if file.name != "checksums.txt" else None
    put(tmp_path / "run/state.pt", state_content(changed(state, place, value)))
    with pytest.raises(
        CheckpointError, match=r"state\.pt: expected training state .*; start over with --fresh"
    ) as caught:
        train(of, tmp_path / "run")
    assert len(str(caught.value)) < 500


def test_memory_of_another_shape_is_refused(begun, tmp_path):
    of, path, state = begun
    state = copy.deepcopy(state)
    name = next(name for name, value in first(state["optimizer"]).items() if isinstance(value, torch.Tensor))
    first(state["optimizer"])[name] = torch.zeros(7, 7, 7)
    put(tmp_path / "run/state.pt", state_content(state))
    put(tmp_path / "run/metrics.jsonl", (path / "metrics.jsonl").read_bytes())
    with pytest.raises(CheckpointError, match="expected a tensor of shape"):
        train(of, tmp_path / "run")


def test_the_state_itself_is_read(begun):
    _, path, state = begun
    assert load_state(Run(path).state).keys() == state.keys()
