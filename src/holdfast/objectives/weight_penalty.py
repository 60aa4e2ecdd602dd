"""An L1 penalty on the weights, beside any objective."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from holdfast.types import Terms


def with_l1(terms: Terms, parameters: Iterable[Tensor], weight: float) -> Terms:
    r"""The same terms and :math:`\lambda \|\theta\|_1` over all parameters that are trained.

    Args:
        terms: of the objective.
        parameters: of the network.
        weight: :math:`\lambda`; 0 leaves the terms as they are.
    """
    if weight == 0:
        return terms
    norm = sum(parameter.abs().sum().to(terms.total) for parameter in parameters if parameter.requires_grad)
    penalty = weight * (norm + terms.total.new_zeros(()))
    return Terms(terms.total + penalty, {**terms.parts, "l1": penalty})
