import pytest
import torch
from scipy.fft import dctn, idctn

from holdfast.frequency import dct, dct_matrix, inverse_dct
from tests.zoo import images


@pytest.mark.parametrize("shape", [(8, 8), (5, 7), (1, 6), (28, 28)])
def test_is_the_orthonormal_transform_of_scipy(shape):
    x = images(3, (2, *shape))
    expected = torch.as_tensor(dctn(x.numpy(), axes=(-2, -1), norm="ortho"))
    torch.testing.assert_close(dct(x), expected)
    back = torch.as_tensor(idctn(x.numpy(), axes=(-2, -1), norm="ortho"))
    torch.testing.assert_close(inverse_dct(x), back)
    torch.testing.assert_close(inverse_dct(dct(x)), x)


@pytest.mark.parametrize("size", [1, 2, 9, 32])
def test_the_matrix_is_orthogonal_and_its_rows_are_frequencies(size):
    matrix = dct_matrix(size, torch.empty(0, dtype=torch.float64))
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size, dtype=torch.float64))
    assert ((matrix[:, 1:] * matrix[:, :-1]) < 0).sum(1).tolist() == list(range(size))  # changes of sign


def test_the_inverse_sometimes_printed_is_wrong():
    x = images(1, (8, 8))[0]
    matrix = dct_matrix(8, x)
    assert float((matrix @ dct(x) @ matrix.T - x).abs().max()) > 0.1


def test_follows_the_dtype_and_is_computed_in_float64():
    single = dct_matrix(64, torch.empty(0))
    assert single.dtype == torch.float32
    assert torch.equal(single, dct_matrix(64, torch.empty(0, dtype=torch.float64)).float())
