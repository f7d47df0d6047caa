"""The values of flags as text, for /flagz and the log.

Lists, maps and durations are written as Go's flags write them. User names and passwords in URLs are redacted.
Source: k8s.io/apiserver, pkg/server/flagz/flagreader.go; github.com/spf13/pflag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from apiserver.cli.config import Config
from apiserver.cli.flag import Flag
from apiserver.cli.flags import SECTIONS
from apiserver.golang.durations import duration_text
from apiserver.golang.urls import redacted_urls
from apiserver.meta.releases.deviations import KUBERNETES

# Of flags that have no field in Config.
_OF_OTHERS: Final[Mapping[str, Callable[[Config], Any]]] = MappingProxyType(
    {
        "emulated_version": lambda config: (str(config.release),),
        "min_compatibility_version": lambda config: (f"1.{config.release.min_compatible}",),
        "strict_kube_compat": lambda config: config.deviations == KUBERNETES,
        "group_domain": lambda config: config.brand.group_domain,
        "vendor": lambda config: config.brand.vendor,
        "disabled_metrics": lambda config: sorted(config.metrics.disabled),
        "allow_metric_labels": lambda config: [
            f"{metric},{label}={','.join(sorted(values))}"
            for metric, labels in config.metrics.allowed_labels.items()
            for label, values in labels.items()
        ],
        "show_hidden_metrics_for_version": lambda config: (
            f"1.{config.release.minor - 1}" if config.metrics.shows_hidden else ""
        ),
    }
)


def flag_texts(config: Config) -> dict[str, str]:
    """Returns the values of all flags by their names, without the dashes."""
    return {
        flag.name.lstrip("-"): redacted_urls(_text(flag, config))
        for flags in SECTIONS.values()
        for flag in flags
    }


def changed_flag_texts(config: Config) -> dict[str, str]:
    """Returns the values of the flags that differ from their defaults, as `flag_texts` does."""
    defaults = flag_texts(Config())
    return {name: text for name, text in flag_texts(config).items() if text != defaults[name]}


def _text(flag: Flag, config: Config) -> str:
    of_other = _OF_OTHERS.get(flag.destination)
    value = config.option(flag.destination, flag.default) if of_other is None else of_other(config)
    if value is None:
        return ""
    return _BY_KIND.get(flag.value, _plain)(value)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return _list(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(values: Iterable[Any]) -> str:
    return f"[{','.join(map(str, values))}]"


def _pairs(values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> str:
    return ",".join(f"{name}={_plain(value)}" for name, value in sorted(dict(values).items()))


def _strings(values: Any) -> str:
    """The sizes of watch caches are written as items, too."""
    if isinstance(values, Mapping):
        return _list(f"{'.'.join(filter(None, reversed(key)))}#{size}" for key, size in values.items())
    return _list(values)


# By what --help calls the values.
_BY_KIND: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "duration": duration_text,
        "int": lambda value: f"{value:.0f}",
        "float32": lambda value: f"{value:g}",
        "strings": _strings,
        "namedCertKey": lambda values: _list(f"{each.certificate},{each.key}" for each in values),
        "stringToString": _list,
        "cidrs": lambda values: ",".join(map(str, values)),
        "portRange": lambda bounds: "-".join(map(str, bounds)),
        "mapStringBool": _pairs,
        "mapStringString": _pairs,
    }
)
