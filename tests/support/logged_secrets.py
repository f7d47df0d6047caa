"""Looks for secrets in what servers write: their logs, and audit events that hold metadata only.

Every server that a test starts is searched when it ends; the end of the tests tells what was found.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import orjson

# Values of Secrets, and passwords, hold this in tests that want them to be looked for.
MARK: Final = "nobody-may-read"
_AUDIT_LOG: Final = "--audit-log-path="
_CHARACTERS_SHOWN: Final = 300
# An Event is called like the object that it is about, with sixteen hexadecimal digits.
_IS_NO_EVENT: Final = r"""(?<!events ")(?<!events \\")(?<!/events/)"""
# Those of tests/support/server_process.py.
_STATIC_TOKENS: Final = ("admin-token", "alice-token")


def _encoded(text: str) -> Iterable[str]:
    """What base64 makes of a text, wherever in a value it stands."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + text.encode()).decode().rstrip("=")
        # The first and the last characters depend on what is beside the text.
        yield encoded[(0, 2, 3)[offset] : -1]


_FORMS: Final = {
    "a static token": "|".join(rf"(?<![\w-]){token}(?![\w-])" for token in _STATIC_TOKENS),
    "a signed token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{20,}",
    "a sealed text of the console": r"\bconsole-(?:code|cookie|session)\.[\w-]{20,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY",
    # The base64 of the same, without that of certificates.
    "an encoded private key": "LS0tLS1CRUdJTiB(?:QUklWQVRF|SU0EgUFJJVkFURS|FQyBQUklWQVRF)",
    # https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#token-format
    "a bootstrap token": _IS_NO_EVENT + r"(?<![\w.-])(?=[a-z0-9.]*[0-9])[a-z0-9]{6}\.[a-z0-9]{16}(?![\w.-])",
    "a marked value": "|".join([MARK, *map(re.escape, _encoded(MARK))]),
}
_ANY: Final = re.compile("|".join(f"(?:{form})" for form in _FORMS.values()))


def secrets_in(text: str) -> list[str]:
    """Returns what is found in a text, in words, with the line that holds it."""
    if not _ANY.search(text):
        return []
    return [
        f"{name}: {line:.{_CHARACTERS_SHOWN}}"
        for line in text.splitlines()
        for name, form in _FORMS.items()
        if re.search(form, line)
    ]


def secrets_in_audit(text: str) -> list[str]:
    """Returns what is found in audit events, without those whose level has the bodies of requests."""
    if not _ANY.search(text):
        return []
    lines = (line for line in text.splitlines() if _level(line) == "Metadata")
    return secrets_in("\n".join(lines))


def _level(line: str) -> str:
    """The level of an event. A line that is none is searched, too."""
    try:
        return str(orjson.loads(line)["level"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "Metadata"


class SearchedServers:
    """What was found in what servers have written."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def search(self, arguments: Sequence[str], log: str) -> None:
        """Search what a server has written that has ended. arguments: those of its command line."""
        found = secrets_in(log)
        for argument in arguments:
            path = Path(argument.removeprefix(_AUDIT_LOG))
            if argument.startswith(_AUDIT_LOG) and path.is_file():
                found += secrets_in_audit(path.read_text(errors="replace"))
        self.found += [f"{each}\n  by a server with {' '.join(arguments)}" for each in found]


# Of all servers that this process of the tests starts.
ALL_SERVERS: Final = SearchedServers()
