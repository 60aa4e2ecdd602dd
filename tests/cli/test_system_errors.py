"""What the operating system refuses is one line: where, what and a remedy."""

import errno
import os

import pytest

from holdfast.cli.system_errors import PASSING, REMEDIES, in_words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a"), "a: No space left on device; free some space"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device; free some space"),
        (OSError(errno.EROFS, "Read-only", b"a"), "a: Read-only; make it writable, or choose another directory"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a"), "a: File name too long; choose a shorter name"),
        (OSError(errno.EIO, "Input/output error", 7), "Input/output error; check the disk"),
        (OSError(errno.EXDEV, "Invalid cross-device link", "a", None, "b"), "a: Invalid cross-device link"),
        (OSError("strange"), "strange"),
        (OSError(), "OSError"),
    ],
)  # fmt: skip
def test_every_error_has_words(error, words):
    assert in_words(error) == words


def test_errors_that_pass_have_a_remedy():
    assert REMEDIES.keys() >= PASSING
    assert all(os.strerror(number) for number in REMEDIES)
