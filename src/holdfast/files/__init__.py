"""Files of runs: written whole or not at all, read only as they were written, and never through a link.

A file appears under its name at once: it is written under a random temporary name that nobody else can have made,
flushed to disk and renamed, and the directory is flushed as well. Before that its SHA-256 is appended to the
`checksums.txt` of its directory, in the format of `sha256sum`. So whatever a kill or a loss of power leaves has a
checksum there, and reading refuses content without one of those that belong to the name: what was never written there.
Once a file is there for the first time, a comment says so, and its absence is an error from then on. Files of versions
that kept no checksums are read as they are.
"""

from holdfast.files.checked import is_missing, missing_files, read_checked, require_unchanged
from holdfast.files.checksums import CHECKSUMS
from holdfast.files.names import safe_names
from holdfast.files.regular import read_regular, refuse_links, require_regular
from holdfast.files.writing import TEMPORARY, remove, remove_temporary, replacing, tidy, write_checked, write_together

__all__ = [
    "CHECKSUMS",
    "TEMPORARY",
    "is_missing",
    "missing_files",
    "read_checked",
    "read_regular",
    "refuse_links",
    "remove",
    "remove_temporary",
    "replacing",
    "require_regular",
    "require_unchanged",
    "safe_names",
    "tidy",
    "write_checked",
    "write_together",
]
