"""The group `flowcontrol.apiserver.k8s.io`."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.flowcontrol import flow_schemas, priority_level_configurations

TYPES: Final = (flow_schemas.BUILTIN_TYPE, priority_level_configurations.BUILTIN_TYPE)
