import torch

from holdfast.models.layers import quiet
from holdfast.models.preactresnet import PreActivation, PreActResNet


def block(inputs, outputs, stride, **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = PreActivation(inputs, outputs, stride, "none", "relu", **options)
    quiet(made.branch, 1)
    return made


def test_identity_shortcut_carries_the_input_before_its_activation():
    x = torch.linspace(-1, 1, 4 * 25).view(1, 4, 5, 5)
    assert torch.equal(block(4, 4, 1)(x), x)


def test_projection_shortcut_carries_the_activation():
    x = torch.linspace(-1, 1, 4 * 25).view(1, 4, 5, 5)
    made = block(4, 8, 2)
    torch.testing.assert_close(made(x), made.shortcut(x.relu()))
    assert made(x).shape == (1, 8, 3, 3)


def test_projection_of_the_raw_input_is_an_option_of_all_blocks():
    x = torch.linspace(-1, 1, 4 * 25).view(1, 4, 5, 5)
    made = block(4, 8, 2, project_raw=True)
    torch.testing.assert_close(made(x), made.shortcut(x))
    assert not torch.allclose(made(x), made.shortcut(x.relu()))
    assert torch.equal(block(4, 4, 1, project_raw=True)(x), x)
    for raw in (False, True):
        model = PreActResNet(width=0.1, project_raw=raw)((3, 8, 8), 10)
        assert {module.project_raw for module in model.modules() if isinstance(module, PreActivation)} == {raw}
