"""Data sets as tensors of images in [0, 1]: one file per source format, one name per published data set."""

from __future__ import annotations

from holdfast.data.cifar import Cifar10, Cifar100
from holdfast.data.dataset import Dataset, Source, Split, channel_statistics, checked, first, split_validation, subset
from holdfast.data.digits import Digits
from holdfast.data.emnist import Emnist
from holdfast.data.fetch import Progress, fetch
from holdfast.data.files import FILES, File
from holdfast.data.folder import Folder
from holdfast.data.hierarchies import Grouping
from holdfast.data.idx import Idx
from holdfast.data.memory import Memory
from holdfast.data.npy import Npy
from holdfast.data.npz import Npz, write_npz
from holdfast.data.roots import data_root, resolve
from holdfast.data.selected import Selected
from holdfast.data.svhn import Svhn
from holdfast.data.wav_folder import WavFolder
from holdfast.data.waveforms import Waveforms
from holdfast.families import DATASETS, HIERARCHIES

__all__ = [
    "DATASETS",
    "FILES",
    "HIERARCHIES",
    "Cifar10",
    "Cifar100",
    "Dataset",
    "Digits",
    "Emnist",
    "File",
    "Folder",
    "Grouping",
    "Idx",
    "Memory",
    "Npy",
    "Npz",
    "Progress",
    "Selected",
    "Source",
    "Split",
    "Svhn",
    "WavFolder",
    "Waveforms",
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
