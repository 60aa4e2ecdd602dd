"""Every stage promises what attacks promise, on networks that have something for it to change.

The networks of the attacks' contract are linear or smooth; here they have ReLUs, a max-pool and a residual block.
"""

from collections import Counter

import pytest
import torch
from torch import nn

from holdfast.attacks import TransferLoop
from holdfast.attacks.search import Aim
from holdfast.attacks.stages import STAGES
from holdfast.attacks.stages.stage import Climb
from holdfast.ensembles import Ensemble
from holdfast.losses import cross_entropy
from holdfast.models.layers import Residual
from holdfast.rng import Streams
from holdfast.testing import attack as contract
from holdfast.threat import L2, Linf
from tests.zoo import images, labels

CHEAPER = {
    "variance": {"neighbours": 2},
    "scale_copies": {"count": 2},
    "translation_kernel": {"size": 3},
    "reverse_perturbation": {"steps": 2, "start": 0.0},
}


class Deep(nn.Module):
    """Convolution, ReLU, max-pool, a residual block, ReLU, and a head; BatchNorm where it is wanted."""

    def __init__(self, classes, norm):
        super().__init__()
        normalised = [nn.BatchNorm2d(4)] if norm else []
        branch = nn.Sequential(nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), *normalised, nn.ReLU(), nn.MaxPool2d(2),
            Residual(branch, nn.Identity(), nn.ReLU()), nn.Flatten(), nn.Linear(16, classes),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def deep(classes, dtype=torch.float64, *, norm=False, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return Deep(classes, norm).to(dtype)


def frozen():
    model = deep(3, norm=True)
    model.layers[1].eval()
    return model


@pytest.fixture
def networks(monkeypatch, request):
    """Networks of the contract, changed for those here; of an ensemble, two of each."""

    def changed(make):
        if request.param == "loss_ensemble":
            return lambda *args, **kwargs: Ensemble([make(*args, **kwargs), make(*args, **kwargs)])
        return make

    monkeypatch.setattr(contract, "smooth", changed(lambda: deep(5).eval()))
    monkeypatch.setattr(contract, "linear", changed(lambda classes, dtype=torch.float64: deep(classes, dtype)))
    monkeypatch.setattr(contract, "with_norm", changed(lambda: deep(3, norm=True)))
    monkeypatch.setattr(contract, "frozen_norm", changed(frozen))
    return request.param


CHECKS = [check for check in contract.ALL if check not in contract.SUCCEEDS]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.4)], ids=["linf", "l2"])
@pytest.mark.parametrize("networks", list(STAGES), indirect=True)
def test_stages(networks, threat, check):
    stage = STAGES[networks](**CHEAPER.get(networks, {}))
    check(TransferLoop(threat=threat, steps=3, stages=(stage,)))


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_says_whether_it_asks_several_times_a_step_and_whether_it_remembers(name):
    """Both are counted: questions of a step, and whether a question changes the answer to the next one."""
    stage, x = STAGES[name](**CHEAPER.get(name, {})), images(3)
    source = Ensemble([deep(5), deep(5)]) if name == "loss_ensemble" else deep(5).eval()
    climb = Climb(source, Aim.of(cross_entropy, labels(3, 5), None), Linf(0.1), 0.02, 4, x, step=2)
    asked = Counter()

    def slope(z):
        asked["questions"] += 1
        return z**2

    direction = stage(slope, climb, Streams(0, "", 3))
    first = direction(x)
    assert getattr(stage, "repeats", False) == (asked["questions"] > 1)
    if name in ("input_diversity", "reverse_perturbation"):  # draw anew each time
        return
    assert getattr(stage, "remembers", False) == (not torch.equal(direction(x), first))
