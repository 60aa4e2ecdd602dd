"""What the operating system refuses, in one line: where, what, and what to do about it."""

from __future__ import annotations

import errno
import os

READ_ONLY = "make it writable, or choose another directory"

REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "choose a disk that takes files of this size",
    errno.EROFS: READ_ONLY,
    errno.EACCES: "change its permissions, or choose another directory",
    errno.EPERM: "change its permissions, or choose another directory",
    errno.EIO: "check the disk",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "check the name, and that nobody deletes it meanwhile",
    errno.EEXIST: "choose another name",
    errno.ENOTDIR: "choose another name",
    errno.EISDIR: "choose another name",
    errno.ELOOP: "name a file or directory that is no symbolic link",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the limit of open files (ulimit -n)",
}
"""What the user can do, by the number of the error."""

PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT} | {
    errno.EMFILE,
    errno.ENFILE,
}
"""Errors after which the same command may succeed, once their cause is gone; others need another command."""


def in_words(error: OSError) -> str:
    """An error of the system: the file if it names one, what happened, and the remedy if there is one."""
    named = error.filename if error.filename is not None else error.filename2
    where = os.fsdecode(named) if isinstance(named, bytes | str) else None
    what = error.strerror or " ".join(map(str, error.args)) or type(error).__name__
    remedy = REMEDIES.get(error.errno or 0)
    return (f"{where}: " if where else "") + what + (f"; {remedy}" if remedy else "")
