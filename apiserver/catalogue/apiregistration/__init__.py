"""The group `apiregistration.k8s.io`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.apiregistration import api_services

TYPES: Final = (api_services.BUILTIN_TYPE,)
