"""The release that a server emulates, and its compatibility.

Source: k8s.io/component-base, compatibility/version.go and registry.go; KEP-4330.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver import __version__

MAJOR: Final = 1
OLDEST_MINOR: Final = 15
NEWEST_MINOR: Final = 37
DEFAULT_MINOR: Final = 36


class InvalidEmulation(ValueError):
    """Releases that cannot be emulated together; the message is one line."""


class EmulatedRelease(NamedTuple):
    """A release 1.`minor`, and the oldest one, 1.`min_compatible`, that must be able to read the store.

    A version of an API is stored only if the oldest compatible release has it, too: so a server can be
    downgraded to that release, and share a store with a server that is not upgraded yet.
    """

    minor: int = DEFAULT_MINOR
    min_compatible: int = DEFAULT_MINOR - 1

    @classmethod
    def of(cls, minor: int, min_compatible: int | None = None) -> EmulatedRelease:
        """Returns the release, compatible with the one before it by default.

        Raises InvalidEmulation.
        """
        if not OLDEST_MINOR <= minor <= NEWEST_MINOR:
            raise InvalidEmulation(
                f"emulation version {MAJOR}.{minor} is not between {MAJOR}.{OLDEST_MINOR} and "
                f"{MAJOR}.{NEWEST_MINOR}"
            )
        oldest = OLDEST_MINOR - 1
        if min_compatible is None:
            min_compatible = minor - 1
        if not oldest <= min_compatible <= minor:
            raise InvalidEmulation(
                f"min compatibility version {MAJOR}.{min_compatible} is not between {MAJOR}.{oldest} and "
                f"{MAJOR}.{minor}, the emulation version"
            )
        return cls(minor, min_compatible)

    @property
    def version(self) -> tuple[int, int]:
        return MAJOR, self.minor

    @property
    def git_version(self) -> str:
        """The version that clients compare with releases: `v1.36.0+python.0.1.0`, which includes this
        server's own.
        """
        return f"v{self}.0+python.{__version__}"

    def __str__(self) -> str:
        return f"{MAJOR}.{self.minor}"


DEFAULT_RELEASE: Final = EmulatedRelease()
