"""Selects the requests that a fault is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.testkit.faults.errors import InvalidFault

# Of paths of no resource the verb is the method in lower case, as in RBAC.
VERBS: Final = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "head",
    "post",
    "put",
    "options",
)
PATTERN_CHARACTERS_MAX: Final = 512
COUNT_MAX: Final = 1_000_000_000
# The user agent of the methods of `apiserver.testing`, by which a test looks at what its faults have done.
OWN_USER_AGENT: Final = "apiserver-testing"
_ANY: Final = "*"


class RequestAttributes(NamedTuple):
    """The attributes of a request that a match compares; resource, group, … are empty for other paths."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Selects the requests that a fault affects. A fault affects a request only if the request meets all
    conditions.

    verb: the verb of the request, as in RBAC rules, for example `get`, `list`, `watch` or `create`.
    resource: the resource as it appears in URLs, for example `configmaps`.
    subresource: the subresource, for example `status`, or `*` for the resource and all subresources. If you
        set only `resource`, requests for subresources do not match.
    group: the API group of the resource. Use an empty string for the core group.
    namespace: the namespace in the URL path.
    name: the object name in the URL path, or the name that the field selector of a list or watch requires. A
        POST request that creates an object has no object name in its URL path.
    user: the name of the user, or of the impersonated user if the request uses impersonation.
    user_agent: the value of the `User-Agent` header. By default, all requests match except those that the
        `ApiServer` methods send.
    nth: selects only the matching request with this number. For example, 1 selects the first matching
        request.
    every: selects matching requests at regular intervals. For example, 3 selects every third matching
        request.

    In all text conditions except `verb`, `*` matches any sequence of characters. Unless stated otherwise, a
    condition that is not set matches all requests.

    Raises InvalidFault if a condition is invalid.
    """

    verb: str = ""
    resource: str = ""
    subresource: str | None = None
    group: str | None = None
    namespace: str = ""
    name: str = ""
    user: str = ""
    user_agent: str = ""
    nth: int | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        if self.verb and self.verb not in VERBS:
            raise InvalidFault("match.verb", f"{self.verb!r} is not one of {', '.join(VERBS)}")
        for name in ("resource", "subresource", "group", "namespace", "name", "user", "user_agent"):
            pattern = getattr(self, name)
            if pattern is not None and len(pattern) > PATTERN_CHARACTERS_MAX:
                raise InvalidFault(f"match.{name}", f"is longer than {PATTERN_CHARACTERS_MAX} characters")
        if "/" in self.resource or "." in self.resource:
            raise InvalidFault(
                "match.resource",
                f"{self.resource!r} is not the name of a resource; a group and a subresource have separate "
                "fields",
            )
        for name in ("nth", "every"):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= COUNT_MAX:
                raise InvalidFault(f"match.{name}", f"{number} is not between 1 and {COUNT_MAX}")
        if self.nth is not None and self.every is not None:
            raise InvalidFault("match.every", "cannot be combined with nth")

    def includes(self, request: RequestAttributes) -> bool:
        """Returns whether a request matches, regardless of its number."""
        if not self.includes_caller(request.user, request.user_agent):
            return False
        if self.verb and self.verb != request.verb:
            return False
        pairs = (
            (self.resource or _ANY, request.resource),
            (_ANY if self.group is None else self.group, request.group),
            (self._subresource, request.subresource),
            (self.namespace or _ANY, request.namespace),
            (self.name or _ANY, request.name),
        )
        return all(is_like(text, pattern) for pattern, text in pairs)

    def includes_caller(self, user: str, user_agent: str) -> bool:
        """Returns whether requests of a user and a program match."""
        if self.user_agent:
            return is_like(user_agent, self.user_agent) and is_like(user, self.user or _ANY)
        return user_agent != OWN_USER_AGENT and is_like(user, self.user or _ANY)

    def includes_number(self, number: int) -> bool:
        """Returns whether the matching request with this number is selected."""
        if self.nth is not None:
            return number == self.nth
        return self.every is None or number % self.every == 0

    @property
    def _subresource(self) -> str:
        if self.subresource is None:
            return "" if self.resource else _ANY
        return self.subresource


def is_like(text: str, pattern: str) -> bool:
    """Returns whether a text matches a pattern, in which `*` means any characters, in linear time."""
    if _ANY not in pattern:
        return text == pattern
    first, *middle, last = pattern.split(_ANY)
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
