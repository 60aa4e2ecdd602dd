"""The learning rate that training uses, against torch's schedulers and closed forms; signSGD by hand."""

import pytest
import torch
from torch.optim import lr_scheduler

from holdfast.optim import SGD, Cosine, CosineRestarts, MultiStep, OneCycle, SignSGD
from holdfast.optim.schedules import multiplier
from holdfast.training import Epoch
from tests.training.tiny import recipe, train

EPOCHS = 12


def torch_rates(make):
    """Multipliers of a torch scheduler stepped once per epoch."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    scheduler, rates = make(optimizer), []
    for _ in range(EPOCHS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("schedule", "make"),
    [
        (Cosine(), lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS)),
        (Cosine(floor=0.1), lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS, eta_min=0.1)),
        (MultiStep(milestones=(3.0, 7.0), gamma=0.5), lambda o: lr_scheduler.MultiStepLR(o, [3, 7], 0.5)),
        (CosineRestarts(first=2.0), lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2)),
        (CosineRestarts(first=5.0, factor=1.0, floor=0.2),
         lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5, 1, eta_min=0.2)),
    ],
)  # fmt: skip
def test_agrees_with_torch_at_the_start_of_every_epoch(schedule, make):
    assert [multiplier(schedule, 0, 4 * n, 4, EPOCHS) for n in range(EPOCHS)] == pytest.approx(torch_rates(make))


def test_one_cycle_is_two_straight_lines():
    rates = [multiplier(OneCycle(peak=0.25, start=0.2), 0, step, 1, 8) for step in range(8)]
    assert rates == pytest.approx([0.2, 0.6, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_warm_up_rises_linearly_and_reaches_the_full_rate_with_its_last_step():
    rates = [multiplier(MultiStep(milestones=()), 2, step, 2, 5) for step in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_training_reports_the_rate_of_the_last_step_of_each_epoch(tmp_path):
    of = recipe("train.schedule.cosine.floor=0.1", "train.warmup=1.5", "train.optimizer.sgd.lr=0.5")
    rates = [record.lr for record in train(of, tmp_path) if isinstance(record, Epoch)]
    assert rates == pytest.approx([0.5 * Cosine(floor=0.1)(2 / 3, 2) * 3 / 4.5, 0.5 * Cosine(floor=0.1)(5 / 3, 2)])


def test_sign_sgd_by_hand():
    parameter = torch.tensor([1.0, -2.0, 0.0], requires_grad=True)
    optimizer = SignSGD(lr=0.1, momentum=0.5, weight_decay=1.0)([parameter])
    steps = [([1.0, 1.0, 0.0], [0.9, -1.9, 0.0]), ([-3.0, 1.9, -1.0], [1.0, -1.8, 0.1])]
    # means: .5*(1+1, 1-2, 0) = (1, -.5, 0); then .5*that + .5*(-3+.9, 1.9-1.9, -1) = (-.55, -.25, -.5)
    for gradient, expected in steps:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        assert parameter.tolist() == pytest.approx(expected)


def test_sign_sgd_without_momentum_keeps_no_state():
    parameter = torch.tensor([1.0, 1.0], requires_grad=True)
    optimizer = SignSGD(lr=0.25)([parameter])
    parameter.grad = torch.tensor([-5.0, 1e-9])
    optimizer.step()
    assert parameter.tolist() == [1.25, 0.75]
    assert optimizer.state_dict()["state"] == {}


def test_optimizers_keep_their_fields():
    made = SGD(lr=0.3, momentum=0.8, nesterov=False, weight_decay=0.01)([torch.zeros(1, requires_grad=True)])
    group = made.param_groups[0]
    assert (group["lr"], group["momentum"], group["nesterov"], group["weight_decay"]) == (0.3, 0.8, False, 0.01)
