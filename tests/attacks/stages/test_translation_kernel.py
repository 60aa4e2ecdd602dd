import math

import pytest
import torch

from holdfast.attacks.search import Aim
from holdfast.attacks.stages import Climb, TranslationKernel
from holdfast.attacks.stages.translation_kernel import blurred, gaussian, usual_size
from holdfast.errors import RecipeError
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.threat import Linf
from tests.zoo import images


def through(stage, x):
    aim = Aim.of(cross_entropy, torch.zeros(len(x), dtype=torch.int64), None)
    climb = Climb(lambda z: z, aim, Linf(0.1), 0.01, 10, x)
    return stage(lambda z: z, climb, Streams(0, "", len(x)))(x)


def test_the_kernel_is_the_published_one():
    # st.norm.pdf(np.linspace(-3, 3, 15)), normalised; the middle of the outer product, from scipy 1.17.
    kernel = gaussian(15, 3.0)
    assert kernel.sum().item() == pytest.approx(1.0, abs=1e-15)
    assert (kernel[7] / kernel[0]).item() == pytest.approx(math.exp(4.5))
    assert (kernel[7] ** 2).item() == pytest.approx(0.029302825115264705, abs=1e-15)
    assert torch.equal(kernel, kernel.flip(0))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_each_channel_is_averaged_alone_whatever_their_number(channels):
    # torchattacks and TransferAttack have groups=3, which fails on grey images.
    x, k = images(2, (channels, 6, 7)) - 0.5, gaussian(3, 2.0)
    expected = torch.zeros_like(x)
    for i in range(6):
        for j in range(7):
            for a in (-1, 0, 1):
                for b in (-1, 0, 1):
                    if 0 <= i + a < 6 and 0 <= j + b < 7:
                        expected[:, :, i, j] += k[a + 1] * k[b + 1] * x[:, :, i + a, j + b]
    torch.testing.assert_close(through(TranslationKernel(size=3, deviations=2.0), x), expected, rtol=0, atol=1e-14)


def test_the_size_grows_with_the_image_to_the_published_one():
    sides = {1: 1, 8: 3, 28: 5, 32: 5, 64: 9, 96: 9, 224: 15, 299: 15}
    assert {side: usual_size(side) for side in sides} == sides
    x = images(1, (1, 32, 32))
    assert torch.equal(through(TranslationKernel(), x), through(TranslationKernel(size=5), x))


def test_a_kernel_larger_than_the_image_is_refused_with_a_size_that_fits():
    with pytest.raises(RecipeError, match=r"expected a size of at most 8, .* got 15; without a size it is 3"):
        through(TranslationKernel(size=15), images(1, (1, 8, 9)))
    assert through(TranslationKernel(size=15), images(1, (1, 28, 28))).shape == (1, 1, 28, 28)


def test_lines_are_averaged_along_the_line():
    x, k = images(2, (9,)), gaussian(3, 3.0)
    padded = torch.nn.functional.pad(x, (1, 1))
    expected = k[0] * padded[:, :-2] + k[1] * padded[:, 1:-1] + k[2] * padded[:, 2:]
    torch.testing.assert_close(blurred(x, k), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("fields", [{"size": 4}, {"size": 0}, {"deviations": 0.0}, {"deviations": math.inf}])
def test_impossible_fields_are_refused(fields):
    with pytest.raises(ValueError, match="must be"):
        TranslationKernel(**fields)
