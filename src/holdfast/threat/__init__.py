"""Threat sets: balls of the three usual norms, or of a number of changed values, cut by the box [0, 1].

A threat knows its geometry, so that no attack asks which norm it has. `project` projects onto the ball first and onto
the box second. Since the centre is in the box, clipping only shortens a perturbation, so the result lies in both. For
`Linf` it is also the nearest point of the intersection; for `L2` and `L1` that point is `project_exact`, which costs a
sort. `L0`, a count, is no norm: it projects exactly, but is not convex, and attacks whose steps have a length refuse
it.
"""

from holdfast.families import THREATS
from holdfast.threat.l0 import L0
from holdfast.threat.l1 import L1
from holdfast.threat.l2 import L2, rescale_into_box
from holdfast.threat.linf import Linf
from holdfast.threat.radius import with_radius

__all__ = ["L0", "L1", "L2", "THREATS", "Linf", "rescale_into_box", "with_radius"]
