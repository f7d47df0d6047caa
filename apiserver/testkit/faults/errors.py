"""What is wrong with a fault that is to be injected."""

from __future__ import annotations

from typing import Final

# More than a test has use for; each request is compared with all of them.
FAULTS_MAX: Final = 1_000


class InvalidFault(ValueError):
    """A fault says what cannot be. field: which part of it, as in its document: `match.verb`."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field, self.why = field, why


class TooManyFaults(Exception):
    """There are as many faults as there may be."""

    def __init__(self) -> None:
        super().__init__(f"there are {FAULTS_MAX} faults already: clear some of them")
