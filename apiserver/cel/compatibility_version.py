"""The compatibility version, which limits the parts of the language that new expressions may use.

So an older server that reads them, after a rollback or on the same store, can evaluate them. Stored
expressions may use everything: a server continues to evaluate expressions that a newer one accepted.

Source: k8s.io/apiserver, pkg/cel/environment (`NewExpressions`, `StoredExpressions`); rows R18-R20.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apiserver.meta.releases.emulation import MAJOR, EmulatedRelease
from apiserver.meta.releases.gates import FeatureGates

Release = tuple[int, int]
# The releases from which on new expressions compare numbers of different types, have their constants
# validated, and take reserved words as names of fields.
CROSS_TYPE_COMPARISONS: Final[Release] = (1, 28)
VALIDATORS: Final[Release] = (1, 29)
KEYWORD_FIELDS: Final[Release] = (1, 31)

SELECTORS_GATE: Final = "AuthorizeWithSelectors"
CONSUMABLE_CAPACITY_GATE: Final = "DRAConsumableCapacity"
LIST_ATTRIBUTES_GATE: Final = "DRAListTypeAttributes"
# The gates on which the libraries, variables and fields of expressions depend.
GATES: Final = frozenset({SELECTORS_GATE, CONSUMABLE_CAPACITY_GATE, LIST_ATTRIBUTES_GATE})


class CompatibilityVersion(NamedTuple):
    """The parts of the language for new expressions: those of a release, and those of gates that are on.

    release: the oldest release that must be able to read the store. gates: those of `GATES` that are on.
    """

    release: Release
    gates: frozenset[str]

    @classmethod
    def of(cls, release: EmulatedRelease, gates: FeatureGates) -> CompatibilityVersion:
        return cls((MAJOR, release.min_compatible), frozenset(filter(gates.is_on, GATES)))

    def has(self, since: Release, gate: str = "") -> bool:
        """Returns whether new expressions may use a part of the language.

        since: the release that introduced it. gate: if there is one, it alone decides: users who enable an
        alpha feature want its library even if an older server does not have it.
        """
        return gate in self.gates if gate else since <= self.release


class ExpressionVersions(NamedTuple):
    """Selects the compatibility version of each expression in a write. stored: the texts that are stored
    before it.
    """

    new: CompatibilityVersion
    stored: frozenset[str] = frozenset()

    def version_of(self, text: str) -> CompatibilityVersion | None:
        """Returns the version for an expression; None if it is stored, and may use everything."""
        return None if text in self.stored else self.new
