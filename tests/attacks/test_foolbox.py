import importlib.util

import pytest
import torch

from holdfast.attacks import PGD, Foolbox
from holdfast.attacks.starting import Attempt, Pool
from holdfast.errors import RecipeError
from holdfast.threat import L0, L1, L2, Linf
from tests.zoo import (
    THREAT_KINDS,
    digits,
    digits_cnn,
    half_space,
    half_space_points,
    half_space_points_at,
    images,
    linear,
)

if importlib.util.find_spec("foolbox") is None:
    pytest.skip("foolbox is not installed", allow_module_level=True)


def lost(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) != y


@pytest.mark.parametrize("kind", ["linf", "l2"])
def test_breaks_a_half_space_just_beyond_its_distance_and_not_before(kind):
    model = half_space()
    x, y = half_space_points_at(model, 0.05, kind)
    name = {"linf": "LinfPGD", "l2": "L2PGD"}[kind]
    for eps, broken in ((0.0505, True), (0.0495, False)):
        attack = Foolbox(attack=name, threat=THREAT_KINDS[kind](eps), options={"steps": 40, "rel_stepsize": 0.1})
        assert bool((lost(model, attack(model, x, y), y) == broken).all())


@pytest.mark.parametrize(
    ("name", "kind", "options", "above"),
    [
        ("LinfDeepFoolAttack", "linf", {}, 1.03),
        ("L2DeepFoolAttack", "l2", {}, 1.03),
        ("DDNAttack", "l2", {"steps": 100, "init_epsilon": 0.1}, 1.03),
        ("L1FMNAttack", "l1", {"steps": 100, "max_stepsize": 0.1}, 1.3),
    ],
)
def test_distances_found_are_those_of_the_half_space(name, kind, options, above):
    model = half_space()
    x, y = half_space_points_at(model, 0.05, kind)
    attack = Foolbox(attack=name, threat=THREAT_KINDS[kind](1.0), options=options)
    z = attack(model, x, y)
    ratio = attack.threat.distance(z, x) / 0.05
    assert bool(lost(model, z, y).all())
    assert bool(((ratio > 0.999) & (ratio < above)).all()), ratio


@pytest.mark.parametrize("kind", ["linf", "l2"])
def test_from_the_image_itself_its_last_point_is_that_of_our_pgd(kind):
    model, x = linear(5), images(12)
    y = model(x).argmax(1)
    threat = {"linf": Linf(0.1), "l2": L2(0.4)}[kind]
    name, size = {"linf": "LinfPGD", "l2": "L2PGD"}[kind], threat.eps / 4
    options = {"steps": 8, "abs_stepsize": size, "random_start": False}
    theirs = Foolbox(attack=name, threat=threat, options=options)(model, x, y)
    ours = PGD(threat=threat, steps=8, step_size=size, random_start=False, until_lost=False)(model, x, y)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-9)  # on a linear model the last point is the best


def test_leaves_as_many_digits_standing_as_our_pgd():
    model, (x, y) = digits_cnn(), digits()
    threat, x, y = Linf(0.08), x[:150], y[:150]
    options = {"steps": 20, "abs_stepsize": 0.01}
    theirs = lost(model, Foolbox(attack="LinfPGD", threat=threat, options=options, together=150)(model, x, y), y)
    alone = lost(model, Foolbox(attack="LinfPGD", threat=threat, options=options)(model, x[:50], y[:50]), y[:50])
    ours = lost(model, PGD(threat=threat, steps=20, step_size=0.01)(model, x, y), y)
    assert 15 < int(ours.sum()) < 135
    assert int((theirs != ours).sum()) <= 3
    assert int((alone != ours[:50]).sum()) <= 2


def test_a_geometry_slip_of_the_library_is_told_and_does_not_count():
    # Its noise is scaled by the largest value instead of the largest absolute value, and leaves the ball.
    attack, (x, y) = Foolbox(attack="LinfAdditiveUniformNoiseAttack", threat=Linf(0.1)), digits()
    with pytest.warns(RuntimeWarning, match=r"foolbox LinfAdditiveUniformNoiseAttack: .* points left the linf ball"):
        z = attack(digits_cnn(), x[:40], y[:40])
    distance = Linf(0.1).distance(z, x[:40])
    assert bool((distance <= 0.1 + 1e-7).all())
    assert 0 < int((distance == 0).sum()) < 40


def test_goes_to_its_target():
    model, x = linear(5), images(8)
    y, target = model(x).argmax(1), model(x).argmin(1)
    attack = Foolbox(attack="L2CarliniWagnerAttack", threat=L2(4.0), options={"steps": 100, "binary_search_steps": 4})
    assert torch.equal(model(attack(model, x, y, target=target)).argmax(1), target)


def test_an_attack_without_a_target_or_only_with_one_says_so():
    model, x = linear(3), images(2)
    y = model(x).argmax(1)
    with pytest.raises(
        RecipeError, match=r"foolbox NewtonFoolAttack: .* goes to a target; this one only leaves a label"
    ):
        Foolbox(attack="NewtonFoolAttack", threat=L2(1.0))(model, x, y, target=(y + 1) % 3)
    with pytest.raises(RecipeError, match=r"foolbox GenAttack: .* leaves a label; this one only goes to a target"):
        Foolbox(attack="GenAttack", threat=Linf(0.1))(model, x, y)


@pytest.mark.parametrize(
    ("name", "threat", "message"),
    [
        ("LinfPGD", L2(0.5), "LinfPGD attacks in linf; got the threat l2"),
        ("FGM", Linf(0.1), "FGM attacks in l2; got the threat linf"),
        ("L2AdditiveGaussianNoiseAttack", Linf(0.1), "attacks in l2; got the threat linf"),
        ("L0FMNAttack", L1(1.0), "attacks in l0; got the threat l1"),
        ("HopSkipJumpAttack", L1(1.0), "attacks in linf and l2; got the threat l1"),
        ("LinfPDG", Linf(0.1), r"attack: unknown name 'LinfPDG'; known: AdamPGD, .*Did you mean 'LinfPGD'\?"),
        ("SpatialAttack", Linf(0.1), "attack: unknown name 'SpatialAttack'"),
    ],
)
def test_refuses_other_norms_and_names(name, threat, message):
    with pytest.raises(ValueError, match=message):
        Foolbox(attack=name, threat=threat)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("LinfPGD", {"stepz": 3}, r"options.stepz: unknown name 'stepz'; known: abs_.*, steps. Did you mean 'steps'\?"),
        ("InversionAttack", {"distance": 2}, "options.distance: the adapter sets it"),
        ("L2ContrastReductionAttack", {"target": 3.0, "epsilon": 1}, "options.epsilon: unknown name"),
        ("VirtualAdversarialAttack", {}, "VirtualAdversarialAttack: TypeError: .*'steps'"),
        ("SparseL1DescentAttack", {"quantile": 2}, "SparseL1DescentAttack: ValueError: quantile needs"),
    ],
)
def test_refuses_options_that_the_class_does_not_take(name, options, message):
    threat = {"LinfPGD": Linf(0.1), "InversionAttack": Linf(0.1), "SparseL1DescentAttack": L1(1.0)}.get(name, L2(1.0))
    with pytest.raises(ValueError, match=message):
        Foolbox(attack=name, threat=threat, options=options)


@pytest.mark.parametrize("threat", [Linf(0.4), L2(0.4)], ids=str)
def test_hopskipjump_minimises_the_norm_of_the_threat(threat):
    model = half_space()
    x, y = half_space_points(model, 3)
    options = {"steps": 10, "initial_gradient_eval_steps": 40, "max_gradient_eval_steps": 200}
    attack = Foolbox(attack="HopSkipJumpAttack", threat=threat, options=options)
    z = attack(model, x, y)
    assert bool(lost(model, z, y).all())
    step = (z - x).abs()
    flat = step.amax(1) / step.mean(1)  # 1 where all values move as much, as they do in linf
    assert bool((flat < 1.3).all() if isinstance(threat, Linf) else (flat > 1.3).all()), flat


def constant(x):
    return 0 * x.flatten(1)[:, :2] + torch.tensor([1.0, 0.0], dtype=x.dtype)


@pytest.mark.filterwarnings("ignore:.*failed to draw")
@pytest.mark.parametrize("name", ["BoundaryAttack", "HopSkipJumpAttack"])
@pytest.mark.parametrize("together", [1, 2])
def test_an_example_without_a_point_to_start_from_is_noted_as_not_attacked(name, together):
    x, y = images(2), torch.zeros(2, dtype=torch.int64)
    attack = Foolbox(attack=name, threat=L2(1.0), options={"steps": 2}, together=together)
    notes = [None, None]
    assert torch.equal(attack(Attempt(constant, notes), x, y), x)
    assert notes == ["no starting point"] * 2
    with pytest.warns(RuntimeWarning, match="2 of 2 examples not attacked: no starting point"):
        attack(constant, x, y)


@pytest.mark.filterwarnings("ignore:.*failed to draw")
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize(("name", "steps"), [("BoundaryAttack", 200), ("HopSkipJumpAttack", 5)])
def test_from_an_image_of_the_other_class_an_attack_finds_what_it_does_not_find_from_noise(name, steps, targeted):
    # Class 1 is brighter than all noise on the way to these points, and a pool has one bright image.
    def bright(z):
        signed = z.flatten(1).mean(1) - 0.8
        return torch.stack([torch.zeros_like(signed), 50 * signed], 1)

    x, y = images(2, low=0.3, high=0.5), torch.zeros(2, dtype=torch.int64)
    target = 1 - y if targeted else None
    attack = Foolbox(attack=name, threat=L2(4.0), options={"steps": steps})
    notes = [None, None]
    attack(Attempt(bright, notes), x, y, target=target)
    assert notes == ["no starting point"] * 2
    pool = Pool(torch.stack([x[0], torch.ones_like(x[0])]), torch.tensor([0, 1]))
    z = attack(Attempt(bright, [None, None], lambda: pool), x, y, target=target)
    assert bool((bright(z).argmax(1) == 1).all())
    assert bool((L2(1.0).distance(z, x) <= 1.1 * (0.8 - x.mean((1, 2, 3))) * 4).all())


def test_a_point_outside_of_the_budget_is_noted_as_not_attacked():
    model, x = linear(3), images(4)
    notes = [None] * 4
    attack = Foolbox(attack="LinfAdditiveUniformNoiseAttack", threat=Linf(0.1))
    with pytest.warns(RuntimeWarning, match="points left the linf ball"):
        attack(Attempt(model, notes), x, model(x).argmax(1))
    assert set(notes) <= {None, "its point left the threat set"}
    assert any(notes)


def test_an_attack_for_any_distance_gets_that_of_the_threat():
    model = half_space()
    x, y = half_space_points(model, 3)
    attack = Foolbox(attack="LinearSearchBlendedUniformNoiseAttack", threat=L0(12), options={"steps": 5})
    assert attack.threat.distance(attack(model, x, y), x).tolist() == [12.0] * 3
