"""The files of each published data set, with their sizes and digests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """A file to download.

    Args:
        url: official address; its last part is the file's name.
        size: bytes.
        sha256: digest in hexadecimal.
    """

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.url.rsplit("/", 1)[1]


_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FASHION = "https://fashion-mnist.s3.eu-central-1.amazonaws.com"  # the authors' bucket; its website has no https
_KMNIST = "https://codh.rois.ac.jp/kmnist/dataset/kmnist"
_EMNIST = "https://biometrics.nist.gov/cs_links/EMNIST"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_SVHN = "https://ufldl.stanford.edu/housenumbers"

# Sizes and digests are those that TensorFlow Datasets publishes (its url_checksums directory).
FILES: dict[str, tuple[File, ...]] = {
    "mnist": (
        File(
            f"{_MNIST}/train-images-idx3-ubyte.gz",
            9912422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        File(
            f"{_MNIST}/train-labels-idx1-ubyte.gz",
            28881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        File(
            f"{_MNIST}/t10k-images-idx3-ubyte.gz",
            1648877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        File(
            f"{_MNIST}/t10k-labels-idx1-ubyte.gz",
            4542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion_mnist": (
        File(
            f"{_FASHION}/train-images-idx3-ubyte.gz",
            26421880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        ),
        File(
            f"{_FASHION}/train-labels-idx1-ubyte.gz",
            29515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        ),
        File(
            f"{_FASHION}/t10k-images-idx3-ubyte.gz",
            4422102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        ),
        File(
            f"{_FASHION}/t10k-labels-idx1-ubyte.gz",
            5148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "kmnist": (
        File(
            f"{_KMNIST}/train-images-idx3-ubyte.gz",
            18165135,
            "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
        ),
        File(
            f"{_KMNIST}/train-labels-idx1-ubyte.gz",
            29497,
            "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
        ),
        File(
            f"{_KMNIST}/t10k-images-idx3-ubyte.gz",
            3041136,
            "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
        ),
        File(
            f"{_KMNIST}/t10k-labels-idx1-ubyte.gz",
            5120,
            "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
        ),
    ),
    "emnist": (
        File(f"{_EMNIST}/gzip.zip", 561753746, "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e"),
    ),
    "cifar10": (
        File(
            f"{_CIFAR}/cifar-10-binary.tar.gz",
            170052171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
    "cifar100": (
        File(
            f"{_CIFAR}/cifar-100-binary.tar.gz",
            168513733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
    "svhn": (
        File(
            f"{_SVHN}/train_32x32.mat",
            182040794,
            "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
        ),
        File(f"{_SVHN}/test_32x32.mat", 64275384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
    ),
}
"""Official files of each data set that can be fetched."""
