import importlib.util

import pytest
import torch

from holdfast.attacks import ART, PGD
from holdfast.attacks.starting import Attempt, Pool
from holdfast.errors import RecipeError
from holdfast.threat import L0, L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import (
    THREAT_KINDS,
    digits,
    digits_cnn,
    half_space,
    half_space_distance,
    half_space_points,
    half_space_points_at,
    images,
    linear,
)

if importlib.util.find_spec("art") is None:
    pytest.skip("ART is not installed", allow_module_level=True)

NAME = "ProjectedGradientDescent"


def lost(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) != y


@pytest.mark.parametrize("kind", ["linf", "l2", "l1"])
def test_breaks_a_half_space_just_beyond_its_distance_and_not_before(kind):
    model = half_space()
    x, y = half_space_points_at(model, 0.05, kind)
    for eps, broken in ((0.0505, True), (0.0495, False)):
        attack = ART(attack=NAME, threat=THREAT_KINDS[kind](eps), options={"max_iter": 40, "eps_step": 0.005})
        assert bool((lost(model, attack(model, x, y), y) == broken).all())


def test_distances_found_are_those_of_the_half_space():
    model = half_space()
    x, y = half_space_points(model, 8)
    z = ART(attack="DeepFool", threat=L2(1.0), options={"epsilon": 0.01})(model, x, y)
    ratio = L2(1.0).distance(z, x) / half_space_distance(model, x, "l2")
    assert bool(lost(model, z, y).all())
    assert bool(((ratio > 0.999) & (ratio < 1.03)).all()), ratio


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.2)], ids=str)
def test_from_the_image_itself_its_last_point_is_that_of_our_pgd(threat):
    model, x = linear(5), images(12, low=0.3, high=0.7)  # it projects to the box first
    y, size = model(x).argmax(1), threat.eps / 4
    theirs = ART(attack=NAME, threat=threat, options={"max_iter": 8, "eps_step": size})(model, x, y)
    ours = PGD(threat=threat, steps=8, step_size=size, random_start=False, until_lost=False)(model, x, y)
    assert theirs.dtype == torch.float64
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5)  # it computes in float32


def test_leaves_as_many_digits_standing_as_our_pgd():
    model, (x, y) = digits_cnn(), digits()
    threat, x, y = Linf(0.08), x[:150], y[:150]
    options = {"max_iter": 20, "eps_step": 0.01, "batch_size": 64}
    theirs = lost(model, ART(attack=NAME, threat=threat, options=options, together=150)(model, x, y), y)
    ours = lost(model, PGD(threat=threat, steps=20, step_size=0.01)(model, x, y), y)
    assert 15 < int(ours.sum()) < 135
    assert int((theirs != ours).sum()) <= 3


def test_batches_that_the_library_cuts_itself_are_counted_in_full():
    model, x = linear(5), images(7)
    y, counts = model(x).argmax(1), torch.zeros(7, dtype=torch.int64)
    attack = ART(attack=NAME, threat=Linf(0.01), options={"max_iter": 4, "batch_size": 3}, together=7)
    attack(Counted(model, counts), x, y)
    alone = torch.zeros(7, dtype=torch.int64)
    ART(attack=NAME, threat=Linf(0.01), options={"max_iter": 4})(Counted(model, alone), x, y)
    assert counts.tolist() == alone.tolist()
    assert counts.unique().tolist() == [1 + 4 + 2]  # the clean image, the steps, and its own looks at the two ends


def test_goes_to_its_target():
    model, x = linear(5), images(8)
    y, target = model(x).argmax(1), model(x).argmin(1)
    attack = ART(attack=NAME, threat=Linf(0.5), options={"max_iter": 40, "eps_step": 0.05})
    assert torch.equal(model(attack(model, x, y, target=target)).argmax(1), target)


def test_an_attack_without_a_target_says_so():
    model, x = linear(3), images(2)
    y = model(x).argmax(1)
    with pytest.raises(RecipeError, match=r"art DeepFool: .* goes to a target; this one only leaves a label"):
        ART(attack="DeepFool", threat=L2(1.0))(model, x, y, target=(y + 1) % 3)


@pytest.mark.parametrize(
    ("name", "threat", "message"),
    [
        ("CarliniL2Method", Linf(0.1), "CarliniL2Method attacks in l2; got the threat linf"),
        ("BasicIterativeMethod", L2(0.5), "BasicIterativeMethod attacks in linf; got the threat l2"),
        (NAME, L0(3), f"{NAME} attacks in linf and l2 and l1; got the threat l0"),
        ("ProjectedGradientDecent", Linf(0.1), r"attack: unknown name .*Did you mean 'ProjectedGradientDescent'\?"),
        ("DPatch", Linf(0.1), "DPatch: EstimatorError"),
    ],
)
def test_refuses_other_norms_and_names(name, threat, message):
    with pytest.raises(ValueError, match=message):
        ART(attack=name, threat=threat)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3}, "options.steps: unknown name 'steps'; known: batch_size, decay, eps_step, max_iter, "),
        ({"norm": 2}, "options.norm: the adapter sets it, from threat"),
        ({"targeted": True}, "options.targeted: the adapter sets it"),
        ({"eps_step": -1.0}, f"{NAME}: ValueError: The perturbation step-size `eps_step` has to be positive"),
    ],
)
def test_refuses_options_that_the_class_does_not_take(options, message):
    with pytest.raises(ValueError, match=message):
        ART(attack=NAME, threat=L1(1.0), options=options)


def test_shows_no_progress_bars(capfd):
    model, x = linear(3), images(2)
    ART(attack="CarliniL2Method", threat=L2(1.0), options={"max_iter": 1})(model, x, model(x).argmax(1))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("name", ["BoundaryAttack", "HopSkipJump"])
def test_an_example_without_a_start_is_noted_and_starts_from_an_image_of_the_other_class(name, targeted):
    # Class 1 is brighter than all noise, and a pool has one bright image.
    def bright(z):
        signed = z.flatten(1).mean(1) - 0.8
        return torch.stack([torch.zeros_like(signed), 50 * signed], 1)

    x, y = images(2, low=0.3, high=0.5), torch.zeros(2, dtype=torch.int64)
    attack = ART(attack=name, threat=L2(4.0), options={"max_iter": 5, "init_size": 5})
    target, notes = 1 - y if targeted else None, [None, None]
    assert torch.equal(attack(Attempt(bright, notes), x, y, target=target), x)
    assert notes == ["no starting point"] * 2
    pool = Pool(torch.stack([x[0], torch.ones_like(x[0])]), torch.tensor([0, 1]))
    notes = [None, None]
    z = attack(Attempt(bright, notes, lambda: pool), x, y, target=target)
    assert bool((bright(z).argmax(1) == 1).all())
    assert notes == [None, None]
