"""Builds what concerns APIServices: the versions that this server serves itself, and those of others."""

from __future__ import annotations

from apiserver.apiextensions import definitions
from apiserver.app.core import Core
from apiserver.catalogue.apiregistration import local_api_services
from apiserver.controllers.api_service_registration import ApiServiceRegistration


def build_registration(core: Core) -> ApiServiceRegistration | None:
    """Returns what registers the versions served here; None if APIServices are not served."""
    table = core.served.current
    services = table.find(local_api_services.group_of(core.brand), "v1", "apiservices")
    defined = table.find(definitions.group_of(core.brand), "v1", definitions.RESOURCE)
    if services is None or defined is None:
        return None
    return ApiServiceRegistration(core.registry, services, defined, table, core.brand)
