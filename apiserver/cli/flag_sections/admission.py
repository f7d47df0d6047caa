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
        "Admission plugins that should be enabled in addition to default enabled ones, comma separated. "
        f"Enabled by default: {', '.join(sorted(plugin_names.ON_BY_DEFAULT))}. "
        f"Others: {', '.join(sorted(plugin_names.OFF_BY_DEFAULT))}. "
        "The names of kube-apiserver's other plugins are accepted with a warning, and have no effect. "
        "The order of plugins in this flag does not matter.",
        repeats=True,
    )
    disable_admission_plugins: tuple[str, ...] = option(
        (),
        Kind("strings", flag_values.admission_plugins),
        "Admission plugins that should be disabled although they are in the default enabled plugins list, "
        "comma separated.",
        repeats=True,
    )
    default_not_ready_toleration_seconds: int = option(
        TOLERATION_S,
        COUNT,
        "Indicates the tolerationSeconds of the toleration for notReady:NoExecute that is added by default "
        "to every pod that does not already have such a toleration.",
    )
    default_unreachable_toleration_seconds: int = option(
        TOLERATION_S,
        COUNT,
        "Indicates the tolerationSeconds of the toleration for unreachable:NoExecute that is added by "
        "default to every pod that does not already have such a toleration.",
    )
    admission_control_config_file: Path | None = option(
        None,
        PATH,
        "File with the admission control configuration, an AdmissionConfiguration object.",
    )
    webhook_deny_cidrs: tuple[IPNetwork, ...] = option(
        flag_values.CREDENTIALS_SERVICES,
        Kind("cidrs", flag_values.cidrs),
        "Addresses at which the server never calls a webhook, comma separated, whatever name or URL its "
        "configuration contains. The default is the addresses where clouds provide a machine's credentials."
        " An IPv6 address that embeds an IPv4 address is treated as both, and an unspecified address as "
        "loopback. If empty, there are none.",
    )
    # What is in that file, and in flags of plugins.
    plugin_configurations: PluginConfigurations = field(default_factory=PluginConfigurations)

    def runs_admission_plugin(self, name: str) -> bool:
        """Whether an admission plugin of this server is enabled."""
        if name in plugin_names.ON_BY_DEFAULT:
            return name not in self.disable_admission_plugins
        return name in self.enable_admission_plugins


FLAGS: Final = flags_of(AdmissionOptions)
