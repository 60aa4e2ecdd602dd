import pytest
import torch

from holdfast.threat import Linf
from tests.zoo import images

X = torch.tensor([[0.0, 0.05, 0.5, 0.95, 1.0]], dtype=torch.float64)


def test_projection_by_hand():
    z = torch.tensor([[-1.0, 0.2, 0.45, 2.0, 0.85]], dtype=torch.float64)
    expected = torch.tensor([[0.0, 0.15, 0.45, 1.0, 0.9]], dtype=torch.float64)
    torch.testing.assert_close(Linf(0.1).project(z, X), expected)


def test_extreme_is_the_sign_step_clipped_to_the_box():
    grad = torch.tensor([[-1e-9, 5.0, 0.0, 1.0, -3.0]], dtype=torch.float64)
    expected = torch.tensor([[0.0, 0.15, 0.5, 1.0, 0.9]], dtype=torch.float64)
    torch.testing.assert_close(Linf(0.1).extreme(grad, X), expected)


def test_norm_and_dual_by_hand():
    z = X + torch.tensor([[0.0, 0.1, -0.3, 0.0, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(Linf(1.0).distance(z, X), torch.tensor([0.3], dtype=torch.float64))
    torch.testing.assert_close(Linf(1.0).dual(z - X), torch.tensor([0.6], dtype=torch.float64))


def test_project_is_the_exact_projection():
    x, z = images(10), 3 * images(10, seed=1) - 1
    assert torch.equal(Linf(0.1).project(z, x), Linf(0.1).project_exact(z, x))


def test_a_point_outside_the_box_within_eps_only_goes_to_the_box():
    z = torch.tensor([[-0.05, 0.0, 0.5, 1.0, 1.05]], dtype=torch.float64)
    assert Linf(0.1).project(z, X).tolist() == [[0.0, 0.0, 0.5, 1.0, 1.0]]


@pytest.mark.parametrize("eps", [8, 1.5, 255.0])
def test_grey_levels_instead_of_shares_are_refused_with_what_to_write(eps):
    with pytest.raises(ValueError, match=r"linf: eps must be at most 1, since images lie in \[0, 1\]; got .*8/255"):
        Linf(eps)
    assert Linf(1.0).eps == 1.0  # the whole box
