"""Audit: can the number that an attack gives be trusted?

`before` asks the model without attacking it, `audit` attacks it as well, `after` reads what a ledger says.
"""

from holdfast.audit.conduct import after, audit, before

__all__ = ["after", "audit", "before"]
