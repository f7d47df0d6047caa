"""The libraries that all of Kubernetes' expressions have: k8s.io/apiserver pkg/cel/environment/base.go.

New expressions may use the libraries of their compatibility version; stored ones may use all.
`json_patch.JSON_PATCH` is added where expressions mutate.
"""

from __future__ import annotations

from typing import Final

from apiserver.cel.declarations import Library
from apiserver.cel.library.authorizer import AUTHORIZER_SELECTORS, AUTHORIZERS
from apiserver.cel.library.comprehensions import TWO_VARIABLES
from apiserver.cel.library.lists import LISTS
from apiserver.cel.library.lists_ext import LISTS_EXT
from apiserver.cel.library.named_formats import FORMAT_LIBRARY
from apiserver.cel.library.network import CIDRS, IPS
from apiserver.cel.library.optionals import OPTIONALS
from apiserver.cel.library.quantity import QUANTITIES
from apiserver.cel.library.regex import REGEX
from apiserver.cel.library.semver import SEMVERS
from apiserver.cel.library.sets import SETS
from apiserver.cel.library.standard import KUBERNETES_STANDARD
from apiserver.cel.library.strings import KUBERNETES_STRINGS
from apiserver.cel.library.url import URLS

KUBERNETES: Final[tuple[Library, ...]] = (
    *KUBERNETES_STANDARD,
    URLS,
    REGEX,
    LISTS,
    *KUBERNETES_STRINGS,
    AUTHORIZERS,
    OPTIONALS,
    QUANTITIES,
    SETS,
    IPS,
    CIDRS,
    FORMAT_LIBRARY,
    AUTHORIZER_SELECTORS,
    TWO_VARIABLES,
    SEMVERS,
    LISTS_EXT,
)
