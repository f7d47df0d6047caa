"""The pages that users read, README.md and those in docs/, and the blocks of code in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
README: Final = "README.md"
# The specification, row by row: an internal page, which shows requests and bodies in its text only.
INTERNAL: Final = {"docs/requirements.md"}
SHELL: Final = "sh"
OUTPUT: Final = "text"
DIAGRAM: Final = "mermaid"

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"(?:^|\n\n) {4}(.*)")
# The first line of a block that is a file, or its next part: its path, in a comment. JSON has no comments.
_PATH: Final = re.compile(r"(?:#|//) (\S+\.\w+|Makefile)( \(continued\))?\n")
_WITHOUT_PATH: Final = {"json": "package.json"}


class Block(NamedTuple):
    """A fenced block. page: the path of its page from the root."""

    page: str
    language: str
    text: str

    @property
    def path(self) -> str:
        """Where the block is a file; empty if it is none."""
        if self.language in {SHELL, OUTPUT, DIAGRAM}:
            return ""
        found = _PATH.match(self.text)
        return _WITHOUT_PATH.get(self.language, "") if found is None else found[1]

    @property
    def is_continued(self) -> bool:
        """Whether the block is added to the end of its file."""
        found = _PATH.match(self.text)
        return found is not None and found[2] is not None

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


@cache
def pages() -> dict[str, str]:
    """The text of each page, by its path from the root."""
    found = (ROOT / README, *sorted((ROOT / "docs").rglob("*.md")))
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in found}
    return {page: text for page, text in texts.items() if page not in INTERNAL}


def blocks(page: str) -> list[Block]:
    return [Block(page, *found) for found in _BLOCK.findall(pages()[page])]


def indented_blocks(page: str) -> list[str]:
    """The first lines of code that is indented instead of fenced."""
    return _INDENTED.findall(_BLOCK.sub("", pages()[page]))
