"""Trust: can the numbers be believed? Verdicts on what makes them meaningless, each with its remedy.

Before attacks `audit.before` asks the network, with attacks `audit.audit`, and after them `from_rows` asks the ledger.
What needs no network is imported here and loads no torch.
"""

from holdfast.trust.chance import at_chance, better_than_chance
from holdfast.trust.consistency import from_rows
from holdfast.trust.store import forget_others, read_verdicts, stored, write_verdicts
from holdfast.trust.verdict import FLAGS, Evidence, Level, Verdict, displayed, failed, meaningless

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
