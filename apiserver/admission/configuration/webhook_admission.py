"""The credentials with which the plugins for webhooks call them.

Source: k8s.io/apiserver, pkg/admission/plugin/webhook/config.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apiserver.meta.brand import Brand
from apiserver.webhooks.credentials import HostCredentials
from apiserver.webhooks.kubeconfig import ReadFile, read_kubeconfig
from apiserver.wire.configuration_fields import ConfigurationObject


def parse(document: Any, brand: Brand, read: ReadFile) -> HostCredentials:
    """Returns the credentials for webhooks, by host. Raises InvalidConfiguration, and what `read` raises."""
    group = brand.group("apiserver.config")
    with ConfigurationObject(document) as fields:
        fields.require_kind(
            (f"{group}/v1", "WebhookAdmissionConfiguration"), (f"{group}/v1alpha1", "WebhookAdmission")
        )
        path = Path(fields.text("kubeConfigFile"))
        if path == Path():
            return HostCredentials()
        if not path.is_absolute():
            raise fields.fail("kubeConfigFile", "must be an absolute file path")
    return read_kubeconfig(path, read).host_credentials()
