"""The errors in a fault that is to be injected."""

from __future__ import annotations

from typing import Final

# More than a test has use for; each request is compared with all of them.
FAULTS_MAX: Final = 1_000


class InvalidFault(ValueError):
    """A fault, its effect or its match contains an invalid value.

    field: the name of the invalid field, for example `match.verb`.
    why: the reason that the value is invalid.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


class TooManyFaults(Exception):
    """The server already has 1,000 faults, which is the maximum number."""

    def __init__(self) -> None:
        super().__init__(f"there are {FAULTS_MAX} faults already: clear some of them")
