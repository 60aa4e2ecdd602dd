"""Files that once broke a reader, by the name of the reader: `corpus/<name>/`, with hyphens for spaces."""

from pathlib import Path

from tests.fuzz.targets import TARGETS

PLACE = Path(__file__).parent / "corpus"
FILES = {name: files for name in TARGETS if (files := sorted((PLACE / name.replace(" ", "-")).glob("*")))}
