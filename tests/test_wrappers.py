import math

import pytest
import torch
from torch import nn

from holdfast.attacks import FGSM, PGD, Square
from holdfast.errors import ModelError
from holdfast.gradients import input_gradient
from holdfast.losses import LOSSES, margin
from holdfast.threat import Linf
from holdfast.wrappers import (
    BPDA,
    Counted,
    Deadline,
    ExpectedOverRandomness,
    InCurrentModes,
    OutOfTimeError,
    Shared,
    WithoutNaN,
    behind,
    end_of,
    narrow,
    network,
    replaced,
)
from tests.zoo import Masked, images, labels, linear, smooth


class Noisy(nn.Module):
    """A stochastic defence: normal noise on its input, from the global generator."""

    def __init__(self, model, sigma):
        super().__init__()
        self.model, self.sigma = model, sigma

    def forward(self, x):
        return self.model(x + self.sigma * torch.randn_like(x))


class Cycle:
    """A model whose answers go round a list of factors, so that means are known."""

    def __init__(self, model, factors):
        self.model, self.factors, self.asked = model, factors, 0

    def __call__(self, x):
        self.asked += 1
        return self.model(x) * self.factors[(self.asked - 1) % len(self.factors)]


def test_the_expectation_is_the_mean_of_the_logits():
    model, x = linear(3), images(5)
    torch.testing.assert_close(ExpectedOverRandomness(Cycle(model, [1, 2, 6]), 3)(x), 3 * model(x))


def test_the_gradient_is_the_mean_gradient_of_the_draws():
    model, x, y = smooth(), images(5), labels(5, 5)
    _, grad, _ = input_gradient(margin, ExpectedOverRandomness(Cycle(model, [0.5, 1.5, 4.0]), 3), x, y)
    torch.testing.assert_close(grad, 2 * input_gradient(margin, model, x, y)[1])


def test_more_draws_estimate_the_gradient_better():
    model, x = smooth(), images(20)
    y = model(x).argmax(1)

    def error(draws):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            noisy = Noisy(model, 0.5)
            _, first, _ = input_gradient(margin, ExpectedOverRandomness(noisy, draws), x, y)
            _, second, _ = input_gradient(margin, ExpectedOverRandomness(noisy, draws), x, y)
        return float((first - second).norm())

    assert error(64) < 0.35 * error(1)  # one over eight, with room


@pytest.mark.parametrize("name", LOSSES)
def test_mean_logits_and_mean_log_probabilities_have_the_same_loss(name):
    outputs = torch.stack([linear(5, seed=seed)(images(7)) for seed in range(4)])
    y, loss = labels(7, 5), LOSSES[name]
    torch.testing.assert_close(loss(outputs.mean(0), y), loss(outputs.log_softmax(2).mean(0), y))


def test_no_draws_are_refused():
    with pytest.raises(ValueError, match="draws must be at least 1"):
        ExpectedOverRandomness(linear(3), 0)


def test_wrappers_pass_attributes_and_narrow_on():
    model, x = linear(3), images(4)
    for wrap in (lambda f: ExpectedOverRandomness(f, 3), lambda f: BPDA(f, torch.round)):
        counts = torch.zeros(4, dtype=torch.int64)
        wrapped = wrap(Counted(model, counts))
        assert torch.equal(wrapped.weight, model.weight)
        assert wrapped.counts is counts
        keep = torch.tensor([True, False, False, True])
        part = narrow(wrapped, keep)
        assert type(part) is type(wrapped)
        torch.testing.assert_close(part(x[keep]), wrapped(x)[keep])
    assert counts.tolist() == [2, 1, 1, 2]


def test_counting_outside_counts_questions_and_inside_counts_draws():
    model, x = linear(3), images(4)
    y = model(x).argmax(1)
    attack = PGD(threat=Linf(1e-4), steps=3, random_start=False)
    outside, inside = torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    attack(Counted(ExpectedOverRandomness(Counted(model, inside), 5), outside), x, y)
    assert outside.tolist() == [4] * 4
    assert inside.tolist() == [20] * 4


def test_bpda_answers_exactly_as_the_defended_model():
    model, x = linear(4), images(50)

    def quantise(z):
        return (z * 3).round() / 3

    expected = model(quantise(x))
    assert torch.equal(BPDA(model, quantise)(x), expected)
    assert torch.equal(BPDA(model, quantise)(x.clone().requires_grad_()), expected)


def test_bpda_has_the_gradient_of_the_stand_in_at_the_point_that_the_model_sees():
    model, x, y = smooth(), images(6), labels(6, 5)

    def quantise(z):
        return (z * 3).round() / 3

    _, straight, _ = input_gradient(margin, BPDA(model, quantise), x, y)
    _, inner, _ = input_gradient(margin, model, quantise(x), y)
    torch.testing.assert_close(straight, inner)
    _, curved, _ = input_gradient(margin, BPDA(model, quantise, lambda z: z**2), x, y)
    torch.testing.assert_close(curved, inner * 2 * x)


def test_bpda_breaks_a_masked_model_that_gradients_alone_do_not():
    inner, x = linear(3), images(20)
    model = Masked(inner, levels=20)
    y = model(x).argmax(1)
    attack = FGSM(threat=Linf(0.5))
    assert torch.equal(attack(model, x, y), x)
    seen_through = BPDA(inner, lambda z: (z * 20).round() / 20)
    z = attack(seen_through, x, y)
    assert bool((model(z).argmax(1) != y).all())


def test_bpda_does_not_ask_its_stand_in_without_a_gradient():
    def never(z):
        raise AssertionError("asked")

    model, x = linear(3), images(4)
    Square(threat=Linf(0.1), queries=3)(BPDA(model, torch.round, never), x, labels(4, 3))


def test_a_stand_in_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="stand_in gives shape"):
        input_gradient(margin, BPDA(linear(3), torch.round, lambda z: z[:, :, :2]), images(2), labels(2, 3))


@pytest.mark.parametrize("wrap", [lambda f: BPDA(f, torch.round), lambda f: ExpectedOverRandomness(f, 2)])
def test_a_wrapper_knows_what_it_is_around_and_goes_around_another(wrap):
    first, second, x = linear(3), linear(3, seed=1), images(4)
    assert wrap(first).wrapped is first
    torch.testing.assert_close(wrap(first).around(second)(x), wrap(second)(x))
    torch.testing.assert_close(wrap(first).inside(x), first(x))


def test_without_its_preprocessing_a_classifier_still_sees_the_stand_in():
    model = linear(3)
    wrapped = BPDA(model, lambda x: x.round(), lambda x: x / 2)
    torch.testing.assert_close(wrapped.inside(images(4)), model(images(4) / 2))


class Deep(nn.Module):
    """A network with another one two modules down, of which it has a list."""

    def __init__(self, inner):
        super().__init__()
        self.parts = nn.ModuleList([nn.Identity(), nn.Sequential(nn.Identity(), inner)])

    def forward(self, x):
        return 2 * self.parts[1](self.parts[0](x))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        Deep,
        lambda f: BPDA(Deep(f), torch.round),
        lambda f: ExpectedOverRandomness(BPDA(f, torch.round), 3),
        lambda f: Counted(Deep(f), torch.zeros(4, dtype=torch.int64)),
    ],
    ids=["itself", "in modules", "in a wrapper", "in two", "counted"],
)
def test_a_module_is_replaced_wherever_it_stands(wrap):
    first, second, x = linear(3), linear(3, seed=1), images(4)
    model = wrap(first)
    before = model(x)
    for change in (lambda _: second, lambda _: second.forward):  # a module, and a function
        torch.testing.assert_close(replaced(model, type(first), change)(x), wrap(second)(x))
    torch.testing.assert_close(model(x), before)
    assert replaced(model, nn.Conv2d, lambda _: second) is model
    assert replaced(model, type(first), lambda inner: inner) is model


def test_what_was_replaced_can_be_differentiated_and_shares_the_other_weights():
    inner, x = linear(3), images(4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 16).double(), inner)
    made = replaced(model, type(inner), lambda one: lambda x: 3 * one(x))
    assert made[1] is model[1]
    assert model[2] is inner
    _, expected, _ = input_gradient(margin, lambda z: 3 * model(z), x, labels(4, 3))
    _, found, _ = input_gradient(margin, made, x, labels(4, 3))
    torch.testing.assert_close(found, expected)


def counts(size):
    return torch.zeros(size, dtype=torch.int64)


def test_every_forward_pass_counts_once_per_example_and_the_answer_is_the_models():
    model, x = linear(3), images(4)
    counted = Counted(model, counts(4))
    assert torch.equal(counted(x), model(x))
    counted(x)
    assert counted.counts.tolist() == [2, 2, 2, 2]


def test_copies_of_the_batch_count_as_often():
    counted = Counted(linear(3), counts(2))
    counted(images(6))
    assert counted.counts.tolist() == [3, 3]


def test_a_narrowed_model_counts_for_its_examples_only():
    counted = Counted(linear(3), counts(4))
    part = counted.narrow(torch.tensor([True, False, True, True]))
    part(images(3))
    last = part.narrow(torch.tensor([2, 0]))
    last(images(2))
    assert counted.counts.tolist() == [2, 0, 1, 2]
    assert part.counts is counted.counts


def test_the_order_of_a_selection_is_kept():
    counted = Counted(linear(3), counts(3))
    counted.narrow(torch.tensor([2, 0])).narrow(torch.tensor([True, False]))(images(1))
    assert counted.counts.tolist() == [0, 0, 1]


def test_a_batch_of_other_length_is_refused():
    counted = Counted(linear(3), counts(4))
    with pytest.raises(ValueError, match="3 rows asked about 4 examples"):
        counted(images(3))


def test_plain_models_do_not_care_about_narrowing():
    model = linear(3)
    assert narrow(model, torch.tensor([0])) is model
    assert narrow(Counted(model, counts(1)), torch.tensor([0])) is not model


def test_a_counted_model_tells_the_model_inside_who_stays():
    class PerExample:
        def __init__(self, offset):
            self.offset = offset

        def __call__(self, x):
            return x.flatten(1) + self.offset[:, None]

        def narrow(self, selection):
            return PerExample(self.offset[selection])

    offset, x, stay = torch.tensor([1.0, 2.0, 3.0]).double(), images(3), torch.tensor([True, False, True])
    counted = Counted(PerExample(offset), counts(3))
    assert torch.equal(narrow(counted, stay)(x[stay]), counted(x)[stay])


def test_attributes_of_the_model_are_visible_through_the_count():
    model = linear(3)
    assert Counted(model, counts(1)).weight is model.weight
    assert torch.equal(Counted(model, counts(2)).features(images(2)), images(2).flatten(1))


def test_rows_of_unknown_examples_are_shared_evenly_and_none_is_lost():
    counted = Counted(linear(3), counts(5))
    shared = Shared(counted.narrow(torch.tensor([0, 2, 3, 4])), 4)
    asked = 0
    for size in (4, 1, 3, 6, 0, 2, 9, 8, 5):
        shared(images(size))
        asked += size
        given = counted.counts[[0, 2, 3, 4]]
        assert int(given.sum()) == asked
        assert int(given.max() - given.min()) <= 1
    assert int(counted.counts[1]) == 0


def test_the_answers_to_shared_questions_are_the_models_and_in_order():
    model = linear(3)
    for size in (0, 1, 2, 3, 4, 7):
        torch.testing.assert_close(Shared(model, 3)(images(size)), model(images(size)))


def test_the_network_behind_transparent_wrappers_is_found_and_averages_are_not_looked_through():
    model = torch.nn.Identity()
    assert network(Counted(Counted(model, counts(3)), counts(3))) is model
    averaged = ExpectedOverRandomness(Counted(model, counts(3)), 2)
    assert network(averaged) is averaged
    assert network(Counted(averaged, counts(3))) is averaged


@pytest.mark.parametrize(
    "wrap", [lambda f: Deadline(f, math.inf), WithoutNaN, InCurrentModes, lambda f: Counted(f, counts(4))]
)
def test_a_transparent_wrapper_answers_as_what_it_is_around_and_goes_around_another(wrap):
    first, second, x = linear(3), linear(3, seed=1), images(4)
    wrapper = wrap(first)
    assert torch.equal(wrapper(x), first(x))
    other = behind(wrapper, lambda model: second if model is first else None)
    assert type(other) is type(wrapper)
    assert network(other) is second
    assert network(narrow(wrapper, torch.tensor([1]))) is first


def test_a_deadline_ends_the_answers():
    with pytest.raises(OutOfTimeError):
        Deadline(linear(3), end_of(-1.0)).narrow(torch.tensor([0]))(images(1))
    assert end_of(None) == math.inf


def test_nan_logits_are_an_error_and_no_votes():
    with pytest.raises(ModelError, match="NaN for 1 of 2 images"):
        WithoutNaN(lambda x: torch.tensor([[0.0, 1.0], [0.0, torch.nan]]))(images(2))
