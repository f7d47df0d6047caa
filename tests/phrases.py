"""Refuses phrases that read as translated, in Python and Markdown: part of `make lint`.

`python -m tests.phrases [file or folder ...]` prints each of them with words that say the same.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
CHECKED: Final = (
    *("apiserver", "storage", "docs", "examples", "deploy"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
)
# Patterns of phrases, and what to write instead.
PHRASES: Final = {
    r"(is|are|was|were|be|been|being) (not )?told(?! apart)": "gets, sees, is reported",
    r"tells? (of|so)": "reports, notifies, is about",
    r"(un)?heed(s|ed|ing)?": "honors, follows, reads",
    r"(stands?|stood) (in(?! for)|at|on|above|after|alone|before|behind|between|first|last|where)": "is",
    r"whoever": "anyone who, the user or client that",
    r"((?-i:Who)|(and|by|from|of|to) who) (can|has|have|may|must|wants?)": "users who, clients that",
    r"ha(s|ve) not (a|an|any|in|it|of|the|to)": "does not have, need not",
    r"(is|are|was|were) what": "the noun first: X is …",
    r"of (its|their) own": "its own …, separate",
}
ALLOWED: Final[dict[str, str]] = {}  # texts with such a phrase that are right, and why
_PATTERNS: Final = [
    (re.compile(rf"\b{phrase}\b".replace(" ", r"\s+"), re.IGNORECASE), instead)
    for phrase, instead in PHRASES.items()
]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the texts in a Python file, or the prose in a Markdown file, each with its line."""
    content = path.read_text()
    if path.suffix == ".md":
        prose = re.sub(
            r"^(```|~~~).*?^\1", lambda code: "\n" * code[0].count("\n"), content, flags=re.M | re.S
        )
        yield 1, re.sub(r"`[^`]+`", lambda code: "`" + "\n" * code[0].count("\n") + "`", prose)
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    comments: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token.string.lstrip("# "))
        elif token.type != tokenize.NL and comments:
            yield token.start[0] - len(comments), "\n".join(comments)
            comments = []


def refused(path: Path) -> Iterator[str]:
    """Yields a line about each refused phrase in a file."""
    for line, text in texts(path):
        for pattern, instead in _PATTERNS:
            for found in pattern.finditer(text):
                around = " ".join(text[max(found.start() - 30, 0) : found.end() + 30].split())
                at = line + text.count("\n", 0, found.start())
                if not any(allowed in around for allowed in ALLOWED):
                    yield f"{path.relative_to(ROOT)}:{at}: … {around} …: write {instead}"


def main(names: list[str]) -> int:
    """Prints the refused phrases, and returns the exit code."""
    roots = [ROOT / name for name in names or CHECKED]
    paths = [path for root in roots for path in (sorted(root.rglob("*")) if root.is_dir() else [root])]
    lines = [line for path in paths if path.suffix in {".py", ".md"} for line in refused(path)]
    print(*lines, sep="\n", end="\n" if lines else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
