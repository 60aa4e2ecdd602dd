import pytest
import torch

from holdfast.optim import OPTIMIZERS, SGD, Adam, AdamW, RMSProp, SignSGD


def quadratic_steps(optimizer, steps, start=(1.0, -2.0), scales=(1.0, 10.0)):
    """The path of an optimizer on the sum of s_i w_i^2 / 2, whose gradient is s_i w_i."""
    w = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    made, path = optimizer([w]), []
    for _ in range(steps):
        made.zero_grad()
        (torch.tensor(scales, dtype=torch.float64) * w.square() / 2).sum().backward()
        made.step()
        path.append(w.detach().clone())
    return torch.stack(path)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_goes_down_a_bowl(name):
    path = quadratic_steps(OPTIMIZERS[name](lr=0.01), 300)
    assert float(path[-1].norm()) < 0.3 * float(path[0].norm())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_learning_rate_is_where_a_schedule_looks_for_it(name):
    made = OPTIMIZERS[name](lr=0.07)([torch.zeros(1, requires_grad=True)])
    assert [group["lr"] for group in made.param_groups] == [0.07]


def test_sgd_by_hand():
    plain = SGD(lr=0.1, momentum=0.0, nesterov=False, weight_decay=0.0)
    path = quadratic_steps(plain, 2)
    torch.testing.assert_close(path, torch.tensor([[0.9, 0.0], [0.81, 0.0]], dtype=torch.float64))
    heavy = quadratic_steps(SGD(lr=0.1, momentum=0.5, nesterov=False, weight_decay=0.0), 2, (1.0,), (1.0,))
    torch.testing.assert_close(heavy[:, 0], torch.tensor([0.9, 0.9 - 0.1 * (0.5 + 0.9)], dtype=torch.float64))
    ahead = quadratic_steps(SGD(lr=0.1, momentum=0.5, nesterov=True, weight_decay=0.0), 1, (1.0,), (1.0,))
    torch.testing.assert_close(ahead[:, 0], torch.tensor([1 - 0.1 * 1.5], dtype=torch.float64))
    decayed = quadratic_steps(SGD(lr=0.1, momentum=0.0, nesterov=False, weight_decay=0.5), 1, (1.0,), (1.0,))
    torch.testing.assert_close(decayed[:, 0], torch.tensor([1 - 0.1 * 1.5], dtype=torch.float64))


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_the_first_step_of_adam_is_the_learning_rate_in_every_coordinate(kind):
    path = quadratic_steps(kind(lr=0.01, weight_decay=0.0), 1)
    torch.testing.assert_close(path[0], torch.tensor([0.99, -1.99], dtype=torch.float64))


def test_adamw_decays_the_weights_themselves():
    path = quadratic_steps(AdamW(lr=0.01, weight_decay=0.5), 1, scales=(0.0, 0.0))
    torch.testing.assert_close(path[0], torch.tensor([1.0, -2.0], dtype=torch.float64) * (1 - 0.01 * 0.5))


def test_rmsprop_by_hand():
    # v = (1 - .9) g^2, step = lr g / (sqrt(v) + 1e-8)
    path = quadratic_steps(RMSProp(lr=0.01, decay=0.9), 1)
    step = 0.01 / 0.1**0.5
    torch.testing.assert_close(path[0], torch.tensor([1 - step, -2 + step], dtype=torch.float64))


def test_sign_descent_steps_equally_far_in_every_coordinate():
    path = quadratic_steps(SignSGD(lr=0.25), 2)
    torch.testing.assert_close(path, torch.tensor([[0.75, -1.75], [0.5, -1.5]], dtype=torch.float64))


def test_sign_descent_with_momentum_follows_the_sign_of_the_running_mean():
    # w: 1 -> g 1, mean .1; then w = .75; after passing zero the mean keeps the old sign for a while.
    path = quadratic_steps(SignSGD(lr=0.6, momentum=0.9), 3, (1.0,), (1.0,))[:, 0]
    # means: .1, .09 + .04 = .13, .117 - .02 = .097: three steps down although the last gradient points up
    torch.testing.assert_close(path, torch.tensor([0.4, -0.2, -0.8], dtype=torch.float64))


def test_sign_descent_adds_decay_before_the_sign_and_skips_what_has_no_gradient():
    path = quadratic_steps(SignSGD(lr=0.5, weight_decay=0.1), 1, scales=(0.0, 0.0))
    torch.testing.assert_close(path[0], torch.tensor([0.5, -1.5], dtype=torch.float64))
    idle = torch.ones(2, requires_grad=True)
    SignSGD(lr=0.5)([idle]).step()
    assert idle.tolist() == [1, 1]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    ("fields", "message"), [({"lr": -0.1}, "lr must not be negative"), ({"weight_decay": -1.0}, "decay")]
)
def test_impossible_fields_are_refused(name, fields, message):
    with pytest.raises(ValueError, match=message):
        OPTIMIZERS[name](**fields)


def test_impossible_momenta_are_refused():
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        SGD(momentum=1.0)
    with pytest.raises(ValueError, match="nesterov needs a positive momentum"):
        SGD(momentum=0.0)
    with pytest.raises(ValueError, match=r"decay must lie in \[0, 1\)"):
        RMSProp(decay=1.0)
    with pytest.raises(ValueError, match=r"betas must lie in \[0, 1\)"):
        Adam(betas=(0.9, 1.0))


def test_adam_that_holds_collects_moments_first():
    weights = [torch.nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2)]
    patient, plain = Adam(lr=0.1, hold=3)([weights[0]]), Adam(lr=0.1)([weights[1]])
    for step in range(5):
        for weight, optimizer in zip(weights, (patient, plain), strict=True):
            weight.grad = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) * (step + 1)
            optimizer.step()
        if step < 3:
            assert weights[0].tolist() == [1.0, 1.0, 1.0]
    assert patient.param_groups[0]["lr"] == 0.1
    states = [optimizer.state[weight] for weight, optimizer in zip(weights, (patient, plain), strict=True)]
    assert torch.equal(states[0]["exp_avg"], states[1]["exp_avg"])
    assert torch.equal(states[0]["exp_avg_sq"], states[1]["exp_avg_sq"])
    assert not torch.equal(weights[0], torch.ones(3, dtype=torch.float64))


def test_the_hold_survives_a_checkpoint():
    weight = torch.nn.Parameter(torch.ones(2))
    first = Adam(lr=0.1, hold=3)([weight])
    for _ in range(2):
        weight.grad = torch.ones(2)
        first.step()
    second = Adam(lr=0.1, hold=3)([weight])
    second.load_state_dict(first.state_dict())
    weight.grad = torch.ones(2)
    second.step()
    assert weight.tolist() == [1.0, 1.0]
    weight.grad = torch.ones(2)
    second.step()
    assert weight.tolist() != [1.0, 1.0]


def test_unit_gradients_have_norm_one_over_all_weights():
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    optimizer = Adam(lr=0.1, unit_gradient=True)(weights)
    weights[0].grad, weights[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])
    optimizer.step()
    assert weights[0].grad.tolist() == pytest.approx([3 / 5.0001, 0.0])
    assert weights[1].grad.tolist() == pytest.approx([0.0, 4 / 5.0001])


def test_a_negative_hold_is_refused():
    with pytest.raises(ValueError, match="hold must not be negative, got -1"):
        Adam(hold=-1)
