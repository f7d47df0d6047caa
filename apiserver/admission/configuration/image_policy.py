"""Reads the configuration of the plugin ImagePolicyWebhook.

Source: kubernetes, plugin/pkg/admission/imagepolicy/config.go.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.kubeconfig import (
    KubeconfigCluster,
    ReadFile,
    read_kubeconfig,
    require_https,
)
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration

FIELD: Final = "imagePolicy"
_MINUTE_S: Final = 60.0
_DISABLED: Final = -1


class ImagePolicy(NamedTuple):
    """The webhook that decides about images, and how its responses are used.

    allow_ttl_s, deny_ttl_s: how long responses are cached; 0: not at all.
    backoff_s: the pause before the second attempt; later pauses are longer.
    allows_by_default: whether pods are allowed when the webhook cannot be called.
    """

    cluster: KubeconfigCluster
    credentials: ClientCredentials
    allow_ttl_s: float
    deny_ttl_s: float
    backoff_s: float
    allows_by_default: bool


def parse(document: Any, read: ReadFile) -> ImagePolicy:
    """Returns the image policy of a file. Raises InvalidConfiguration, and the errors of `read`."""
    whole = ConfigurationObject(document)  # The same file may configure another plugin.
    if not whole.has(FIELD):
        raise InvalidConfiguration(f"{FIELD}: is required")
    with whole.object(FIELD) as fields:
        path = Path(fields.text("kubeConfigFile"))
        if path == Path():
            raise fields.fail("kubeConfigFile", "is required")
        # Source: normalizeConfigDuration.
        allow_ttl_s = _duration_s(fields, "allowTTL", float, (1, 30 * _MINUTE_S), 5 * _MINUTE_S)
        deny_ttl_s = _duration_s(fields, "denyTTL", float, (1, 30 * _MINUTE_S), 30)
        backoff_s = _duration_s(
            fields, "retryBackoff", lambda milliseconds: milliseconds / 1_000, (0, 5 * _MINUTE_S), 0.5
        )
        allows_by_default = fields.boolean("defaultAllow")
    try:
        cluster, credentials = read_kubeconfig(path, read).current()
    except InvalidConfiguration as error:
        raise fields.fail("kubeConfigFile", str(error)) from None
    require_https(path, cluster)
    return ImagePolicy(cluster, credentials, allow_ttl_s, deny_ttl_s, backoff_s, allows_by_default)


def _duration_s(
    fields: ConfigurationObject,
    name: str,
    in_seconds: Callable[[int], float],
    bounds: tuple[float, float],
    default: float,
) -> float:
    """Returns a duration in seconds. 0 means the default, -1 none."""
    number = fields.integer(name)
    if number == _DISABLED:
        return 0.0
    if number == 0:
        return default
    seconds, (least, most) = in_seconds(number), bounds
    if not least < seconds <= most:
        raise fields.fail(name, f"valid value is between {least:g}s and {most:g}s, got {seconds:g}s")
    return seconds
