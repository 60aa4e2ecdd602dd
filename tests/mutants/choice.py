"""Which mutants to run, against which tests: sampled evenly over the packages that carry promises."""

import ast
import functools
import itertools
import random
import re
import tomllib
from pathlib import Path

from tests.mutants.operators import mutants

SOURCE = Path("src/holdfast")
PACKAGES = (
    "lipschitz", "certify", "corruptions", "trust", "threat", "attacks", "training", "augment", "ensembles",
)  # fmt: skip
CONTRACTS = {"certify": "certifiers", "augment": "augmentations", "threat": "threats"}
"""Where the contracts of a package have another name."""

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def sample(root, chosen, seed):
    """Mutants of packages or files, one package after the other, in random order within each."""
    piles = [_shuffled(root, name, seed) for name in chosen]
    return [mutant for row in itertools.zip_longest(*piles) for mutant in row if mutant is not None]


def _shuffled(root, name, seed):
    place = root / SOURCE / name
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    if not all(file.is_file() for file in files):
        raise SystemExit(f"mutants: {name}: expected a package or file below {SOURCE}, there is none")
    pile = [m for file in files for m in mutants(str(file.relative_to(root)), file.read_bytes())]
    random.Random(f"{seed} {name}").shuffle(pile)
    return pile


def declared_equivalent():
    """What `equivalent.toml` declares: the reason of each (file, line, line of the mutant)."""
    entries = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(str(SOURCE / one["file"]), one["line"], one["becomes"]): one["reason"] for one in entries}


@functools.cache
def tests_of(root, file):
    """The test files of a source file, the likeliest to notice first.

    Those of its name, those that name what it defines, its contracts, and the rest of its package's.
    """
    package, *inner = Path(file).relative_to(SOURCE).with_suffix("").parts
    folder = root / "tests" / package
    available = sorted(folder.rglob("test_*.py"))
    own = [path for path in available if path.stem.removeprefix("test_") in inner]
    names = _public_names((root / file).read_text())
    naming = [path for path in available if path not in own and names & set(re.findall(r"\w+", path.read_text()))]
    rest = [path for path in available if path not in own and path not in naming]
    contracts = root / "tests/contracts" / f"test_{CONTRACTS.get(package, package)}.py"
    return tuple(str(path.relative_to(root)) for path in (*own, *naming, contracts, *rest) if path.is_file())


def _public_names(text):
    kinds = ast.FunctionDef | ast.ClassDef
    return {node.name for node in ast.parse(text).body if isinstance(node, kinds) and not node.name.startswith("_")}
