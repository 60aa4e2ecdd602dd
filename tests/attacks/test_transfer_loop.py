"""The loop of transfer attacks and its published prototypes: closed forms, and torchattacks step for step."""

import importlib
import importlib.util
import itertools
import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.attacks import PGD, Transfer, TransferLoop, transfer_loop
from holdfast.attacks.stages import (
    InputDiversity,
    Momentum,
    ReversePerturbation,
    ScaleCopies,
    TranslationKernel,
    Variance,
)
from holdfast.attacks.transfer_loop import DI, MI, NI, PLAIN, SINI, TI, VMI, VNI
from holdfast.recipe import parse
from holdfast.rng import Streams
from holdfast.testing.attack import check_same_outcome_for_any_batch_size
from holdfast.threat import L2, Linf
from holdfast.types import Attack
from tests import chance
from tests.zoo import digits, digits_cnn, digits_mlp, half_space, half_space_points, images, labels, seeded, smooth

SHARP = ("MI", "NI", "VMI", "VNI", "SINI")
"""Whose slope on a linear model is a multiple of its weights."""

FAMILIES = ("", "_TRANSFERATTACK")


def prototype(name):
    return getattr(transfer_loop, name)


@pytest.mark.parametrize("name", [short + family for family in FAMILIES for short in SHARP])
def test_on_a_linear_model_it_ends_exactly_at_the_corner(name):
    model, attack = half_space(), replace(prototype(name), threat=Linf(0.1))
    x, y = half_space_points(model, 6)
    away = (1 - 2 * y[:, None]) * model.weight.detach().sign()
    torch.testing.assert_close(attack(model, x, y), x + 0.1 * away, rtol=0, atol=1e-15)
    torch.testing.assert_close(attack(model, x, y, target=y), x - 0.1 * away, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", SHARP)
def test_on_a_linear_model_in_l2_it_ends_at_the_end_of_the_weights(name):
    model, attack = half_space(), replace(prototype(name), threat=L2(0.3))
    x, y = half_space_points(model, 6)
    away = (1 - 2 * y[:, None]) * model.weight.detach() / model.weight.detach().norm()
    torch.testing.assert_close(attack(model, x, y), x + 0.3 * away, rtol=0, atol=1e-12)


@pytest.mark.parametrize("attack", [DI, TI, prototype("TI_TRANSFERATTACK")])
def test_where_the_slope_is_mixed_with_that_of_other_pixels_it_does_not(attack):
    weight = Streams(0, "weights", 1).normal(torch.empty(1, 3, 32, 32, dtype=torch.float64))
    x, y = images(2, (3, 32, 32), low=0.3, high=0.7), torch.zeros(2, dtype=torch.int64)

    def model(z):
        m = (z * weight).flatten(1).sum(1)
        return torch.stack((-m, m), 1)

    z = replace(attack, threat=Linf(0.1))(model, x, y)
    share = float(((z - x).sign() == weight.sign()).double().mean())
    assert 0.5 < share < 0.95  # METHODS.md, chapter 9: 62 and 52 % with torchattacks


def test_without_stages_it_is_pgd_that_keeps_the_last_point():
    model, x, y = smooth(), images(12), labels(12, 5)
    pgd = PGD(threat=L2(0.4), steps=5, random_start=False, until_lost=False)
    last = []
    pgd(lambda z: (last.append(z.detach()), model(z))[1], x, y)
    assert torch.equal(replace(PLAIN, threat=L2(0.4), steps=5)(model, x, y), last[-1])


def test_it_goes_to_the_end_and_never_looks_back():
    batches = []

    def lost(z):
        batches.append(len(z))
        return torch.stack((z.flatten(1).sum(1), 100 + z.flatten(1).sum(1) * 2), 1)

    attack = replace(MI, steps=7)
    attack(lost, images(5), torch.zeros(5, dtype=torch.int64))
    assert batches == [5] * 7
    assert Transfer(attack=attack, source="run").attack == attack


def test_steps_together_are_as_long_as_stated():
    x, y = half_space_points(half_space(), 3)
    for attack in (replace(PLAIN, steps=1, length=0.25), replace(PLAIN, steps=1, step_size=0.25 * 8 / 255)):
        moved = (attack(half_space(), x, y) - x).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, 0.25 * 8 / 255), rtol=0, atol=1e-15)


def test_published_defaults_of_both_families():
    eps = {family: {prototype(name + family).threat.eps for name in (*SHARP, "DI", "TI")} for family in FAMILIES}
    assert eps == {"": {8 / 255}, "_TRANSFERATTACK": {16 / 255}}
    step = {
        family: prototype("MI" + family).length * prototype("MI" + family).threat.eps / MI.steps for family in FAMILIES
    }
    assert step == pytest.approx({"": 2 / 255, "_TRANSFERATTACK": 1.6 / 255})
    assert [VMI.stages[0].neighbours, prototype("VMI_TRANSFERATTACK").stages[0].neighbours] == [5, 20]
    assert InputDiversity(rate=0.9) in DI.stages
    assert InputDiversity(rate=1.1) in prototype("DI_TRANSFERATTACK").stages
    assert [type(stage) for stage in TI.stages] == [InputDiversity, TranslationKernel]
    assert not any(isinstance(stage, Momentum) for stage in (*DI.stages, *TI.stages))
    assert all(Momentum() in prototype(f"{name}_TRANSFERATTACK").stages for name in ("DI", "TI"))


def test_composed_stages_are_the_named_attack():
    stages = [{"variance": {"neighbours": 20}}, {"momentum": {"look_ahead": True}}]
    composed = {"threat": {"linf": 16 / 255}, "length": 1.0, "stages": stages}
    assert parse(Attack, {"transfer_loop": composed}) == parse(Attack, "vni_transferattack")
    assert parse(Attack, {"transfer_loop": {"stages": ["scale_copies", stages[1]]}}) == parse(Attack, "sini")


def test_the_order_of_stages_matters_and_any_can_be_combined():
    model, x, y = smooth(shape=(2, 6, 6)), images(4, (2, 6, 6)), labels(4, 5)
    all_stages = (
        InputDiversity(), ScaleCopies(count=2), TranslationKernel(size=3), ReversePerturbation(steps=2),
        Variance(neighbours=2), Momentum(look_ahead=True),
    )  # fmt: skip
    points = [
        TransferLoop(threat=Linf(0.1), steps=3, stages=stages)(model, x, y)
        for stages in (all_stages, (*all_stages[1:], all_stages[0]))
    ]
    assert all(bool(((z - x).abs() <= 0.1 + 1e-12).all()) for z in points)
    assert not torch.equal(*points)


@pytest.mark.parametrize(
    "stages",
    [
        (Variance(), ScaleCopies()),
        (Momentum(), Variance()),
        (Momentum(), TranslationKernel(size=3), ReversePerturbation()),
        (Variance(), Variance()),
    ],
)
def test_a_stage_that_remembers_is_refused_inside_one_that_asks_several_times_a_step(stages):
    with pytest.raises(
        ValueError, match=r"stages: expected \w+ before \w+; \w+ asks for the slope several times a step"
    ):
        replace(PLAIN, stages=stages)
    assert replace(PLAIN, stages=(ScaleCopies(), ReversePerturbation(), Variance(), Momentum())).stages


class Flat(nn.Module):
    """A classifier whose gradient is exactly zero for every second example."""

    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, x):
        logits = self.inside(x)
        flat = (torch.arange(len(x)) % 2 == 0)[:, None]
        return torch.where(flat, torch.zeros_like(logits), logits)


STAGES = {
    "none": (), "momentum": (Momentum(),), "look ahead": (Momentum(look_ahead=True),), "variance": (Variance(),),
    "copies": (ScaleCopies(),), "diversity": (InputDiversity(),), "kernel": (TranslationKernel(size=3),),
    "reverse": (ReversePerturbation(start=0.0),), "vni": VNI.stages, "ti": TI.stages,
}  # fmt: skip


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.4)], ids=["linf", "l2"])
@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_an_example_without_a_gradient_stays_where_it_is(stages, threat):
    # torchattacks divides by the mean of a gradient that is zero: NaN, whose sign is NaN, clipped to 0.
    x, y = images(6), labels(6, 5)
    attack = TransferLoop(threat=threat, steps=3, stages=stages)
    z = attack(Flat(smooth()), x, y)
    assert bool(z.isfinite().all())
    assert torch.equal(z[::2], x[::2])
    assert bool((z[1::2] != x[1::2]).flatten(1).any(1).all())


def cheaper(attack):
    stages = [replace(stage, neighbours=1) if isinstance(stage, Variance) else stage for stage in attack.stages]
    return replace(attack, steps=2, stages=tuple(stages))


@pytest.mark.parametrize("attack", [VNI, DI], ids=["vni", "di"])
def test_batches_of_1_7_and_256_agree(attack):
    check_same_outcome_for_any_batch_size(cheaper(attack), count=256)


def test_an_l2_random_start_is_centred_on_the_image():
    # TransferAttack draws it with mean -eps.
    x = torch.full((4000, 1, 2, 2), 0.5, dtype=torch.float64)
    attack = TransferLoop(threat=L2(0.4), steps=1, step_size=1e-12, random_start=True)
    moved = attack(lambda z: z.flatten(1) * 0 + z.sum() * 0, x, torch.zeros(4000, dtype=torch.int64)) - x
    assert chance.has_mean(moved, 0.0)
    assert float(moved.flatten(1).norm(dim=1).max()) <= 0.4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"length": float("inf")}, "length must be positive and finite"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **fields)


def test_a_single_step_is_not_thorough():
    assert MI.thorough
    assert not replace(MI, steps=1).thorough


# torchattacks 3.5.1, where nothing is random, and with its noise where something is.

with_torchattacks = pytest.mark.skipif(
    importlib.util.find_spec("torchattacks") is None, reason="torchattacks is not installed"
)


def package():
    with warnings.catch_warnings():  # it imports things that others have deprecated
        warnings.simplefilter("ignore")
        return importlib.import_module("torchattacks")


def subject():
    """A small network with ReLU and max-pooling, and images of three channels away from the edges of the box."""
    layers = (
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(6 * 25, 4),
    )  # fmt: skip
    model = seeded(lambda: nn.Sequential(*layers)).double().eval()
    return model, images(5, (3, 16, 16), low=0.2, high=0.8), labels(5, 4)


@with_torchattacks
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize(("name", "ours"), [("MIFGSM", MI), ("NIFGSM", NI), ("SINIFGSM", SINI)])
def test_is_torchattacks_step_for_step(name, ours, targeted):
    model, x, y = subject()
    target = (y + 1) % 4 if targeted else None
    for steps in (1, 2, 10):
        theirs = getattr(package(), name)(model, eps=8 / 255, alpha=2 / 255, steps=steps)
        if targeted:
            theirs.set_mode_targeted_by_label(quiet=True)
        expected = theirs(x, y if target is None else target)
        result = replace(ours, steps=steps, step_size=2 / 255)(model, x, y, target=target)
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@with_torchattacks
def test_ti_without_diversity_is_torchattacks_step_for_step():
    model, x, y = subject()
    theirs = package().TIFGSM(model, steps=10, len_kernel=15, diversity_prob=0.0)
    theirs.stacked_kernel = theirs.stacked_kernel.double()
    expected = theirs(x, y)
    stages = (InputDiversity(probability=0.0), TranslationKernel(size=15))
    # Their kernel is rounded to float32, so that a few signs may differ.
    agree = (replace(TI, stages=stages)(model, x, y) - expected).abs() < 1e-12
    assert float(agree.double().mean()) > 0.995


@with_torchattacks
@pytest.mark.parametrize(("name", "ours"), [("VMIFGSM", VMI), ("VNIFGSM", VNI)])
def test_variance_tuning_with_their_noise_is_torchattacks_step_for_step(name, ours, monkeypatch):
    model, x, y = subject()
    ours = replace(ours, steps=6, step_size=2 / 255)
    # The neighbours that ours takes, recorded and then given to theirs.
    noise, sample = [], Linf.sample_within

    def recorded(threat, z, rng, radius):
        noise.append(sample(threat, z, rng, radius) - z)
        return z + noise[-1]

    monkeypatch.setattr(Linf, "sample_within", recorded)
    result = ours(model, x, y)
    given = iter(noise)
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda *_: next(given))
    expected = getattr(package(), name)(model, steps=6)(x, y)
    assert next(given, None) is None
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


class Shrunk(nn.Module):
    """A network of digits behind the means of squares of pixels, so that images are large enough to change size."""

    def __init__(self, inside):
        super().__init__()
        self.inside = inside

    def forward(self, z):
        return self.inside(F.avg_pool2d(z.mean(1, keepdim=True), 4))


@with_torchattacks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("VMIFGSM", VMI), ("VNIFGSM", VNI), ("DIFGSM", DI),
        ("TIFGSM", replace(TI, stages=(InputDiversity(), TranslationKernel(size=15)))),
    ],
)  # fmt: skip
def test_random_attacks_transfer_as_far_as_those_of_torchattacks(name, ours):
    source, target, (x, y) = Shrunk(digits_cnn()).eval(), Shrunk(digits_mlp()).eval(), digits()
    ours, wide = replace(ours, threat=Linf(0.12)), F.interpolate(x, scale_factor=4).expand(-1, 3, -1, -1)

    def error(z):
        with torch.no_grad():
            return float((target(z).argmax(1) != y).double().mean())

    rates = {"ours": [], "theirs": []}
    for seed in range(10):
        torch.manual_seed(seed)
        theirs = getattr(package(), name)(source, eps=0.12, alpha=0.03, steps=10)
        rates["theirs"].append(error(theirs(wide, y)))
        rates["ours"].append(error(ours(source, wide, y, rng=Streams(seed, "oracle", len(x)))))
    means = [sum(values) / len(values) for values in rates.values()]
    assert 0.1 < means[0] < 0.9
    assert abs(means[0] - means[1]) < 0.01, means


def test_every_pair_of_prototypes_is_different():
    names = [short + family for family in FAMILIES for short in (*SHARP, "DI", "TI")]
    for first, second in itertools.combinations(names, 2):
        assert prototype(first) != prototype(second)
