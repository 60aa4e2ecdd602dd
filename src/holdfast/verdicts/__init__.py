"""Verdicts on whether a robustness number means something: the record, its rules, its place on disk.

Nothing here knows a model; `holdfast.audit` asks the model, and `from_rows` asks the ledger.
"""

from holdfast.verdicts.chance import at_chance, better_than_chance
from holdfast.verdicts.ledger import from_rows
from holdfast.verdicts.record import FLAGS, Evidence, Level, Verdict, displayed, failed, meaningless
from holdfast.verdicts.store import forget_others, read_verdicts, stored, write_verdicts

__all__ = [
    "FLAGS",
    "Evidence",
    "Level",
    "Verdict",
    "at_chance",
    "better_than_chance",
    "displayed",
    "failed",
    "forget_others",
    "from_rows",
    "meaningless",
    "read_verdicts",
    "stored",
    "write_verdicts",
]
