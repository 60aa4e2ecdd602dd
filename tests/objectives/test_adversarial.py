import pytest
import torch

from holdfast.attacks import EOT, FGSM, PGD, Square, Targeted
from holdfast.attacks.targeted import choose_targets
from holdfast.losses import cross_entropy
from holdfast.objectives import Adversarial, Passes
from holdfast.rng import Streams
from holdfast.threat import Linf
from tests.zoo import HalfSpace, images, labels, linear, normed, smooth

COUNT = 8
X, Y = images(COUNT), labels(COUNT, 5)


def test_is_the_loss_at_the_point_that_the_attack_finds():
    model, attack = smooth(), PGD(threat=Linf(0.1), steps=3, until_lost=False)
    z = attack(model, X, Y, rng=Streams(1, "a", COUNT))
    terms = Adversarial(attack=attack)(model, X, Y, rng=Streams(1, "a", COUNT))
    torch.testing.assert_close(terms.total, cross_entropy(model(z), Y).mean())


def test_has_the_closed_form_of_a_half_space():
    # The worst margin is m - eps |w|_1, and the logits are (-m, m).
    model = HalfSpace(torch.tensor([0.6, -0.8], dtype=torch.float64), torch.tensor(0.1, dtype=torch.float64))
    x = 0.4 + 0.2 * images(6, (2,))
    y = model(x).argmax(1)
    terms = Adversarial(attack=FGSM(threat=Linf(0.1)))(model, x, y)
    worst = model.signed(x).abs() - 0.1 * 1.4
    torch.testing.assert_close(terms.total, torch.log1p(torch.exp(-2 * worst)).mean())


def test_the_attack_sees_eval_mode_and_the_loss_train_mode():
    model, modes = normed(5, dropout=0.0).train(), []
    model.norm.register_forward_hook(lambda module, *_: modes.append(module.training))
    Adversarial(attack=PGD(threat=Linf(0.1), steps=2, until_lost=False))(model, X, Y)
    assert modes == [False] * 3 + [True]
    assert model.training


def test_a_mixed_attack_sees_the_statistics_of_its_batch_and_moves_none():
    model, modes = normed(5).train(), []
    model.norm.register_forward_hook(lambda module, *_: modes.append((module.training, module.track_running_stats)))
    model.dropout.register_forward_hook(lambda module, *_: modes.append(module.training))
    with torch.random.fork_rng():
        Adversarial(attack=PGD(threat=Linf(0.1), steps=1, until_lost=False), batch_stats="mixed")(model, X, Y)
    assert modes == [(True, False), False] * 2 + [(True, True), True]


def test_the_statistics_move_by_the_adversarial_batch_alone():
    model, twin = normed(5, dropout=0.0).train(), normed(5, dropout=0.0)
    attack = FGSM(threat=Linf(0.1))
    z = attack(twin, X, Y)
    Adversarial(attack=attack)(model, X, Y)
    twin.train()(z)
    assert torch.equal(model.norm.running_mean, twin.norm.running_mean)


def test_the_default_attack_wants_the_highest_loss():
    assert not Adversarial().attack.until_lost


def test_gradients_do_not_flow_through_the_attack():
    model = linear(5)
    z = FGSM(threat=Linf(0.1))(model, X, Y)
    expected = torch.autograd.grad(cross_entropy(model(z), Y).mean(), model.weight)[0]
    terms = Adversarial(attack=FGSM(threat=Linf(0.1)))(model, X, Y)
    torch.testing.assert_close(torch.autograd.grad(terms.total, model.weight)[0], expected)


def test_training_never_stops_at_the_first_success():
    objective = Adversarial(attack=PGD(threat=Linf(0.1), steps=2, until_lost=True))
    assert objective == Adversarial(attack=PGD(threat=Linf(0.1), steps=2, until_lost=False))
    assert Adversarial(attack=FGSM(threat=Linf(0.1))).attack == FGSM(threat=Linf(0.1))


def test_an_attack_inside_an_attack_does_not_stop_either():
    inside = PGD(threat=Linf(0.1), steps=2)
    assert not Adversarial(attack=Targeted(attack=inside)).attack.attack.until_lost
    assert not Adversarial(attack=EOT(attack=inside)).attack.attack.until_lost


@pytest.mark.parametrize("rule", ["random", "least_likely", "next"])
def test_with_a_target_it_is_the_loss_where_the_attack_aimed_at_it_ends(rule):
    model, attack = smooth(), PGD(threat=Linf(0.1), steps=3, until_lost=False)
    target = choose_targets(rule, model, X, Y, Streams(1, "a", COUNT))
    assert bool((target != Y).all())
    z = attack(model, X, Y, target=target, rng=Streams(1, "a", COUNT))
    terms = Adversarial(attack=attack, target=rule)(model, X, Y, rng=Streams(1, "a", COUNT))
    torch.testing.assert_close(terms.total, cross_entropy(model(z), Y).mean())
    away = Adversarial(attack=attack)(model, X, Y, rng=Streams(1, "a", COUNT))
    assert abs(float(away.total.detach()) - float(terms.total.detach())) > 1e-6


def test_a_target_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="target: unknown name 'least'; known: least_likely, next, random"):
        Adversarial(target="least")


def test_states_the_passes_of_attacks_that_it_knows():
    # k steps and a look at the last point, then the loss; the thesis, whose PGD keeps the last point, has k + 1.
    assert Adversarial(attack=PGD(threat=Linf(0.1), steps=7)).passes == Passes(9, 8)
    assert Adversarial(attack=PGD(threat=Linf(0.1), steps=7, restarts=2)).passes == Passes(17, 15)
    assert Adversarial(attack=PGD(threat=Linf(0.1), steps=7), target="random").passes == Passes(10, 8)
    assert Adversarial(attack=Targeted(attack=PGD(threat=Linf(0.1), steps=7))).passes == Passes(10, 8)
    assert Adversarial(attack=FGSM(threat=Linf(0.1))).passes == Passes(2, 2)
    assert Adversarial(attack=Square(threat=Linf(0.1))).passes is None
    assert Adversarial(attack=Targeted(attack=Square(threat=Linf(0.1)))).passes is None
