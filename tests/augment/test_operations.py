"""Simple operations, against Pillow on 8-bit images."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from holdfast.augment import operations
from holdfast.augment.operations import OPERATIONS, Drawn, Scale, apply_each, draw
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images


def photographs(count=4, side=32, channels=3):
    """Smooth 8-bit images with noise, so that histograms are neither flat nor empty."""
    noise = images(count, (channels, side, side), dtype=torch.float32)
    slope = torch.linspace(0.1, 0.8, side)
    return ((0.6 * slope * slope[:, None] + 0.3 * noise + 0.05) * 255).round() / 255


X = photographs()


def through_pillow(change, x=X):
    made = []
    for image in (x * 255).round().to(torch.uint8):
        grey = len(image) == 1
        picture = Image.fromarray((image[0] if grey else image.permute(1, 2, 0)).numpy())
        array = np.array(change(picture), np.float32)
        made.append(torch.from_numpy(array[None] if grey else array.transpose(2, 0, 1)) / 255)
    return torch.stack(made)


def moved(*matrix):
    return lambda image: image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)


# Operation, amount, what Pillow does, and by how many grey levels they may differ: Pillow rounds, or rounds off.
CASES = [
    ("identity", 0.0, lambda i: i, 0),
    ("equalize", 0.0, ImageOps.equalize, 0),
    ("posterize", 3.0, lambda i: ImageOps.posterize(i, 3), 0),
    ("posterize", 2.2, lambda i: ImageOps.posterize(i, 3), 0),
    ("solarize", 100 / 255, lambda i: ImageOps.solarize(i, 100), 0),
    ("autocontrast", 0.0, ImageOps.autocontrast, 1),
    ("brightness", 1.4, lambda i: ImageEnhance.Brightness(i).enhance(1.4), 1),
    ("contrast", 0.3, lambda i: ImageEnhance.Contrast(i).enhance(0.3), 1.5),
    ("colour", 1.7, lambda i: ImageEnhance.Color(i).enhance(1.7), 2),
    ("sharpness", 0.2, lambda i: ImageEnhance.Sharpness(i).enhance(0.2), 2),
    ("rotate", 25.0, lambda i: i.rotate(25, Image.Resampling.BILINEAR), 1),
    ("rotate", -100.0, lambda i: i.rotate(-100, Image.Resampling.BILINEAR), 1),
    ("shear_x", 0.3, moved(1, 0.3, 0, 0, 1, 0), 1),
    ("shear_y", -0.19, moved(1, 0, 0, -0.19, 1, 0), 1),
    ("translate_x", 5 / 32, moved(1, 0, 5, 0, 1, 0), 1),
    ("translate_y", -2.5 / 32, moved(1, 0, 0, 0, 1, -2.5), 1),
]


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize(("name", "amount", "pillow", "levels"), CASES, ids=[f"{c[0]} {c[1]:.2g}" for c in CASES])
def test_does_what_pillow_does(name, amount, pillow, levels, channels):
    x = X[:, :channels]
    z, expected = OPERATIONS[name](x, torch.full((len(x),), amount)), through_pillow(pillow, x)
    assert float((z - expected).abs().max()) * 255 <= levels + 1e-3
    if name != "identity" and not (name == "colour" and channels == 1):
        assert float((z - x).abs().max()) > 0.05


def test_every_operation_was_compared_with_pillow():
    assert {case[0] for case in CASES} == set(OPERATIONS)


def test_equalized_small_images_use_the_whole_range():
    x = (images(3, (1, 8, 8), dtype=torch.float32) * 50).round() / 255
    z = operations.equalize(x, torch.zeros(3))
    assert z.amin((1, 2, 3)).tolist() == [0, 0, 0]
    assert z.amax((1, 2, 3)).tolist() == [1, 1, 1]
    order = x.flatten(1).argsort(1)
    assert bool((z.flatten(1).gather(1, order).diff(dim=1) >= 0).all())  # the order of grey levels stays


@pytest.mark.parametrize("name", ["autocontrast", "equalize", "contrast", "sharpness"])
@pytest.mark.parametrize("value", [0.0, 100 / 255, 1.0])
def test_flat_images_stay_flat(name, value):
    x = torch.full((2, 3, 20, 20), value)
    torch.testing.assert_close(OPERATIONS[name](x, torch.tensor([0.5, 1.5])), x)


def test_amounts_of_nothing_change_nothing():
    ones, none = torch.ones(4), torch.zeros(4)
    for name in ("brightness", "contrast", "colour", "sharpness"):
        torch.testing.assert_close(OPERATIONS[name](X, ones), X)
    for name in ("rotate", "shear_x", "shear_y", "translate_x", "translate_y"):
        torch.testing.assert_close(OPERATIONS[name](X, none), X, rtol=0, atol=2e-6)


def test_amounts_run_from_low_to_high_and_to_the_other_side():
    strength, negative = torch.tensor([0.0, 0.5, 1.0, 1.0]), torch.tensor([True, False, False, True])
    assert Scale(8, 4).amount(strength, negative).tolist() == [8, 6, 4, 4]
    assert Scale(1, 1.5, signed=True).amount(strength, negative).tolist() == [1, 1.25, 1.5, 0.5]


def test_each_image_takes_its_own_operation():
    scales = {"identity": Scale(), "solarize": Scale(0, 1), "brightness": Scale(0, 2)}
    drawn = Drawn(torch.tensor([1, 2, 0, 1]), torch.tensor([0.0, 0.25, 0.9, 0.5]), torch.zeros(4, dtype=torch.bool))
    z = apply_each(X, scales, drawn)
    torch.testing.assert_close(z[0], 1 - X[0])
    torch.testing.assert_close(z[1], X[1] / 2)
    assert torch.equal(z[2], X[2])
    torch.testing.assert_close(z[3], torch.where(X[3] >= 0.5, 1 - X[3], X[3]))


def test_operations_strengths_and_signs_are_equally_likely():
    drawn = draw(Streams(0, "draw", 3000), 2, 5, torch.empty(3000, 1))
    assert drawn.choice.shape == (3000, 2)
    assert float((drawn.choice.flatten().bincount() / 6000 - 0.2).abs().max()) < chance.share_error(6000, 0.2, count=5)
    assert abs(float(drawn.negative.double().mean()) - 0.5) < chance.share_error(6000, 0.5)
    assert float(drawn.strength.mean()) == pytest.approx(0.5, abs=chance.deviations() / (12 * 6000) ** 0.5)
    assert float(torch.corrcoef(drawn.strength.T)[0, 1].abs()) < chance.deviations() / 3000**0.5
