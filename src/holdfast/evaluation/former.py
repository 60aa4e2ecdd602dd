"""Results that an older version of a check left under the same label."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import LedgerError
from holdfast.evaluation.setting import Named
from holdfast.results.ledger import Ledger


def refuse_other_fields(ledger: Ledger, checks: Sequence[Named], weights: str) -> None:
    """Refuse to put results beside others of the same label and other fields, which a table would mix.

    A label has the fields that are not at their default, so the same label means the same check, unless the check has
    got a field, or another default, since the ledger was written.

    Args:
        ledger: where results are.
        checks: those about to run.
        weights: of the network in question.

    Raises:
        LedgerError: naming the first such check.
    """
    labels, keys = {check.label: check.params for check in checks}, {check.key for check in checks}
    for part in ledger.parts():
        if part.stem.rpartition("-")[0] in keys:
            continue
        for label, of, params in ledger.part(part.stem).head(1).select("check", "weights", "params").rows():
            if of == weights and labels.get(label, params) != params:
                raise LedgerError(
                    f"{ledger.path}: holds results of '{label}' with other fields than this version of holdfast gives "
                    f"it ({params}); delete all results with `holdfast evaluate RUN --fresh`, which keeps the weights"
                )
