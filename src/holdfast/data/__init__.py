"""Data sets as tensors of images in [0, 1]: one file per source format, one name per published data set."""

from __future__ import annotations

from holdfast.data.cifar import Cifar10, Cifar100
from holdfast.data.dataset import Dataset, Source, Split, channel_statistics, checked, first, split_validation, subset
from holdfast.data.digits import DIGITS, Digits
from holdfast.data.emnist import Emnist
from holdfast.data.fetch import Progress, fetch
from holdfast.data.files import FILES, File
from holdfast.data.folder import Folder
from holdfast.data.idx import FASHION, HIRAGANA, Idx
from holdfast.data.memory import Memory
from holdfast.data.npy import Npy
from holdfast.data.npz import Npz, write_npz
from holdfast.data.roots import data_root, resolve
from holdfast.data.svhn import Svhn

DATASETS: dict[str, Source | type[Source]] = {
    "cifar10": Cifar10(),
    "cifar100": Cifar100(),
    "digits": Digits(),
    "emnist": Emnist(),
    "fashion_mnist": Idx(name="fashion_mnist", classes=FASHION, elsewhere=("/usr/share/datasets/fashion-mnist",)),
    "folder": Folder,
    "kmnist": Idx(name="kmnist", classes=HIRAGANA),
    "mnist": Idx(name="mnist", classes=DIGITS),
    "npy": Npy,
    "npz": Npz,
    "svhn": Svhn(),
}
"""Sources by name: an instance to use or to `dataclasses.replace`, or the class where a path is needed."""

__all__ = [
    "DATASETS",
    "FILES",
    "Cifar10",
    "Cifar100",
    "Dataset",
    "Digits",
    "Emnist",
    "File",
    "Folder",
    "Idx",
    "Memory",
    "Npy",
    "Npz",
    "Progress",
    "Source",
    "Split",
    "Svhn",
    "channel_statistics",
    "checked",
    "data_root",
    "fetch",
    "first",
    "resolve",
    "split_validation",
    "subset",
    "write_npz",
]
