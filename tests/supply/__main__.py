"""`python -m tests.supply [DIRECTORY]`: write what the default install contains, from installed metadata alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.supply.inventory import NotInstalledError, closure, of_project, requirements
from tests.supply.sbom import bill, licence_list


def main(directory: Path) -> None:
    """Write `sbom.cdx.json` and `licences.md`."""
    try:
        project, components = of_project(), closure(requirements())
    except NotInstalledError as error:
        sys.exit(f"sbom: {error} is not installed; run `pip install -c constraints.txt -e .` first")
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "sbom.cdx.json": json.dumps(bill(project, components), indent=2, sort_keys=True) + "\n",
        "licences.md": licence_list(project, components),
    }
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
        print(f"{directory / name}: {len(components)} packages")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
