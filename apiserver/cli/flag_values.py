"""Parses the values of flags.

Each function is the type of some flags. It raises ArgumentTypeError, which argparse reports with the flag.
"""

from __future__ import annotations

import argparse
import csv
import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from apiserver.admission import plugin_names
from apiserver.auth.authn.authentication_configuration import SIGNING_ALGORITHMS
from apiserver.auth.authz.configuration import MODES, V1, V1BETA1
from apiserver.cli.argument_parser import path
from apiserver.cli.flag import Kind
from apiserver.golang.booleans import parse_bool
from apiserver.golang.durations import parse_duration
from apiserver.golang.regex import InvalidPattern, compile_pattern
from apiserver.golang.tls import SUITES
from apiserver.meta.vocabulary import IPNetwork

# As kube-apiserver requires.
SERVICE_ADDRESSES_MIN: Final = 8
# Each has its own watch cache, and more of them than cores are useless.
WORKERS_MAX: Final = 64
OBJECT_NAME_MAX: Final = 253
# Where objects are kept; kube-apiserver has the first.
ETCD: Final = "etcd3"
EMBEDDED: Final = "embedded"
MEMORY: Final = "memory"
STORAGE_BACKENDS: Final = (ETCD, EMBEDDED, MEMORY)
# As `storage.etcd.client.TRANSPORTS`, which takes long to import.
ETCD_TRANSPORTS: Final = ("http2", "grpc")
# Where clouds hand out a machine's credentials.
CREDENTIALS_SERVICES: Final[tuple[IPNetwork, ...]] = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    ipaddress.ip_network("fd00:ec2::254/128"),
)
# The names of the controllers, and the names that they had before release 1.28.
CONTROLLERS: Final = {
    "namespace-controller": "namespace",
    "serviceaccount-controller": "serviceaccount",
    "serviceaccount-token-controller": "serviceaccount-token",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": (
        "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    ),
    "resourcequota-controller": "resourcequota",
    "disruption-controller": "disruption",
    "ttl-after-finished-controller": "ttl-after-finished",
    "service-cidr-controller": "service-cidr-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection",
    "persistentvolume-protection-controller": "pv-protection",
    "volumeattributesclass-protection-controller": "volumeattributesclass-protection-controller",
    "clusterrole-aggregation-controller": "clusterrole-aggregation",
    "validatingadmissionpolicy-status-controller": "validatingadmissionpolicy-status",
    "garbage-collector-controller": "garbagecollector",
    "certificatesigningrequest-signing-controller": "csrsigning",
    "certificatesigningrequest-approving-controller": "csrapproving",
    "certificatesigningrequest-cleaner-controller": "csrcleaner",
    "storage-version-migrator-controller": "storage-version-migrator-controller",
}
# Those that delete custom resources for what they see of built-in objects: owners, and namespaces. With
# --adopt, a kube-apiserver has others.
OFF_WITH_ADOPT: Final = ("garbage-collector-controller", "namespace-controller")
KNOWN_CONTROLLERS: Final = frozenset({*CONTROLLERS, *CONTROLLERS.values()})


def duration_s(text: str) -> float:
    """Parses a Go duration, like `90s`, `1m30s` or `500ms`; `0` needs no unit."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def whole_duration_s(text: str) -> int:
    return max(1, int(duration_s(text)))


def whole_duration_or_zero_s(text: str) -> int:
    return int(duration_s(text))


def bump_revision(text: str) -> int:
    """Parses the number that is added to resourceVersions. Thousands of such steps fit in etcd's 63 bits."""
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative integer of at most 15 digits")
    return int(text)


def texts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _items(is_valid: Callable[[str], object], complaint: str) -> Callable[[str], tuple[str, ...]]:
    """Returns a parser of items, comma separated. complaint: of one that is not valid, in place of {}."""

    def parse(text: str) -> tuple[str, ...]:
        items = texts(text)
        for item in items:
            if not is_valid(item):
                raise argparse.ArgumentTypeError(complaint.format(item))
        return items

    return parse


def origin_patterns(text: str) -> tuple[str, ...]:
    """Parses patterns of origins. One that leaves an end of the host open allows the hosts of others.

    As in kube-apiserver it is enough that what pins the ends occurs in the pattern.
    """
    patterns = tuple(text.split(",")) if text else ()
    for pattern in patterns:
        if not pattern:
            raise argparse.ArgumentTypeError("a pattern is empty")
        try:
            compile_pattern(pattern)
        except InvalidPattern as error:
            raise argparse.ArgumentTypeError(f"{pattern!r}: {error}") from None
        if not re.search(r"\^|//", pattern) or not re.search(r"[$:]", pattern):
            raise argparse.ArgumentTypeError(
                f"{pattern!r}: regular expression does not pin to start/end of host in the origin header"
            )
    return patterns


def modes(text: str) -> tuple[str, ...]:
    modes = texts(text)
    if not modes:
        raise argparse.ArgumentTypeError("at least one authorization mode must be passed")
    for mode in modes:
        if mode not in MODES:
            raise argparse.ArgumentTypeError(f"{mode!r} is not one of {', '.join(MODES)}")
    if len({*modes}) < len(modes):
        raise argparse.ArgumentTypeError(f"{text!r} contains a mode twice")
    return modes


def access_review_version(text: str) -> str:
    if text not in (V1, V1BETA1):
        raise argparse.ArgumentTypeError(
            f'unsupported webhook authorizer version "{text}", supported versions are "{V1}", "{V1BETA1}"'
        )
    return text


def required_claim(text: str) -> tuple[tuple[str, str], ...]:
    """Parses one `claim=value`, which may have further signs and commas."""
    name, mark, value = text.partition("=")
    if not mark or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form CLAIM=VALUE")
    return ((name.strip(), value.strip()),)


class NamedCertificate(NamedTuple):
    """A certificate for some servers' names. names: without, those in the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


def named_certificate(text: str) -> tuple[NamedCertificate]:
    """Parses `certificate,key` or `certificate,key:name,name`."""
    pair, colon, names = (part.strip() for part in text.partition(":"))
    if colon and not names:
        raise argparse.ArgumentTypeError("empty names list is not allowed")
    files = [part.strip() for part in pair.split(",")]
    if len(files) != 2 or not all(files):
        raise argparse.ArgumentTypeError("expected comma separated certificate and key file paths")
    return (NamedCertificate(path(files[0]), path(files[1]), texts(names)),)


def optional_path(text: str) -> Path | None:
    """Parses the path of a file. An empty one is none, as in kube-apiserver."""
    return path(text) if text else None


def paths(text: str) -> tuple[Path, ...]:
    return tuple(map(path, texts(text)))


def seconds(text: str) -> float:
    return float(count(text))


def count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 999999999")
    return int(text)


def integer(text: str) -> int:
    """Parses an integer whose bounds depend on other flags."""
    if not re.fullmatch(r"[-+]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer")
    return int(text)


def number(text: str) -> float:
    """Parses a number whose bounds depend on other flags."""
    if not re.fullmatch(r"[-+]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return float(text)


GOAWAY_CHANCE_MAX: Final = 0.02


def goaway_chance(text: str) -> float:
    """Parses the value of --goaway-chance."""
    chance = number(text)
    if not 0 <= chance <= GOAWAY_CHANCE_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {GOAWAY_CHANCE_MAX}")
    return chance


_SIZE_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def size_bytes(text: str) -> int:
    """Parses a size like `512Mi` or `2G`."""
    found = re.fullmatch(r"([0-9]{1,12})(k|M|G|Ki|Mi|Gi|)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size like 512Mi or 2G")
    return int(found[1]) * _SIZE_UNITS[found[2]]


def workers(text: str) -> int:
    workers = count(text)
    if not 1 <= workers <= WORKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {WORKERS_MAX}")
    return workers


def address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an IP address") from None


def port(text: str) -> int:
    port = count(text)
    if port > 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port number")
    return port


def networks(text: str) -> tuple[IPNetwork, ...]:
    try:
        networks = tuple(ipaddress.ip_network(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len({network.version for network in networks}) < len(networks):
        raise argparse.ArgumentTypeError(f"{text}: at most one network of each IP family is allowed")
    for network in networks:
        if network.num_addresses < SERVICE_ADDRESSES_MIN:
            raise argparse.ArgumentTypeError(f"{network} has fewer than {SERVICE_ADDRESSES_MIN} addresses")
    return networks


def cidrs(text: str) -> tuple[IPNetwork, ...]:
    """Any number of networks; an empty text is none."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def port_range(text: str) -> tuple[int, int]:
    first, mark, last = text.partition("-")
    found = (port(first), port(last)) if mark else (0, 0)
    if not 0 < found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form FIRST-LAST")
    return found


def boolean(text: str) -> bool:
    """Returns the value of a boolean flag, as Go's flags read it."""
    if (value := parse_bool(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return value


def https_url(text: str) -> str:
    if not _is_url(text, "https"):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form https://HOST/PATH")
    return text


def _is_url(text: str, *schemes: str) -> bool:
    """Whether a text is a URL of one of these schemes, with a host, and with a port if it has one."""
    try:
        url = urlsplit(text)
        return url.scheme in schemes and bool(url.hostname) and url.port != 0
    except ValueError:  # Brackets without an address, or a port that is none.
        return False


def prefix(text: str) -> str:
    prefix = "/" + text.strip("/")
    if prefix == "/":
        raise argparse.ArgumentTypeError("the prefix must not be empty")
    return prefix


def object_name(text: str) -> str:
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    if len(text) > OBJECT_NAME_MAX or not re.fullmatch(rf"{label}(\.{label})*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of an object")
    return text


def sizes(text: str) -> dict[tuple[str, str], int]:
    """Parses watch cache sizes, like `pods#500,deployments.apps#1000`."""
    sizes = {}
    for part in texts(text):
        name, mark, size = part.partition("#")
        resource, _, group = name.partition(".")
        if not mark or not resource:
            raise argparse.ArgumentTypeError(f"{part!r} is not of the form RESOURCE.GROUP#SIZE")
        sizes[group, resource] = count(size)
    return sizes


def gates(text: str) -> tuple[tuple[str, bool], ...]:
    """Parses `A=true,B=false`. As in kube-apiserver, `kube:` may precede a gate and names the component."""
    given = []
    for part in texts(text):
        name, mark, value = (each.strip() for each in part.partition("="))
        component, colon, gate = name.partition(":")
        if colon and component != "kube":
            raise argparse.ArgumentTypeError(f"component not registered: {component}")
        name = gate if colon else name
        if not mark:
            raise argparse.ArgumentTypeError(f"missing bool value for {name}")
        try:
            given.append((name, boolean(value)))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"invalid value of {name}={value}, err: {error}") from None
    return tuple(given)


def release(text: str) -> int:
    """Parses `1.34` or, as in kube-apiserver, `kube=1.34`. Returns the minor number."""
    component, mark, version = text.rpartition("=")
    if mark and component != "kube":
        raise argparse.ArgumentTypeError(f"component not registered: {component}")
    found = re.fullmatch(r"v?1\.(\d{1,3})", version)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 1.34 or kube=1.34")
    return int(found[1])


def runtime_config(text: str) -> tuple[tuple[str, bool], ...]:
    """Parses `api/beta=true,batch/v1=false`. As in kube-apiserver, a key without a value is enabled."""
    given = []
    for part in texts(text):
        key, _, value = part.partition("=")
        if not re.fullmatch(r"(?:[a-z0-9.-]+/){0,2}[a-z0-9.-]+", key):
            raise argparse.ArgumentTypeError(
                f"{key!r} is not of the form api/STABILITY, GROUP/VERSION or GROUP/VERSION/RESOURCE"
            )
        given.append((key, boolean(value) if value else True))
    return tuple(given)


_METRIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_METRIC_LABEL: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*),([a-zA-Z_][a-zA-Z0-9_]*)")


class AllowedLabel(NamedTuple):
    """The values that a label of a metric may have."""

    metric: str
    label: str
    values: frozenset[str]


def metric_labels(text: str) -> tuple[AllowedLabel, ...]:
    """Parses `metric,label=v1,v2`, or several of them, each in double quotes and with commas between them."""
    if text.count("=") == 1:
        pairs = [text.strip('"')]
    else:
        try:
            pairs = next(csv.reader([text]), [])
        except csv.Error as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not a list: {error}") from None
    found = []
    for pair in pairs:
        key, mark, values = pair.partition("=")
        found.append(allowed_label(key if mark else "", values))
    return tuple(found)


def allowed_label(key: str, values: str) -> AllowedLabel:
    """Returns the allowed values of a metric's label. Raises ArgumentTypeError."""
    found = _METRIC_LABEL.fullmatch(key)
    if found is None:
        raise argparse.ArgumentTypeError(f"{key!r} is not of the form METRIC,LABEL, followed by =VALUE,...")
    return AllowedLabel(found[1], found[2], frozenset(values.strip("'").split(",")))


signing_algorithms: Final = _items(
    SIGNING_ALGORITHMS.__contains__, f"{{!r}} is not one of {', '.join(SIGNING_ALGORITHMS)}"
)
cipher_suites: Final = _items(SUITES.__contains__, "Cipher suite {} not supported or doesn't exist")
hsts_directives: Final = _items(
    re.compile(r"max-age=[0-9]+|includeSubDomains|preload").fullmatch,
    "{!r} is not one of max-age=SECONDS, includeSubDomains, preload (RFC 6797, 6.1)",
)
metric_names: Final = _items(_METRIC_NAME.fullmatch, "{!r} is not the name of a metric")
urls: Final = _items(lambda text: _is_url(text, "http", "https"), "{!r} is not of the form http://HOST:PORT")
admission_plugins: Final = _items(plugin_names.KNOWN.__contains__, "{!r} is not an admission plugin")
controllers: Final = _items(
    lambda item: item in ("*", "-*") or item.removeprefix("-") in KNOWN_CONTROLLERS,
    "{!r} is not a controller of this server",
)

TEXT: Final = Kind("string", str)
TEXTS: Final = Kind("strings", texts)
PATH: Final = Kind("string", optional_path)
BOOLEAN: Final = Kind("bool", boolean)
# May be given alone, to mean true.
SWITCH: Final = Kind("bool", boolean, needs_value=False)
INTEGER: Final = Kind("int", integer)
COUNT: Final = Kind("int", count)
DURATION: Final = Kind("duration", duration_s)
WHOLE_DURATION: Final = Kind("duration", whole_duration_s)
