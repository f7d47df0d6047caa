"""The escaped names by which expressions select properties that are not identifiers.

Source: k8s.io/apiserver, pkg/cel/escaping.go.
"""

from __future__ import annotations

import re
from typing import Final

# fmt: off
RESERVED: Final = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
    "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
))
# fmt: on
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NEEDS_ESCAPE: Final = re.compile(r"__|[./-]")
_ESCAPABLE: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


def escape(name: str) -> str | None:
    """Returns the name of a property in expressions; None if expressions cannot select it."""
    if name in RESERVED:
        return f"__{name}__"
    if _ESCAPABLE.fullmatch(name) is None:
        return None
    return _NEEDS_ESCAPE.sub(lambda match: _ESCAPES[match[0]], name)
