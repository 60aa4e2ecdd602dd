import copy
import pickle

import pytest
import torch
from torch import nn

from holdfast.models import Network, Normalise, build, normalised
from holdfast.models.linear import Linear


def test_normalise_works_per_channel_and_is_saved():
    layer = Normalise([0.5, 0.25], [0.5, 2.0])
    x = torch.tensor([1.0, 0.75]).view(1, 2, 1, 1).expand(3, 2, 4, 5)
    torch.testing.assert_close(layer(x)[:, 0], torch.ones(3, 4, 5))
    torch.testing.assert_close(layer(x)[:, 1], torch.full((3, 4, 5), 0.25))
    assert set(layer.state_dict()) == {"mean", "std"}


def test_saved_normalisation_replaces_that_of_the_new_network():
    old, new = (Network([nn.Flatten()], nn.Identity(), channels=1, features=4, classes=2) for _ in range(2))
    old.normalise = Normalise([0.5], [1.0])
    new.load_state_dict(old.state_dict())
    x = torch.rand(3, 1, 2, 2)
    assert torch.equal(old(x), new(x))


def test_normalised_puts_the_normalisation_in_front_of_a_foreign_network():
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    x = torch.rand(5, 3, 2, 2)
    model = normalised(network, [0.5, 0.5, 0.5], [0.25, 0.25, 0.25])
    torch.testing.assert_close(model(x), network((x - 0.5) / 0.25))


def test_one_number_is_for_all_channels_and_the_precision_is_that_of_the_network():
    x = torch.rand(2, 3, 2, 2, dtype=torch.float64)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).double()
    model = normalised(network, 0.5, [0.25, 0.5, 1.0])
    assert torch.equal(model(x), network((x - 0.5) / torch.tensor([0.25, 0.5, 1.0]).double().view(3, 1, 1)))
    assert model.normalise.mean.dtype == torch.float64
    assert torch.equal(normalised(network.__call__, 0.5, [0.25, 0.5, 1.0])(x), model(x))
    for refused in ((0.5, 0.0), (float("nan"), 1.0), ([0.5, 0.5], [1.0] * 3)):
        for classifier in (network, network.__call__):
            with pytest.raises(ValueError, match="normalise: "):
                normalised(classifier, *refused)


def test_normalised_shows_what_the_network_behind_it_shows():
    network = Network([nn.Flatten(), nn.ReLU()], nn.Identity(), channels=1, features=4, classes=2)
    model, x = normalised(network, [0.5], [0.25]), torch.rand(3, 1, 2, 2)
    z = (x - 0.5) / 0.25
    torch.testing.assert_close([*model.stages(x)], [*network.stages(z)])
    twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    torch.testing.assert_close(model.first_maps(x), network.first_maps(z))
    assert copy.copy(model).stages.__self__ is not model
    twin.normalise.mean.zero_()
    torch.testing.assert_close([*twin.stages(x)], [*network.stages(x / 0.25)])  # its own normalisation
    torch.testing.assert_close(model.head(model.features(x)), model(x))
    assert set(model.state_dict()) == {f"network.{name}" for name in network.state_dict()} | {
        "normalise.mean",
        "normalise.std",
    }
    bare = normalised(nn.Flatten(), [0.5], [0.25])
    assert [name for name in ("stages", "features", "head") if hasattr(bare, name)] == []


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ([0.0], [1.0, 1.0], "1 means and 2 standard deviations"),
        ([0.0], [0.0], "must be positive"),
        ([0.0], [float("nan")], "must be positive"),
    ],
)
def test_normalise_refuses_what_cannot_be(mean, std, message):
    with pytest.raises(ValueError, match=message):
        Normalise(mean, std)


def test_network_wants_one_mean_per_channel_and_a_class():
    with pytest.raises(ValueError, match="1 means and 3 standard deviations for 3 channels"):
        build(Linear(), (3, 2, 2), 2, mean=[0.5])
    with pytest.raises(ValueError, match="classes must be at least 1, got 0"):
        Network([nn.Flatten()], nn.Identity(), channels=3, features=4, classes=0)
