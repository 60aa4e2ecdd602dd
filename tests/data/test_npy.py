"""CIFAR-10-C style files as data."""

import numpy as np
import pytest

from holdfast.data import Npy, resolve
from holdfast.errors import DataError


@pytest.fixture
def place(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "fog.npy", random.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8))
    np.save(tmp_path / "labels.npy", np.tile(np.array([0, 2, 1, 2]), 5))
    return tmp_path


def test_a_severity_is_a_fifth_of_the_file(place):
    stored = np.load(place / "fog.npy")
    whole = Npy(path=str(place / "fog.npy"))()
    assert (len(whole.test), whole.classes, whole.shape, whole.train) == (20, ("0", "1", "2"), (3, 6, 5), None)
    third = Npy(path=str(place / "fog.npy"), severity=3)()
    np.testing.assert_array_equal(third.test.x.numpy(), np.moveaxis(stored[8:12], 3, 1))
    assert third.test.y.tolist() == [0, 2, 1, 2]
    assert third.test.index.tolist() == [0, 1, 2, 3]


def test_a_path_names_it(place):
    assert resolve(str(place / "fog.npy")) == Npy(path=str(place / "fog.npy"))


def test_grey_images_get_a_channel(place):
    np.save(place / "fog.npy", np.zeros((20, 6, 5), np.uint8))
    assert Npy(path=str(place / "fog.npy"))().shape == (1, 6, 5)


def test_what_does_not_fit_is_refused(place):
    with pytest.raises(DataError, match="severity: expected 1 to 5, got 6"):
        Npy(path="fog.npy", severity=6)
    np.save(place / "snow.npy", np.zeros((19, 6, 5, 3), np.uint8))
    with pytest.raises(DataError, match=r"expected 5 n images and as many labels in labels.npy, got \(19, 6, 5, 3\)"):
        Npy(path=str(place / "snow.npy"))()
    (place / "rain.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"rain\.npy: expected a NumPy \.npy file"):
        Npy(path=str(place / "rain.npy"))()
    np.save(place / "mist.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(DataError, match="without pickled objects"):
        Npy(path=str(place / "mist.npy"))()
    (place / "labels.npy").unlink()
    with pytest.raises(DataError, match=r"labels\.npy: not found"):
        Npy(path=str(place / "fog.npy"))()
