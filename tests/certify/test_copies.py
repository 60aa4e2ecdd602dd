"""Noisy copies in full passes: sums over them, and logits that are no numbers."""

import pytest
import torch

from holdfast.certify.copies import Copies
from holdfast.certify.noise import Gaussian
from holdfast.errors import ModelError
from holdfast.rng import Streams


def copies(model, x, *, sigma=0.25, batch=50):
    return Copies(model, x, Gaussian(sigma), Streams(0, "copies", len(x)), batch)


def two_logits(z):
    return torch.stack((z.flatten(1)[:, 0], -z.flatten(1)[:, 0]), 1)


def test_a_row_of_logits_is_no_number_if_one_of_them_is_nan():
    def broken(z):
        return torch.where((z > 5) & (torch.arange(2) == 0), torch.nan, two_logits(z))

    x = torch.tensor([[0.0], [10.0], [5.0]])  # of the third about half
    with pytest.raises(ModelError, match=r"NaN for 1 of 2 examples, first at row 1 of the batch \(300 of 300 noisy co"):
        copies(broken, x[:2]).sums(300, lambda logits, owners: logits)
    with pytest.raises(ModelError, match=r"NaN for 2 of 3 examples, first at row 1 of the batch"):
        copies(broken, x).sums(300, lambda logits, owners: logits)
    with pytest.raises(ModelError, match=r"row 0 of the batch \(1\d\d of 300 noisy copies\)"):
        copies(broken, x[2:]).sums(300, lambda logits, owners: logits)


def test_sums_are_over_all_copies_of_each_image():
    x = torch.tensor([[0.0], [3.0]], dtype=torch.float64)
    ones = copies(two_logits, x).sums(130, lambda logits, owners: torch.ones_like(logits))
    assert ones.tolist() == [[130, 130], [130, 130]]
    sums = copies(two_logits, x, sigma=1e-9).sums(130, lambda logits, owners: torch.stack((logits[:, 0], owners), 1))
    torch.testing.assert_close(sums, torch.tensor([[0.0, 0.0], [390.0, 130.0]], dtype=torch.float64))


def test_later_sums_are_over_other_copies():
    noise = copies(two_logits, torch.zeros(1, 1, dtype=torch.float64))
    first, second = (noise.sums(64, lambda logits, owners: logits) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("images", "n"), [(0, 5), (2, 0)])
def test_sums_over_nothing_are_refused(images, n):
    with pytest.raises(ValueError, match=f"expected images and copies to sum over; got {images} and {n}"):
        copies(two_logits, torch.zeros(images, 1)).sums(n, lambda logits, owners: logits)
