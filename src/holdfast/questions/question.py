"""What a question is: fields, a measurement, and one presentation for every medium. Nothing here needs torch."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from holdfast.checks import Check
    from holdfast.data.dataset import Split
    from holdfast.questions.answers import Answers
    from holdfast.rng import Streams
    from holdfast.show.items import Item
    from holdfast.types import Classifier

Record = Mapping[str, Any]
"""Plain values by name: numbers, texts, and arrays as nested lists, whose axes the question names."""


class Needs(enum.Enum):
    """What a question is asked about."""

    NETWORK = "a network and test images"
    NETWORKS = "several networks and test images"
    DATA = "a data set alone"
    ROWS = "stored results alone"
    NOTHING = "neither a network nor data: a model of theory"

    @property
    def network(self) -> bool:
        """Whether a network is needed."""
        return self in (Needs.NETWORK, Needs.NETWORKS)


@runtime_checkable
class Question(Protocol):
    """A frozen dataclass whose fields are recipe keys, options of the command line and stored settings.

    Its docstring is the help: the first line states what is measured, `Args:` describes every field. Its module must
    not import torch, so that reports and `--help` start quickly; measuring does. It is measured by itself or by what
    `Preparing.prepared` returns, which is `PerExample` or `InRecords`.
    """

    title: ClassVar[str]
    """Heading of the answers."""

    needs: ClassVar[Needs]
    """What it is asked about."""

    @staticmethod
    def present(answers: Answers) -> Iterable[Item]:
        """Tables, charts and sentences about the answers of one or several runs, for every medium."""
        ...


@runtime_checkable
class PerExample(Protocol):
    """A measurement with columns that have a value for each example, made batch by batch."""

    columns: ClassVar[Mapping[str, str]]
    """What each column holds, by name."""

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """The columns of a batch, (N,) or (N, ...); none may depend on how examples are grouped into batches."""
        ...


@runtime_checkable
class InRecords(Protocol):
    """A measurement with a few records, each about all examples or about one, such as the loss at one distance."""

    axes: ClassVar[Mapping[str, tuple[str, ...]]]
    """Names of the axes of the arrays in a record."""

    def count(self, material: Material) -> int:
        """How many records there will be."""
        ...

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """The records that follow the earlier ones, each as soon as it is complete."""
        ...


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a measurement in records is made on.

    Args:
        model: the network, in evaluation mode.
        x: all images, on the device of the network.
        y: their labels.
        index: their indices in the test split.
        rng: random streams of the images.
        seed: seed of what is drawn once for all images.
        batch_size: images of a forward pass, on which no record may depend beyond rounding.
    """

    model: Classifier
    x: Tensor
    y: Tensor
    index: Tensor
    rng: Streams
    seed: int
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a question may look at before it measures: the run and its data.

    Args:
        model: the network.
        weights_hash: first digits of the SHA-256 of its weights.
        recipe: the run's recipe as plain values; empty for a network from elsewhere.
        checks: the checks of the run, in their order.
        test: the test images it is asked about.
        train: the training images of the run; None where it has none.
        classes: names of the classes.
        seed: of the run.
        load: reads the network of another run or weights file, onto the same device, and checks that it fits.
        describe: method, label and parameters of a check, as in the ledger.
    """

    model: Classifier
    weights_hash: str
    recipe: Mapping[str, Any]
    checks: Sequence[Check]
    test: Split
    train: Split | None
    classes: Sequence[str]
    seed: int
    load: Callable[[Path], Companion]
    describe: Callable[[Check], tuple[str, str, str]]


@dataclass(frozen=True)
class Companion:
    """Another network that a question compares or mixes with the one it is asked about.

    Args:
        model: the network, on the same device and in evaluation mode.
        name: of its run.
        weights_hash: first digits of the SHA-256 of its weights.
    """

    model: nn.Module
    name: str
    weights_hash: str


@dataclass(frozen=True)
class Prepared:
    """A question whose defaults are filled in.

    Args:
        measurement: what measures, with all that it needs beside the network and the images.
        settings: fields of the question that were filled in, and what else distinguishes the answer from others, such
            as hashes of other networks; stored with the answer beside the fields of the question.
        block: examples of a block at most, None for the usual number.
        examples: images it is asked about at most, balanced over the classes and alike for all seeds; None for all.
    """

    measurement: PerExample | InRecords
    settings: Mapping[str, Any] = field(default_factory=dict)
    block: int | None = None
    examples: int | None = None


@runtime_checkable
class Preparing(Question, Protocol):
    """A question that looks at the run first: for defaults from its recipe, other networks or training images.

    One that takes networks of other runs has their paths in a property `sources`, so that the user is asked about the
    code that these name before any work.
    """

    def prepared(self, context: Context) -> Prepared:
        """What measures, and the settings that were filled in."""
        ...
