"""Agreement with foolbox and torchattacks on networks trained on the digits."""

import copy
import dataclasses
import warnings

import pytest
import torch
from torch import nn

from holdfast.attacks import FGSM, PGD
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from tests.zoo import digits, digits_cnn, digits_mlp

with warnings.catch_warnings():  # both import things that others have deprecated
    warnings.simplefilter("ignore")
    foolbox = pytest.importorskip("foolbox")
    torchattacks = pytest.importorskip("torchattacks")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

STEPS = 12
LINF, L2_, L1_ = Linf(0.08), L2(0.5), L1(2.0)
COUNT = 200


class Recorded(nn.Module):
    """A network that remembers every batch it is asked about."""

    def __init__(self, network):
        super().__init__()
        self.network, self.asked = network, []

    def forward(self, x):
        self.asked.append(x.detach().clone())
        return self.network(x)


def subject():
    """The convolutional network and images in float64, so that no step depends on rounding."""
    x, y = digits()
    return copy.deepcopy(digits_cnn()).double(), x[:COUNT].double(), y[:COUNT]


def plain(threat, step_size, **fields):
    return PGD(threat=threat, steps=STEPS, step_size=step_size, random_start=False, **fields)


def wrong(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) != y


def theirs_torchattacks(attack, model, x, y):
    recorded = Recorded(model).eval()
    z = attack(recorded)(x, y)
    return z, [*recorded.asked, z]


def theirs_foolbox(attack, model, x, y, eps):
    recorded = Recorded(model).eval()
    wrapped = foolbox.PyTorchModel(recorded, bounds=(0, 1), device="cpu")
    z = attack.run(wrapped, x, foolbox.criteria.Misclassification(y), epsilon=eps)
    return z, [*recorded.asked, z]


def ours(attack, model, x, y):
    recorded = Recorded(model).eval()
    z = attack(recorded, x, y)
    return z, recorded.asked


def check_same_path(model, x, y, attack, path, last):
    found, visited = ours(dataclasses.replace(attack, until_lost=False), model, x, y)
    assert len(visited) == len(path) == STEPS + 1
    for mine, other in zip(visited, path, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-9)
    # They return the last point, we the one of highest loss: never less, and lost examples are (almost) the same.
    loss = nn.functional.cross_entropy
    assert bool((loss(model(found), y, reduction="none") >= loss(model(last), y, reduction="none") - 1e-9).all())
    assert int((wrong(model, found, y) != wrong(model, last, y)).sum()) <= 0.01 * COUNT
    # Those who leave when lost: whoever is lost at their last point is lost for us too.
    early = wrong(model, attack(model, x, y), y)
    assert bool((early >= wrong(model, last, y)).all())
    assert 0.1 * COUNT < int(early.sum()) < 0.9 * COUNT


@pytest.mark.parametrize("name", ["PGD", "BIM"])
def test_linf_iterates_are_those_of_torchattacks(name):
    model, x, y = subject()
    options = {"random_start": False} if name == "PGD" else {}
    last, path = theirs_torchattacks(
        lambda m: getattr(torchattacks, name)(m, eps=LINF.eps, alpha=0.01, steps=STEPS, **options), model, x, y
    )
    check_same_path(model, x, y, plain(LINF, 0.01), path, last)


def test_linf_iterates_are_those_of_foolbox():
    model, x, y = subject()
    attack = foolbox.attacks.LinfProjectedGradientDescentAttack(abs_stepsize=0.01, steps=STEPS, random_start=False)
    last, path = theirs_foolbox(attack, model, x, y, LINF.eps)
    check_same_path(model, x, y, plain(LINF, 0.01), path, last)


def test_l2_iterates_are_those_of_foolbox():
    model, x, y = subject()
    attack = foolbox.attacks.L2ProjectedGradientDescentAttack(abs_stepsize=0.1, steps=STEPS, random_start=False)
    last, path = theirs_foolbox(attack, model, x, y, L2_.eps)
    check_same_path(model, x, y, plain(L2_, 0.1), path, last)


def test_l2_iterates_are_those_of_torchattacks():
    model, x, y = subject()
    last, path = theirs_torchattacks(
        lambda m: torchattacks.PGDL2(m, eps=L2_.eps, alpha=0.1, steps=STEPS, random_start=False, eps_for_division=0),
        model,
        x,
        y,
    )
    check_same_path(model, x, y, plain(L2_, 0.1), path, last)


def test_fgsm_is_that_of_torchattacks_and_foolbox():
    model, x, y = subject()
    mine = FGSM(threat=LINF)(model, x, y)
    torch.testing.assert_close(mine, torchattacks.FGSM(model, eps=LINF.eps)(x, y), rtol=0, atol=1e-12)
    theirs, _ = theirs_foolbox(foolbox.attacks.LinfFastGradientAttack(), model, x, y, LINF.eps)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_targeted_iterates_are_those_of_foolbox():
    model, x, y = subject()
    target = (y + 1) % 10
    recorded = Recorded(model).eval()
    attack = foolbox.attacks.LinfProjectedGradientDescentAttack(abs_stepsize=0.01, steps=STEPS, random_start=False)
    wrapped = foolbox.PyTorchModel(recorded, bounds=(0, 1), device="cpu")
    last = attack.run(wrapped, x, foolbox.criteria.TargetedMisclassification(target), epsilon=LINF.eps)
    mine = Recorded(model).eval()
    plain(LINF, 0.01, until_lost=False)(mine, x, y, target=target)
    for a, b in zip(mine.asked, [*recorded.asked, last], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def robust(model, z, y):
    return 1 - float(wrong(model, z, y).double().mean())


@pytest.mark.parametrize("network", [digits_cnn, digits_mlp])
@pytest.mark.parametrize("threat", [LINF, L2_], ids=str)
def test_robust_accuracy_with_random_starts_is_within_a_point(network, threat):
    model, (x, y) = network(), digits()
    step, kind = threat.eps / 8, "Linf" if isinstance(threat, Linf) else "L2"
    attack = PGD(threat=threat, steps=40, step_size=step)
    first = getattr(foolbox.attacks, f"{kind}ProjectedGradientDescentAttack")(abs_stepsize=step, steps=40)
    second = (torchattacks.PGD if kind == "Linf" else torchattacks.PGDL2)(model, eps=threat.eps, alpha=step, steps=40)
    scores = []
    for seed in range(2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            points = (
                attack(model, x, y, rng=Streams(seed, "", len(x))),
                theirs_foolbox(first, model, x, y, threat.eps)[0],
                second(x, y),
            )
        scores.append([robust(model, z, y) for z in points])
    mine, *theirs = torch.tensor(scores).mean(0).tolist()
    assert 0.1 < mine < 0.9
    assert theirs == pytest.approx([mine, mine], abs=0.01)


@pytest.mark.parametrize("network", [digits_cnn, digits_mlp])
@pytest.mark.parametrize("eps", [1.0, 2.0])
def test_l1_is_not_weaker_than_foolbox(network, eps):
    model, (x, y) = network(), digits()
    mine = robust(model, PGD(threat=L1(eps), steps=50)(model, x, y), y)
    for attack in (
        foolbox.attacks.L1ProjectedGradientDescentAttack(steps=50),
        foolbox.attacks.SparseL1DescentAttack(steps=50),
        foolbox.attacks.SparseL1DescentAttack(steps=50, quantile=0.95),
    ):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            z, _ = theirs_foolbox(attack, model, x, y, eps)
        # Foolbox's sparse attack leaves the ball for many examples (by up to a tenth); those do not count.
        inside = L1(eps).distance(z, x) <= eps + 1e-4
        theirs = 1 - float((wrong(model, z, y) & inside).double().mean())
        assert mine <= theirs + 0.01, attack
