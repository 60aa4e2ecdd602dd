"""Small disks of our own: in a namespace that ends with this process, so that nothing stays mounted."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MARK = "HOLDFAST_CHAOS_NAMESPACE"
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def enter_namespace():
    """Begin this program anew where it may mount disks of its own; returns whether it may."""
    if MARK in os.environ:
        return True
    trial = [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which(UNSHARE[0]) is None or subprocess.run(trial, capture_output=True).returncode:
        return False
    os.environ[MARK] = "1"
    return os.execvp(UNSHARE[0], [*UNSHARE, *sys.orig_argv])


@dataclass(frozen=True)
class Disk:
    """A file system in memory.

    Args:
        path: where it is mounted.
    """

    path: Path

    def remount(self, options):
        """Change its size, or whether it can be written to."""
        subprocess.run(["mount", "-o", f"remount,{options}", self.path], check=True)


@contextmanager
def tmpfs(path, options):
    """A disk that is mounted in a directory for a while."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", path], check=True)
