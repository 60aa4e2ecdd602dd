"""The contracts of holdfast as functions, for authors of plug-ins and for our own suite.

Each tries every promise of a family on one method: `check_attack(MyAttack(threat=Linf(8 / 255)))`. A broken promise is
an `AssertionError` that names it.
"""

from holdfast.testing.attack import check_attack
from holdfast.testing.certifier import check_certifier
from holdfast.testing.objective import check_objective
from holdfast.testing.question import check_question

__all__ = ["check_attack", "check_certifier", "check_objective", "check_question"]
