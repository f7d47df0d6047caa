"""Writes expressions in CEL: the names of fields, and constants.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
    custom-resource-definitions/#validation-rules, the escapes of property names
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"),
        *("let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while"),
    }
)
_ACCESSIBLE: Final = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_ESCAPED: Final = re.compile(r"__|[.\-/]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def field_name(name: str) -> str | None:
    """Returns the name of a field in CEL; None if CEL cannot access the field."""
    if not _ACCESSIBLE.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)


def constant(value: Any) -> str:
    """Returns a string, number or boolean in CEL."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return text
    return "'" + text[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
