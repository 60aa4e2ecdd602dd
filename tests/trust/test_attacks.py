"""Conditions that need attacks, on models whose answer is known."""

import pytest
import torch

from holdfast.attacks import APGD, PGD
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.trust.attacks import Case, basis, beaten_by_any, black_box, convergence, larger_eps, unbounded
from holdfast.trust.transfer import around, distil, transfer
from tests import zoo


def case(model, attack, count=20):
    x, y = zoo.digits()
    return Case(model, x[:count], y[:count], attack)


def constant(x):
    """Always class 3, with a gradient."""
    return torch.nn.functional.one_hot(torch.full((len(x),), 3), 10).to(x) + 0.01 * x.flatten(1)[:, :10]


def test_a_constant_classifier_survives_everything_which_no_honest_one_does():
    x, _ = zoo.digits()
    judged = Case(constant, x[:20], torch.full((20,), 3), APGD(threat=Linf(0.1), steps=3))
    assert (unbounded(judged).level, unbounded(judged).value) == ("fail", 1.0)
    assert larger_eps(judged).level == "warn"
    judged = case(zoo.digits_mlp(), APGD(threat=Linf(0.1), steps=20))
    assert (unbounded(judged).level, unbounded(judged).value) == ("pass", 0.0)


def test_budgets_grow_to_the_whole_box_and_step_sizes_with_them():
    judged = case(zoo.digits_mlp(), PGD(threat=Linf(0.3), steps=2, step_size=0.1))
    assert [rung.eps for rung in judged.rungs] == [0.15, 0.3, 0.6, torch.inf]
    assert judged.within(Linf(0.6)).step_size == pytest.approx(0.2)
    assert judged.within(L2(2.0)).step_size is None
    assert judged.rungs[1].held == judged.standing.tolist()
    assert judged.rungs[-1].held == judged.held(judged.within(Linf(1.0))).tolist()


def test_an_attack_that_overshoots_at_large_budgets_is_caught():
    """One step of the size of the box passes over the class that a small step reaches."""

    def model(x):
        where = x[:, 0]
        return torch.stack((torch.zeros_like(where), 1 - 40 * (where - 0.6).abs()), dim=1)

    x = torch.full((20, 1), 0.5)
    attack = PGD(threat=Linf(0.1), steps=1, step_size=0.1, random_start=False)
    verdict = larger_eps(Case(model, x, torch.zeros(20, dtype=torch.int64), attack))
    assert verdict.level == "fail"
    assert verdict.value == 1.0


def test_too_few_steps_are_not_converged_and_enough_are():
    weak = PGD(threat=Linf(0.15), steps=1, step_size=0.01)
    assert convergence(case(zoo.digits_mlp(), weak, 40)).level == "fail"
    assert convergence(case(zoo.digits_mlp(), APGD(threat=Linf(0.15), steps=20), 40)).level == "pass"


def test_restarts_alone_also_show_that_an_attack_has_not_converged():
    """Where the gradient is zero, steps go nowhere, but every restart is another try."""

    def model(x):
        hit = (x.flatten(1).mean(1) > 0.502).to(x)
        return torch.stack((1 - 2 * hit, hit), dim=1) + 0 * x.flatten(1)[:, :2]

    x, y = torch.full((60, 1, 4, 4), 0.5), torch.zeros(60, dtype=torch.int64)
    attack = PGD(threat=Linf(0.01), steps=1)
    assert convergence(Case(model, x, y, attack)).level == "fail"
    assert convergence(Case(model, x, y, PGD(threat=Linf(0.01), steps=1, random_start=False))).level == "pass"


def test_random_search_and_transfer_break_what_a_masked_gradient_hides():
    attack = APGD(threat=Linf(0.1), steps=10)
    masked, honest = case(zoo.Masked(zoo.digits_mlp(), 8), attack, 40), case(zoo.digits_mlp(), attack, 40)
    assert (black_box(masked).level, black_box(honest).level) == ("fail", "pass")
    assert (transfer(masked).level, transfer(honest).level) == ("fail", "pass")


def test_other_attacks_count_together_and_are_told_apart():
    judged = Case(lambda x: torch.cat((x + 1, x), dim=1), torch.full((40, 1), 0.5), torch.zeros(40, dtype=torch.int64),
                  APGD(threat=Linf(0.1), steps=1))  # fmt: skip
    assert bool(judged.standing.all())
    three, others, all_of_them = torch.arange(40) >= 3, (torch.arange(40) < 3) | (torch.arange(40) > 4), judged.standing
    alone = beaten_by_any("black-box", judged, {"A": three})
    assert (alone.level, alone.value) == ("warn", 3 / 40)
    assert alone.finding == "A breaks 3 of 40 examples that the white-box attack leaves unbroken"
    together = beaten_by_any("transfer", judged, {"A": three, "B": others, "C": all_of_them})
    assert (together.level, together.value) == ("fail", 5 / 40)
    assert together.finding.startswith("A breaks 3, B 2, C 0 (together 5) of 40 examples")
    assert together.remedy


def test_square_and_simba_both_search_without_a_gradient():
    found = black_box(case(zoo.Masked(zoo.digits_mlp(), 8), APGD(threat=Linf(0.15), steps=5), 20))
    square, simba = (int(part.split()[-1]) for part in found.finding.partition(" (")[0].split(","))
    assert min(square, simba) > 3
    assert found.finding.startswith("Square with 1000 queries breaks")
    assert "SimBA with 500 steps" in found.finding


def test_simba_tries_single_values_only_where_all_have_their_turn():
    shapes = {(1, 8, 8): "pixel", (1, 28, 28): "dct", (3, 32, 32): "dct", (784,): "pixel"}
    assert {shape: basis(torch.zeros(2, *shape)) for shape in shapes} == shapes


def test_transfer_from_two_sources_has_the_accuracies_of_table_3_7():
    judged = case(zoo.Masked(zoo.digits_mlp(), 8), APGD(threat=Linf(0.15), steps=5), 20)
    same, strange = zoo.digits_mlp(), zoo.linear(10, (1, 8, 8), dtype=torch.float32)
    found = transfer(judged, {"same": same, "strange": strange})
    assert found.level == "fail"
    head, _, accuracies = found.finding.partition(" (accuracy: ")
    assert head.startswith("an attack on same breaks")
    assert "an attack on strange" in head
    said = {word.rpartition(" ")[0].rpartition(" ")[0]: float(word.split()[-2]) for word in accuracies[:-1].split(", ")}
    assert list(said) == ["clean", "white-box", "transferred from same", "transferred from strange"]
    assert said["clean"] == 100 * float((same(judged.x).argmax(1) == judged.y).float().mean())
    assert said["white-box"] == 100 * float(judged.standing.float().mean())
    assert said["transferred from same"] < said["transferred from strange"] <= said["clean"]
    both = float(found.value)
    assert both >= transfer(judged, {"strange": strange}).value
    assert transfer(judged, same).value <= both


def test_only_the_examples_in_question_are_attacked_and_each_with_its_own_numbers():
    def coin(model, x, y, *, rng):
        return rng.uniform(x)

    def model(z):
        return torch.cat((z - 0.5, 0.5 - z), dim=1)

    judged = Case(model, torch.zeros(40, 1), torch.zeros(40, dtype=torch.int64), APGD(threat=Linf(0.1)))
    among = torch.arange(40) % 3 == 0
    assert 0 < judged.held(coin).sum() < 40
    assert torch.equal(judged.held(coin, among), judged.held(coin) & among)
    assert not judged.held(coin, torch.zeros(40, dtype=torch.bool)).any()


def test_a_student_answers_like_its_teacher_and_has_a_gradient():
    x, _ = zoo.digits()
    student = distil(zoo.Masked(zoo.digits_mlp(), 8), x[:100], 0)
    agree = (student(x[:100]).argmax(1) == zoo.digits_mlp()(x[:100]).argmax(1)).float().mean()
    assert agree > 0.9
    z = x[:4].clone().requires_grad_()
    (grad,) = torch.autograd.grad(student(z).sum(), z)
    assert grad.abs().max() > 0


def test_noise_around_images_stays_in_the_box_and_has_a_size_for_each():
    x = torch.full((200, 1, 8, 8), 0.5)
    size = (around(x, Streams(0, "", 200)) - x).abs().flatten(1).amax(1)
    assert 0.28 < size.max() <= 0.3
    assert size.min() < 0.02
    edge = around(torch.ones(3, 1, 2, 2), Streams(0, "", 3))
    assert edge.max() <= 1


def test_vectors_need_a_surrogate():
    model = zoo.linear(3, (16,), dtype=torch.float32)
    x = zoo.images(6, (16,), dtype=torch.float32)
    judged = Case(model, x, model(x).argmax(1), APGD(threat=L2(0.1), steps=2))
    assert transfer(judged).level == "not tested"
    assert transfer(judged, surrogate=model).level in ("pass", "warn", "fail")
