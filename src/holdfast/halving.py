"""Work on many images, some at once: where memory runs out, the same piece is repeated with half as many.

For work whose results do not depend on how many images are taken at once, such as all evaluation. The work must keep
nothing of an attempt that failed; what it returns for a piece is taken in only afterwards.
"""

from __future__ import annotations

import gc
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from holdfast.errors import ModelError

Item = TypeVar("Item")
Result = TypeVar("Result")

MESSAGES = re.compile(
    r"out of memory|DefaultCPUAllocator: (not enough|can't allocate) memory|_STATUS_ALLOC_FAILED", re.IGNORECASE
)
"""What errors that are no `MemoryError` say: of CUDA, MPS and cuBLAS, and of torch's allocator on the CPU."""


@dataclass(frozen=True)
class Halved:
    """What became of the number of images at once.

    Args:
        before: with so many, memory ran out.
        after: work continues with so many, in this and in all later pieces.
    """

    before: int
    after: int

    def __str__(self) -> str:
        return f"out of memory with {self.before} images at once: continues with {self.after}, with the same results"


class BatchSize:
    """How many images are worked on at once: fewer from the moment that memory runs out, for all work that shares it.

    Args:
        size: to begin with.

    Attributes:
        size: now.
        limit: images that fit, noisy copies included; None as long as memory has sufficed.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.limit: int | None = None
        self._news: Halved | None = None

    def news(self) -> Halved | None:
        """The change of the size since the last call; None if there was none."""
        news, self._news = self._news, None
        return news

    def at_most(self, usual: int) -> int:
        """How many images to take at once where that is usually another number."""
        return usual if self.limit is None else min(usual, self.limit)

    def over(
        self,
        items: Sequence[Item],
        work: Callable[[Sequence[Item]], Result],
        *,
        finer: int = 1,
        usual: int | None = None,
    ) -> Iterator[tuple[Sequence[Item], Result]]:
        """Do the work on piece after piece.

        Args:
            items: one for each image.
            work: from a piece of the items to its result; it may be repeated with a shorter piece.
            finer: by how much the pieces are smaller than the size.
            usual: items of a piece as long as memory suffices, if that is another number than the size.

        Yields:
            Each piece with its result.

        Raises:
            ModelError: if memory does not suffice for a single image.
        """
        start = 0
        while start < len(items):
            length = math.ceil(self.size / finer) if usual is None else self.at_most(usual)
            piece = items[start : start + length]
            for result in self._attempted(partial(work, piece), len(piece), finer):
                yield piece, result
                start += len(piece)

    def attempt(self, work: Callable[[int], Result]) -> Result:
        """Do one piece of work that takes images by itself, at most as many at once as it gets for an argument.

        Raises:
            ModelError: if memory does not suffice for a single image.
        """
        while not (results := self._attempted(partial(work, self.size), self.size)):
            pass
        return results[0]

    def _attempted(self, work: Callable[[], Result], images: int, finer: int = 1) -> list[Result]:
        """The result, or none if memory ran out with so many images, of which only half are taken from now on."""
        try:
            return [work()]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            self._halve(images, finer, error)
        release_memory()  # out here, where the error keeps no tensors any more
        return []

    def _halve(self, failed: int, finer: int, error: Exception) -> None:
        """Go on with half of what failed."""
        if failed <= 1:
            line = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"out of memory with a single image ({line or type(error).__name__}); free memory, take another device "
                "(--device), or lower the fields that multiply images, such as samples or targets"
            ) from error
        self.limit = failed // 2
        self.size = min(self.size, self.limit * finer)
        self._news = Halved(failed if self._news is None else self._news.before, self.limit)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether the error, or one that it was raised from, reports that memory has run out."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and MESSAGES.search(str(error))):
            return True
        error = error.__cause__
    return False


def release_memory() -> None:
    """Give back what a failed attempt has left: objects in cycles, and what allocators of devices keep."""
    gc.collect()
    if torch := sys.modules.get("torch"):
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if torch.backends.mps.is_available():
            torch.mps.empty_cache()
