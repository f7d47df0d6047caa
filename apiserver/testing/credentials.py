"""Users of static tokens."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class User:
    """A user who authenticates with a static bearer token.

    name: the user name.
    groups: the user's groups.
    uid: the user's UID.
    Raises TypeError if `groups` is a string.
    """

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.groups, str):  # whose letters would be groups
            raise TypeError(f"the groups of {self.name} must be a tuple, not {self.groups!r}")


def token_file(tokens: Mapping[str, User]) -> str:
    """Returns the content of a file for `--token-auth-file`."""
    text = io.StringIO()
    rows = csv.writer(text)
    for token, user in tokens.items():
        rows.writerow((token, user.name, user.uid, ",".join(user.groups)))
    return text.getvalue()
