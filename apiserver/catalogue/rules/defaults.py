"""The defaults of all built-in types, by definition."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apiserver.schema.compile import Default

DEFAULTS: Final[Mapping[str, Default]] = MappingProxyType({})
