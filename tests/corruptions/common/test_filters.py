import numpy as np
import pytest
import torch
from scipy import ndimage, signal

from holdfast.corruptions.common import filters
from holdfast.corruptions.common.filters import correlate, enlarge_centre, smooth
from tests.zoo import images

X = images(2, (3, 19, 26))


@pytest.mark.parametrize("border", ["nearest", "reflect"])
@pytest.mark.parametrize(("sigma", "truncate"), [(0.7, 4), (1.5, 3), (3.1, 4), (30, 3)])
def test_smoothing_is_that_of_scipy_with_narrow_and_wide_kernels(sigma, truncate, border):
    expected = ndimage.gaussian_filter(X.numpy(), (0, 0, sigma, sigma), truncate=truncate, mode=border)
    np.testing.assert_allclose(smooth(X, sigma, truncate=truncate, border=border).numpy(), expected, atol=1e-12)


def test_shifted_lines_and_matrices_are_the_same_smoothing(monkeypatch):
    lines = smooth(X, 2.0)
    monkeypatch.setattr(filters, "NARROW", 0)
    torch.testing.assert_close(smooth(X, 2.0), lines)


def test_smoothing_by_less_than_a_pixel_reaches_none():
    assert smooth(X, 0.1) is X
    assert smooth(X, 0.0) is X


@pytest.mark.parametrize("count", [1, 2])
def test_correlation_has_a_kernel_for_each_image(count):
    x, kernel = X[:count], images(count, (1, 4, 7), seed=2)
    expected = [
        [signal.correlate2d(plane, k[0], mode="valid") for plane in image] for image, k in zip(x, kernel, strict=True)
    ]
    np.testing.assert_allclose(correlate(x, kernel).numpy(), np.array(expected), atol=1e-12)
    torch.testing.assert_close(correlate(x[:1, :1], kernel[:1]), correlate(x, kernel)[:1, :1], rtol=0, atol=0)


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.13, 1.75, 2.5, 4.5])
@pytest.mark.parametrize("shape", [(32, 32), (19, 26)])
def test_enlargement_is_the_centre_zoomed_by_scipy(shape, factor):
    plane = images(1, (1, *shape))
    kept = [int(np.ceil(size / factor)) for size in shape]
    first = [(size - part) // 2 for size, part in zip(shape, kept, strict=True)]
    centre = plane[0, 0, first[0] : first[0] + kept[0], first[1] : first[1] + kept[1]].numpy()
    # With its default border scipy sets the last line to 0 where rounding takes it outside.
    zoomed = ndimage.zoom(centre, factor, order=1, mode="nearest")
    cut = [(made - size) // 2 for made, size in zip(zoomed.shape, shape, strict=True)]
    expected = zoomed[cut[0] : cut[0] + shape[0], cut[1] : cut[1] + shape[1]]
    np.testing.assert_allclose(enlarge_centre(plane, factor)[0, 0].numpy(), expected, atol=1e-12)
