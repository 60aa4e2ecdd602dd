"""The question of how steep a network is: Lipschitz bounds, norms of its weights, and local slopes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.questions.answers import Answers
from holdfast.questions.presenting import answered, number
from holdfast.questions.question import Context, Material, Needs, Prepared, Record
from holdfast.show.items import Details, Item, Note
from holdfast.show.numbers import short
from holdfast.show.table import Cell, Table
from holdfast.statistics import spread

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.types import Classifier

IMAGES = 1_000
"""Images whose slopes are averaged, at most."""
ROUNDING = 1e-9
"""By how much the slopes of a linear network may lie above its bound, relative to it, because both are rounded."""
EXPLANATION = (
    "How much the network can amplify a change of its input. The product takes the norm of each layer by itself; the "
    "bound counts neighbouring linear layers as one; the lower bound is the steepest slope that a "
    "search found. The truth lies between the last two, and bounds of networks of different kinds do not compare. "
    "Local slopes are about images: the mean gradient norm of the loss, and, as a median over images that are right, "
    "the gradient norm of the margin divided by the margin: the inverse of the distance to the boundary in first order."
)


@dataclass(frozen=True, kw_only=True)
class Lipschitz:
    r"""Lipschitz constants: bounds over all inputs, norms of the weights, and slopes at images.

    .. math:: K_{\text{lower}} \le \sup_{x, z} \frac{\|f(x) - f(z)\|_p}{\|x - z\|_p}
              \le K_{\text{bound}} \le \prod_l \|A_l\|_p,
              \qquad \|\theta\|_2, \qquad \|\nabla_x \ell\|_q, \qquad \|\nabla_x m\|_q / m

    :math:`m` is the margin of the label's logit and :math:`q` the dual of :math:`p`. Weights are those of layers,
    without biases and scales of normalisations.

    Args:
        norm: :math:`p`, of changes of images and logits.
        lower_steps: steps of the search for the lower bound; 0 for none.
        starts: images that the search starts from.

    Reference:
        Ma, Pan, Farahmand, Understanding the robustness difference between stochastic gradient descent and adaptive
        gradient methods, TMLR 2023, arXiv:2308.06703, section 5 (table 4.1 of Ma's thesis has the product).
    """

    title: ClassVar = "Lipschitz constants"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    norm: Literal["l1", "l2", "linf"] = "l2"
    lower_steps: int = 20
    starts: int = 16

    def __post_init__(self) -> None:
        if self.lower_steps < 0 or self.starts < 1:
            raise ValueError(
                f"lower_steps must be at least 0 and starts at least 1, got {self.lower_steps} and {self.starts}"
            )

    def prepared(self, context: Context) -> Prepared:
        """The same question, about as many images as a mean needs."""
        return Prepared(self, examples=IMAGES)

    def count(self, material: Material) -> int:
        """One record."""
        return 1

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Bounds of the whole network, and means over images."""
        yield {**_bounds(self, material), "weights": weight_norm(material.model), **_slopes(self.norm, material)}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """A row for each network, and what each layer contributes."""
        if some := answered(answers):
            yield EXPLANATION
            records = [(name, answer.records[0]) for name, answer in some]
            yield from (Note(f"{name}: {one['refused']}", "missing") for name, one in records if one["refused"])
            yield _table(records)
            if layers := [_layers(name, one) for name, one in records if one["layers"]]:
                yield Details("Norms of the layers", layers)


def _bounds(question: Lipschitz, material: Material) -> dict[str, Any]:
    """Product, bound and lower bound; of a network without a bound, why it has none."""
    from holdfast.errors import ModelError
    from holdfast.lipschitz import lipschitz_bound

    few, lower = material.x[: question.starts], _steepest(question, material)
    try:
        product = lipschitz_bound(material.model, few, norm=question.norm, merge=False)
        upper = lipschitz_bound(material.model, few, norm=question.norm).upper
    except ModelError as error:
        return {"product": None, "upper": None, "lower": lower, "layers": [], "refused": str(error)}
    if lower is not None and lower <= (1 + ROUNDING) * upper:
        lower = min(lower, upper)
    layers = [asdict(layer) for layer in product.layers]
    return {"product": product.upper, "upper": upper, "lower": lower, "layers": layers, "refused": ""}


def _steepest(question: Lipschitz, material: Material) -> float | None:
    """The steepest slope around the first images; None if none is searched for."""
    from holdfast.lipschitz import lipschitz_lower

    if not question.lower_steps:
        return None
    starts = min(question.starts, len(material.x))
    pieces = [slice(n, min(n + material.batch_size, starts)) for n in range(0, starts, material.batch_size)]
    return max(
        lipschitz_lower(
            material.model, material.x[rows], norm=question.norm, steps=question.lower_steps, rng=material.rng[rows]
        )
        for rows in pieces
    )


def weight_norm(model: Classifier) -> float:
    """The Euclidean norm of all weights of layers, which are the parameters of two or more dimensions."""
    import torch

    weights = model.parameters() if isinstance(model, torch.nn.Module) else ()
    return math.sqrt(sum(float(one.detach().double().square().sum()) for one in weights if one.dim() > 1))


def _slopes(norm: str, material: Material) -> dict[str, Any]:
    """The mean gradient norm of the loss, and the median of the margin's, relative to the margin."""
    import torch

    from holdfast.gradients import input_gradient
    from holdfast.losses import cross_entropy, margin

    losses, relative = [], []
    for rows in range(0, len(material.x), material.batch_size):
        x, y = (values[rows : rows + material.batch_size] for values in (material.x, material.y))
        losses.append(_dual(input_gradient(cross_entropy, material.model, x, y)[1], norm))
        violation, gradient, _ = input_gradient(margin, material.model, x, y)
        right = violation.double() < 0
        relative.append(_dual(gradient, norm)[right] / -violation.double()[right])
    every, some = torch.cat(losses), torch.cat(relative)
    return {
        "gradient": float(every.mean()), "gradient_half": spread(every.tolist()).half,
        "relative": float(some.quantile(0.5)) if len(some) else None, "images": len(every),
    }  # fmt: skip


def _dual(gradient: Tensor, norm: str) -> Tensor:
    """The norm that is dual to one of changes, of each image."""
    import torch

    order = {"l1": torch.inf, "l2": 2, "linf": 1}[norm]
    length: Tensor = torch.linalg.vector_norm(gradient.flatten(1).double(), order, dim=1)
    return length


def _table(records: Sequence[tuple[str, Record]]) -> Table:
    rows = []
    for name, record in records:
        upper, lower = record["upper"], record["lower"]
        gap = upper / lower if upper is not None and lower else None
        half = record["gradient_half"]
        note = "" if half is None else f"± {short(half)}"
        gradient = Cell(short(record["gradient"]), note, value=record["gradient"])
        cells = [number(record["product"]), number(upper), number(lower), number(gap), number(record["weights"])]
        rows.append((name, [*cells, gradient, number(record["relative"])]))
    columns = (
        "Product of layers", "Bound", "Lower bound", "Bound over lower", "Norm of weights", "Mean gradient norm",
        "Margin's gradient over margin",
    )  # fmt: skip
    return Table("Lipschitz constants, weights and slopes", "Network", columns, rows)


def _layers(name: str, record: Record) -> Table:
    rows = [(f"{layer['name']} ({layer['kind']})", [number(layer["norm"])]) for layer in record["layers"]]
    return Table(name, "Layer", ["Norm"], rows)
