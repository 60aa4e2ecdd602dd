"""Which code raised an error: holdfast and its libraries, or a method that a recipe brings."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import holdfast

OWN = Path(holdfast.__file__).resolve().parent
LIBRARIES = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def third_party_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost place in code that holdfast called and that is neither its own nor that of an installed library.

    None where holdfast called no such code, as for errors of its own.
    """
    frames = [(frame, Path(frame.filename).resolve()) for frame in traceback.extract_tb(error.__traceback__)]
    start = next((place for place, (_, file) in enumerate(frames) if file.is_relative_to(OWN)), len(frames))
    called = [frame for frame, file in frames[start:] if not any(map(file.is_relative_to, (OWN, *LIBRARIES)))]
    return next((frame for frame in reversed(called) if not frame.filename.startswith("<frozen")), None)
