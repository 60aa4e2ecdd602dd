"""Attacks: each searches the threat set of every example for a point that the model gets wrong."""

from holdfast.attacks.aimed import Aimed
from holdfast.attacks.apgd import APGD
from holdfast.attacks.apgd_targeted import TargetedAPGD
from holdfast.attacks.art import ART
from holdfast.attacks.autoattack import AutoAttack
from holdfast.attacks.bim import BIM
from holdfast.attacks.boundary import Boundary
from holdfast.attacks.cw import CW, CWLinf
from holdfast.attacks.ddn import DDN
from holdfast.attacks.deepfool import DeepFool
from holdfast.attacks.eight_bit import EightBit
from holdfast.attacks.eot import EOT
from holdfast.attacks.fab import FAB
from holdfast.attacks.fgsm import FGSM
from holdfast.attacks.fmn import FMN
from holdfast.attacks.foolbox import Foolbox
from holdfast.attacks.hierarchical import Hierarchical
from holdfast.attacks.hierarchical_halving import HierarchicalHalving
from holdfast.attacks.hierarchical_pgd import HierarchicalPGD
from holdfast.attacks.hopskipjump import HopSkipJump
from holdfast.attacks.pgd import PGD
from holdfast.attacks.rfgsm import RFGSM
from holdfast.attacks.simba import SimBA
from holdfast.attacks.spsa import NES, SPSA
from holdfast.attacks.square import Square
from holdfast.attacks.starting import StartingFrom
from holdfast.attacks.targeted import Targeted
from holdfast.attacks.torchattacks import Torchattacks
from holdfast.attacks.transfer import Transfer, Transferred
from holdfast.attacks.transfer_loop import TransferLoop
from holdfast.families import ATTACKS

__all__ = [
    "APGD",
    "ART",
    "ATTACKS",
    "BIM",
    "CW",
    "DDN",
    "EOT",
    "FAB",
    "FGSM",
    "FMN",
    "NES",
    "PGD",
    "RFGSM",
    "SPSA",
    "Aimed",
    "AutoAttack",
    "Boundary",
    "CWLinf",
    "DeepFool",
    "EightBit",
    "Foolbox",
    "Hierarchical",
    "HierarchicalHalving",
    "HierarchicalPGD",
    "HopSkipJump",
    "SimBA",
    "Square",
    "StartingFrom",
    "Targeted",
    "TargetedAPGD",
    "Torchattacks",
    "Transfer",
    "TransferLoop",
    "Transferred",
]
