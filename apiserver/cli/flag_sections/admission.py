"""The flags of admission: its plugins and their configuration, and addresses of webhooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apiserver.admission import plugin_names
from apiserver.admission.configuration.plugin_configurations import TOLERATION_S, PluginConfigurations
from apiserver.cli import flag_values
from apiserver.cli.flag import Kind, flags_of, option
from apiserver.cli.flag_values import COUNT, PATH
from apiserver.meta.vocabulary import IPNetwork


@dataclass(frozen=True, slots=True, repr=False)
class AdmissionOptions:
    """The options of admission plugins."""

    enable_admission_plugins: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.admission_plugins),
        "A comma-separated list of admission plugins to enable in addition to the default plugins. Enabled "
        f"by default: {', '.join(sorted(plugin_names.ON_BY_DEFAULT))}. Not enabled by default: "
        f"{', '.join(sorted(plugin_names.OFF_BY_DEFAULT))}. The server accepts the names of other "
        "kube-apiserver plugins but logs a warning, because these plugins have no effect. The order of "
        "plugins in this flag does not matter.",
        repeats=True,
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.admission_plugins),
        "A comma-separated list of default admission plugins to disable.",
        repeats=True,
    )
    default_not_ready_toleration_seconds: int = option(
        TOLERATION_S,
        COUNT,
        "The tolerationSeconds of the notReady:NoExecute toleration that the server adds to every pod "
        "without such a toleration.",
    )
    default_unreachable_toleration_seconds: int = option(
        TOLERATION_S,
        COUNT,
        "The tolerationSeconds of the unreachable:NoExecute toleration that the server adds to every pod "
        "without such a toleration.",
    )
    admission_control_config_file: Path | None = option(
        None,
        PATH,
        "A file that contains an AdmissionConfiguration, which configures admission plugins.",
    )
    webhook_deny_cidrs: tuple[IPNetwork, ...] = option(
        flag_values.CREDENTIALS_SERVICES,
        Kind("cidrs", flag_values.cidrs),
        "A comma-separated list of address ranges to which the server never sends webhook requests, "
        "regardless of the name or URL in the webhook's configuration. The default ranges contain the "
        "addresses of cloud metadata services, which return the machine's credentials. If an IPv6 address "
        "embeds an IPv4 address, the server checks both addresses. The server treats an unspecified address "
        "(0.0.0.0 or ::) as a loopback address. If the list is empty, the server can connect to any address.",
    )
    # What is in that file, and in flags of plugins.
    plugin_configurations: PluginConfigurations = field(default_factory=PluginConfigurations)

    def runs_admission_plugin(self, name: str) -> bool:
        """Whether an admission plugin of this server is enabled."""
        if name in plugin_names.ON_BY_DEFAULT:
            return name not in self.disable_admission_plugins
        return name in self.enable_admission_plugins


FLAGS: Final = flags_of(AdmissionOptions)
