"""Quotes texts in messages as Go's package strconv does, and lists them as Go and Kubernetes print lists.

Clients' tests compare them literally.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# A table for str.translate.
ESCAPES: Final = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        '"': r"\"",
    }
)


def go_quote(text: str) -> str:
    """Returns a text as Go's %q prints it: printable characters stay, the rest is escaped."""
    inner = text.translate(ESCAPES)
    if not inner.isprintable():
        inner = "".join(
            character if character.isprintable() else _code(ord(character)) for character in inner
        )
    return f'"{inner}"'


def quoted_list(texts: Iterable[str]) -> str:
    """Returns a list of texts as Go's %q prints it: `["get" "list"]`."""
    return f"[{' '.join(map(go_quote, texts))}]"


def aggregate(errors: Iterable[object]) -> str:
    """Returns errors as Kubernetes' aggregates print them: each once, and in brackets unless there is one.

    Source: k8s.io/apimachinery, pkg/util/errors/errors.go.
    """
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def strconv_error(function: str, text: str, problem: str) -> str:
    """Returns the message of a strconv.NumError: `strconv.ParseUint: parsing "x": invalid syntax`."""
    return f"strconv.{function}: parsing {go_quote(text)}: {problem}"


def _code(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
