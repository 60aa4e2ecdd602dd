"""Training of a policy: the loss of eq. 9, who is trusted where, and two classifiers that do not change."""

import itertools
import math

import pytest
import torch

from holdfast.ensembles import AdaptiveComposite, Probability
from holdfast.errors import DataError, ModelError
from holdfast.objectives import PolicyLoss, PolicyTraining, aimed_data, policy
from holdfast.rng import Streams
from holdfast.threat import L0, Linf
from holdfast.training import Preparation
from tests.contracts.cheap import Beta, Shown
from tests.training.tiny import adaptive, outcome, recipe, train
from tests.zoo import images, labels, linear

BALL = Linf(0.1)


def terms_of(beta, robust, loss=0.7):
    one = torch.tensor([loss], dtype=torch.float64)
    return float(PolicyLoss()(one, torch.tensor([beta], dtype=torch.float64), torch.tensor([robust])))


@pytest.mark.parametrize(
    ("beta", "robust", "expected"), [(2.0, True, 2.4), (2.0, False, 7.2), (-5.0, False, 0.96), (5.0, True, 0.96)]
)
def test_equation_9(beta, robust, expected):
    # Computed by hand from eq. 9 with a cross entropy of 0.7.
    assert terms_of(beta, robust) == pytest.approx(expected)


def test_the_sentence_after_equation_9_would_trust_the_wrong_one():
    """As printed: prefer g where alpha_t < exp(beta_0). An attack on g alone (alpha_t = 0) would be answered by g."""
    objective = PolicyTraining(threat=BALL, alpha_0=55.0)
    at_zero = objective.strengths[0] <= 55.0
    assert terms_of(3.0, at_zero) < terms_of(-3.0, at_zero)  # trusting h costs less
    assert terms_of(3.0, not at_zero) > terms_of(-3.0, not at_zero)  # the sentence's target, the other way round


def test_the_strengths_are_those_of_the_paper():
    assert len(policy.STRENGTHS) == 9
    assert (policy.STRENGTHS[0], policy.STRENGTHS[-1]) == (0, math.inf)
    assert policy.STRENGTHS[1] == pytest.approx(10**-0.5)
    assert policy.STRENGTHS[7] == pytest.approx(10**3.5)


def composite(seed=0, count=9):
    x = images(count)
    return AdaptiveComposite(Shown(1, x), Shown(2, x), Probability(), Beta(linear(3, seed=seed)))


def data(count=9):
    return policy._Batch(images(count), labels(count, 3), torch.arange(count))


def started(objective, model, split=None, validation=None, augmented=False):
    split = data() if split is None else split
    work = objective.hooks.start(model, 3, split.index)
    work.meet(split, validation, augmented=augmented)
    return work


def test_the_total_is_the_mean_over_all_kinds_of_data():
    objective = PolicyTraining(threat=BALL, steps=2, alpha_0=1.0)
    terms = objective(composite(), *data().batch(slice(None)), rng=Streams(0, "", 9))
    parts = terms.parts
    torch.testing.assert_close(terms.total, (parts["clean"] + 9 * parts["aimed"] + parts["adaptive"]) / 11)


def test_clean_images_are_for_the_accurate_one_and_small_strengths_for_the_robust_one():
    objective = PolicyTraining(threat=Linf(1e-9), steps=1, strengths=(0.0, 1.0, 10.0), alpha_0=1.0)
    model, (x, y) = composite(), data().batch(slice(None))
    work = started(objective, model)
    logits, beta = model.decide(x)
    loss = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    none, close = torch.zeros(9, dtype=torch.bool), {"rtol": 1e-6, "atol": 0.0}
    for visit in range(3):  # the attack moves nothing, so that only the side differs
        robust = objective.strengths[policy.turn(3, 0, visit)] <= 1.0
        parts = work(model, x, y, rng=Streams(0, "", 9)).parts
        torch.testing.assert_close(parts["aimed"], PolicyLoss()(loss, beta, none | robust).mean(), **close)
        torch.testing.assert_close(parts["clean"], PolicyLoss()(loss, beta, none).mean(), **close)
        torch.testing.assert_close(parts["adaptive"], loss.mean(), **close)
        assert torch.equal(parts["clean_robust"], (beta > 0).double().mean())


def test_where_the_curves_never_cross_nobody_is_left_to_the_robust_one():
    objective = PolicyTraining(threat=Linf(1e-9), steps=1, strengths=(0.0,), alpha_0=0.0)
    model, (x, y) = composite(), data().batch(slice(None))
    logits, beta = model.decide(x)
    loss = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    parts = started(objective, model)(model, x, y, rng=Streams(0, "", 9)).parts
    expected = PolicyLoss()(loss, beta, torch.zeros(9, dtype=torch.bool)).mean()
    torch.testing.assert_close(parts["aimed"], expected, rtol=1e-6, atol=0.0)


def test_each_example_meets_all_strengths_in_turn_and_is_attacked_once_for_each(monkeypatch):
    monkeypatch.setattr(policy, "BLOCK", 4)
    monkeypatch.setattr(aimed_data, "BLOCK", 4)
    objective = PolicyTraining(threat=BALL, steps=1, strengths=(0.0, 1.0, math.inf), alpha_0=1.0)
    model, (x, y) = composite(), data().batch(slice(None))
    work, seen = started(objective, model), []
    remember = type(work._remembered).__call__
    monkeypatch.setattr(
        type(work._remembered),
        "__call__",
        lambda self, places, which, like: seen.append((places, which)) or remember(self, places, which, like),
    )
    for epoch in range(4):
        for rows in torch.randperm(9).split(3):
            work(model, x[rows], y[rows], rng=Streams(0, f"{epoch}", rows))
    met = [
        [int(which[places == place]) for places, which in seen if bool((places == place).any())] for place in range(9)
    ]
    assert all(sorted(visits[:3]) == [0, 1, 2] for visits in met)
    assert all(met[place] == met[place - place % 4] for place in range(9))  # as the first of their block
    assert len(work._remembered._blocks) == 9  # three blocks at three strengths


def test_strengths_come_in_an_order_that_the_last_one_does_not_foretell():
    visits = [[policy.turn(9, block, visit) for visit in range(90)] for block in range(27)]
    everything = list(range(9))
    assert all(sorted(one[9 * cycle : 9 * cycle + 9]) == everything for one in visits for cycle in range(10))
    assert all(sorted(visits[block][visit] for block in range(4, 13)) == everything for visit in range(90))
    steps = [(after - before) % 9 for one in visits for before, after in itertools.pairwise(one)]
    assert max(steps.count(step) for step in range(9)) < 0.4 * len(steps)  # rising strengths have one step only


def test_the_adaptive_attack_takes_one_to_all_steps_and_stays_in_the_ball():
    objective = PolicyTraining(threat=BALL, steps=4, alpha_0=1.0)
    model, (x, y) = composite(), data(200).batch(slice(None))
    work, asked = started(objective, model, data(200)), []

    class Watched:
        def __call__(self, z):
            asked.append(len(z))
            return model(z)

    z = work._adaptive(Watched(), x, y, Streams(3, "", 200))
    assert len(asked) == 4
    assert asked[0] == 200
    assert all(30 < before - after < 70 for before, after in zip(asked, [*asked[1:], 0], strict=True))
    assert float((z - x).abs().max()) <= 0.1 + 1e-12
    assert float((z - x).flatten(1).abs().amax(1).min()) > 0.09  # steps are longer where they are fewer


def test_alpha_0_is_where_the_curves_of_the_validation_images_cross(monkeypatch):
    curves = {"train": ([0.1, 0.2, 0.3], [0.9, 0.8, 0.7]), "validation": ([0.1, 0.6, 0.9], [0.7, 0.6, 0.3])}
    held_out = policy._Batch(images(20) + 5, labels(20, 3), torch.arange(20))
    monkeypatch.setattr(aimed_data, "BLOCK", 7)

    def measured(attack, model, x, y, strengths):  # as if every block had the same accuracies
        return len(x) * torch.tensor(curves["validation" if x.min() > 1 else "train"], dtype=torch.float64)

    monkeypatch.setattr(policy, "right_answers", measured)
    objective = PolicyTraining(threat=BALL, steps=1, strengths=(1.0, 10.0, 100.0))
    model, (x, y) = composite(), data().batch(slice(None))
    work = started(objective, model, validation=held_out)
    parts = work(model, x, y, rng=Streams(0, "", 9)).parts
    assert float(work.alpha_0) == pytest.approx(10.0)
    assert float(parts["beta_0"]) == pytest.approx(math.log(10.0))
    work = started(objective, model)
    assert float(work(model, x, y, rng=Streams(0, "", 9)).parts["beta_0"]) == pytest.approx(14.0)  # h everywhere
    assert float(work.alpha_0) == math.inf


def test_what_was_prepared_is_not_made_again(monkeypatch):
    for module in (policy, aimed_data):
        monkeypatch.setattr(module, "BLOCK", 4)
    objective = PolicyTraining(threat=BALL, steps=1, strengths=(0.0, 1.0, math.inf))
    model, (x, y) = composite(), data().batch(slice(None))
    work = started(objective, model, validation=data(5))
    # Two blocks of validation images, then three of training images at one strength each.
    assert list(work.prepare(torch.arange(9), x)) == [(done, 5) for done in range(1, 6)]
    assert not bool(work.alpha_0.isnan())
    made = dict(work._remembered._blocks)
    assert len(made) == 3
    assert list(work.prepare(torch.arange(9), x)) == []
    work(model, x[:6], y[:6], rng=Streams(0, "", 6))
    assert work._remembered._blocks.keys() == made.keys()
    assert list(work.prepare(torch.arange(6, 9), x)) == []  # what is left of the epoch is there
    assert len(list(work.prepare(torch.arange(9), x))) == 2  # the first two blocks meet another strength next


def test_only_the_policy_learns():
    model = adaptive()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x, y = torch.rand(8, 1, 8, 8), torch.arange(8)
    objective = PolicyTraining(threat=BALL, steps=1, strengths=(0.0, math.inf), alpha_0=1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    objective(model.train(), x, y).total.backward()
    optimizer.step()
    for name, tensor in model.state_dict().items():
        if name.startswith("policy."):
            assert not torch.equal(tensor, before[name]), name
        else:
            assert torch.equal(tensor, before[name]), name


def test_clean_and_attacked_images_pass_in_one_batch():
    """Else BatchNorm would tell the policy the kind of its images, which it cannot when the network is used."""
    model, sizes = adaptive().train(), []
    model.policy.register_forward_hook(lambda module, given, out: sizes.append((len(out), module.training)))
    objective = PolicyTraining(threat=BALL, steps=1, strengths=(0.0, math.inf), alpha_0=1.0)
    objective(model, torch.rand(8, 1, 8, 8), torch.arange(8))
    assert [size for size in sizes if size[1]] == [(24, True)]


SMALL = "train.objective.policy={threat: {linf: 0.1}, steps: 1, strengths: [0, 1, .inf]}"
FACTORY = "model={python: 'tests.training.tiny:adaptive'}"


@pytest.mark.parametrize(
    ("more", "stops"),
    [((), (1, 7, 12, 16)), (("data.augment=[horizontal_flip]",), (5,))],
    ids=["remembered", "augmented"],
)
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, monkeypatch, more, stops):
    monkeypatch.setattr(policy, "BLOCK", 5)
    monkeypatch.setattr(aimed_data, "BLOCK", 5)
    of = recipe(SMALL, FACTORY, "train.optimizer=adam", *more)
    records = train(of, tmp_path / "whole")
    assert isinstance(records[0], Preparation)
    prepared = {record.epoch for record in records if isinstance(record, Preparation)}
    assert prepared == ({1} if more else {1, 2})  # the strengths of the second epoch are others
    assert records[0].total == (4 if more else 9)  # 16 validation images and, where they are remembered, 24 others
    for stop in stops:
        train(of, tmp_path / str(stop), stop)
        train(of, tmp_path / str(stop))
        assert outcome(tmp_path / str(stop)) == outcome(tmp_path / "whole")


def test_other_networks_and_other_examples_are_refused():
    objective = PolicyTraining(threat=BALL, alpha_0=1.0)
    with pytest.raises(ModelError, match="policy trains the policy of an adaptive composite, got Linear"):
        objective.hooks.start(linear(3), 3, torch.arange(3))
    model, (x, y) = composite(), data().batch(slice(None))
    with pytest.raises(DataError, match="example 8 is not one of them"):
        started(objective, model, data(4))(model, x[-1:], y[-1:], rng=Streams(0, "", [8]))
    with pytest.raises(ModelError, match="expected images to find alpha_0 on"):
        PolicyTraining(threat=BALL).hooks.start(model, 3, torch.arange(9))(model, x, y)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"threat": L0(3)}, "no l0 attack"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"step_size": 0.0}, "step_size must be positive"),
        ({"strengths": ()}, "strengths must rise"),
        ({"strengths": (1.0, 0.5)}, "strengths must rise"),
        ({"strengths": (-1.0, 0.5)}, "strengths must rise"),
        ({"alpha_0": -1.0}, "alpha_0 must not be negative"),
    ],
)
def test_bad_fields_get_one_line(fields, words):
    with pytest.raises(ValueError, match=words):
        PolicyTraining(**{"threat": BALL, **fields})
