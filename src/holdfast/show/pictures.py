"""Pictures that need no script to be drawn: paths and words in a plane, and images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.show.figures import Key


@dataclass(frozen=True)
class Shape:
    """A path.

    Args:
        path: its attribute `d`.
        style: its class in the style sheet, empty for none.
        fill: its colour, where the style sheet has none.
        ink: number of a colour of the series; None for that of the style sheet.
        label: text under the pointer.
    """

    path: str
    style: str = ""
    fill: str = ""
    ink: int | None = None
    label: str = ""


@dataclass(frozen=True)
class Words:
    """Text in a picture.

    Args:
        text: the text.
        x: position in units of the picture.
        y: position of its base line.
        style: its class in the style sheet, empty for none.
    """

    text: str
    x: float
    y: float
    style: str = ""


@dataclass(frozen=True)
class Picture:
    """Shapes in the order in which they are drawn, with words on top.

    Args:
        description: what it shows, for those who do not see it.
        width: in its own units.
        height: in its own units.
        shapes: paths.
        words: texts.
        caption: line below it, empty for none.
    """

    description: str
    width: int
    height: int
    shapes: Sequence[Shape]
    words: Sequence[Words] = ()
    caption: str = ""


@dataclass(frozen=True)
class Panel:
    """Pictures side by side under one heading, beside charts; their numbers are in a table or in the answers.

    Args:
        title: heading.
        style: class in the style sheet that says how shapes look.
        pictures: the pictures.
        keys: legend.
    """

    title: str
    style: str
    pictures: Sequence[Picture]
    keys: Sequence[Key] = ()


@dataclass(frozen=True)
class Photo:
    """Images side by side under one caption.

    Args:
        images: a data URI and what it shows, of each.
        caption: what they are.
        mark: a word that stands out beside the caption, empty for none.
        note: a smaller line below it, empty for none.
    """

    images: Sequence[tuple[str, str]]
    caption: str
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Photos:
    """Images with captions; neither a terminal nor a machine sees them.

    Args:
        photos: the images.
        style: how large they are: that of a gallery, or of a strip.
    """

    photos: Sequence[Photo]
    style: Literal["pictures", "strip"] = "pictures"
