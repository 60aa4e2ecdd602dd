"""Loss around the parameters: closed forms on linear networks, and the network as it was."""

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.questions.flatness.measurement import directions, flatness
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests import chance
from tests.zoo import images, labels, normed, seeded, smooth


def squares(logits, y):
    """A loss that is quadratic in the parameters of a linear network."""
    return logits.square().sum(1)


def test_a_quadratic_loss_grows_with_the_square_of_the_distance():
    model = nn.Linear(8, 5, bias=False).double()
    with torch.no_grad():
        model.weight.zero_()
    x, y = torch.randn(64, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64), torch.zeros(64).long()
    levels = list(flatness(model, x, y, radii=[0.0, 1.0, 3.0], draws=400, loss=squares))
    # E |U x|^2 = |x|^2 / 8 for U uniform on the unit sphere of 5 x 8 matrices
    expected = x.square().sum(1).mean() / 8
    assert levels[0].losses == (0.0,)
    means = [sum(level.losses) / len(level.losses) for level in levels[1:]]
    assert chance.has_mean(levels[1].losses, float(expected))
    assert means[1] == pytest.approx(9 * means[0], rel=1e-9)  # the same directions


def test_directions_have_the_length_asked_for():
    parameters = dict(normed().named_parameters())
    together = directions(parameters, 3)
    assert sum(float(change.square().sum()) for change in together.values()) == pytest.approx(1)
    assert set(together) == set(parameters)
    by_filter = directions(parameters, 3, by_filter=True)
    assert set(by_filter) == {name for name, value in parameters.items() if value.dim() > 1}
    for name, change in by_filter.items():
        torch.testing.assert_close(change.flatten(1).norm(dim=1), parameters[name].detach().flatten(1).norm(dim=1))
    assert not torch.equal(directions(parameters, 4)["convolution.weight"], together["convolution.weight"])


def test_filter_lengths_make_networks_alike_that_differ_in_scale_alone():
    def network(scale):
        model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3))).double()
        with torch.no_grad():
            model[1].weight.mul_(scale)
            model[1].bias.mul_(scale)
            model[3].weight.div_(scale)
        return model

    x, y = images(20), labels(20, 3)
    plain, scaled = (list(flatness(network(s), x, y, radii=[0.5], draws=3, by_filter=True)) for s in (1, 10))
    assert plain[0].losses == pytest.approx(scaled[0].losses)
    plain, scaled = (list(flatness(network(s), x, y, radii=[0.5], draws=3)) for s in (1, 100))
    assert plain[0].losses != pytest.approx(scaled[0].losses, rel=1e-2)


def test_the_network_and_the_random_states_are_as_they_were():
    x, y = images(6), labels(6, 3)
    for model in (normed(), normed().train()):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        with same_random_states(), same_module(model), same_tensors(x, y):
            list(flatness(model, x, y, radii=[0.0, 2.0], draws=2))
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_at_distance_0_it_is_the_loss_in_evaluation_mode_and_batches_do_not_matter():
    model, x, y = normed().train(), images(10), labels(10, 3)
    (level,) = flatness(model, x, y, radii=[0.0], batch_size=3)
    model.eval()
    with torch.no_grad():
        logits = model(x)
    assert level.losses[0] == pytest.approx(float(nn.functional.cross_entropy(logits, y)))
    assert level.errors[0] == pytest.approx(float((logits.argmax(1) != y).double().mean()))
    whole, parts = (list(flatness(model, x, y, radii=[1.0], draws=2, batch_size=size)) for size in (10, 4))
    assert whole[0].losses == pytest.approx(parts[0].losses)


def test_bad_arguments_are_refused():
    with pytest.raises(ModelError, match="expected a network with parameters"):
        list(flatness(nn.Identity(), images(2), labels(2, 5), radii=[1.0]))
    for options in ({"radii": [-1.0]}, {"radii": [float("inf")]}, {"radii": [1.0], "draws": 0}):
        with pytest.raises(ValueError, match="draws must be at least 1 and radii finite from 0 on"):
            list(flatness(smooth(), images(2), labels(2, 5), **options))
