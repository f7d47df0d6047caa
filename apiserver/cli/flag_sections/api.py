"""The flags of the API: what is served, its names, controllers and the signing of certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from apiserver.catalogue.gated_fields import gates_of_fields
from apiserver.cli import flag_values
from apiserver.cli.flag import Flag, Kind, flags_of, option
from apiserver.cli.flag_values import PATH, SWITCH, TEXTS, WHOLE_DURATION
from apiserver.meta.brand import Brand
from apiserver.meta.releases.emulation import DEFAULT_MINOR, MAJOR, NEWEST_MINOR, OLDEST_MINOR
from apiserver.meta.releases.gate_effects import effective_gates
from apiserver.meta.releases.gates import FeatureGates

# The descriptions of the feature gates of the default release that have an effect and can be set.
_GATES: Final = FeatureGates(DEFAULT_MINOR).described(
    sorted(effective_gates(DEFAULT_MINOR) | gates_of_fields(DEFAULT_MINOR))
)


@dataclass(frozen=True, slots=True, repr=False)
class ApiOptions:
    """The options of what is served, controllers and signing."""

    emulated_version: ClassVar[Flag] = Flag(
        "--emulated-version",
        "strings",
        flag_values.release,
        "The Kubernetes release whose APIs and defaults the server uses, for example 1.36 or kube=1.36. "
        f"Supported releases: {MAJOR}.{OLDEST_MINOR} to {MAJOR}.{NEWEST_MINOR}.",
        default=f"{MAJOR}.{DEFAULT_MINOR}",
    )
    min_compatibility_version: ClassVar[Flag] = Flag(
        "--min-compatibility-version",
        "strings",
        flag_values.release,
        "The oldest Kubernetes release that must be able to read the stored objects, for example 1.35 or "
        "kube=1.35. The server does not store objects in API versions that this release lacks. CEL "
        "expressions cannot use functions that this release lacks.",
        default="the release before --emulated-version",
    )
    # What this later release, 1.x, has removed is not served; None: all is.
    emulate_removal: int | None = option(
        None,
        Kind("string", flag_values.release),
        "The Kubernetes release, such as 1.38, whose API removals the server emulates. The release must be "
        "later than the emulated release. Use this flag to rehearse an upgrade. The server responds with "
        "404 to requests for the API versions that this release removes. Stored objects do not change, and "
        "remain available in other API versions.",
    )
    emulate_removal_header: bool = option(
        False,
        SWITCH,
        "If true, individual clients can set a request header to rehearse an upgrade. For example, the "
        "server handles a request with the 'Emulate-Removal: 1.38' header as if --emulate-removal=1.38 were "
        "set.",
    )
    # Whether versions and resources are served, by the keys of --runtime-config.
    runtime_config: Mapping[str, bool] = option(
        None,
        Kind("mapStringBool", flag_values.runtime_config),
        "A set of key=value pairs that enable or disable built-in APIs. Supported keys: v1, "
        "<group>/<version>, <group>/<version>/<resource>, api/all, api/ga, api/beta, api/alpha.",
        factory=dict,
        repeats=True,
    )
    extension: tuple[str, ...] = option(
        (),
        TEXTS,
        "An extension whose functions the server calls: a Python module such as shop, an object in a module "
        "such as shop:app, or the name of an entry point in the apiserver.extensions group. '*' stands for "
        "all entry points in the group. The flag can be repeated.",
        repeats=True,
    )
    controllers: tuple[str, ...] = option(
        ("*",),
        Kind("strings", flag_values.controllers),
        "A list of controllers to enable. '*' enables all controllers, 'foo' enables the controller named "
        "'foo', '-foo' disables the controller named 'foo', and '-*' disables all controllers. Controllers: "
        f"{', '.join(flag_values.CONTROLLERS)}.",
    )
    # The CA that signs certificate requests; None: the one in the data directory, or shared by replicas.
    cluster_signing_cert_file: Path | None = option(
        None,
        PATH,
        "A file that contains the PEM-encoded X509 CA certificate for signing certificate requests. The "
        "default is the CA in --data-dir, which all replicas share. If you use a different CA, add its "
        "certificate to the file in --client-ca-file, so that the server accepts client certificates signed "
        "by this CA.",
    )
    cluster_signing_key_file: Path | None = option(
        None, PATH, "A file that contains the private key for the certificate in --cluster-signing-cert-file."
    )
    cluster_signing_duration_s: int = option(
        365 * 24 * 3600,
        WHOLE_DURATION,
        "The maximum lifetime of signed certificates. A certificate request can specify a shorter lifetime "
        "in spec.expirationSeconds.",
    )
    # As they are given; those that have an effect have separate fields.
    feature_gates: tuple[tuple[str, bool], ...] = option(
        (),
        Kind("mapStringBool", flag_values.gates),
        "A set of key=value pairs that enable or disable feature gates. These gates have an effect: "
        f"{', '.join(_GATES)}. AllAlpha sets all alpha gates, and AllBeta sets all beta gates. Gates that "
        "you list by name take precedence. The server accepts other Kubernetes gates, but logs a warning for "
        "each gate that has no effect. The server refuses to start if you set a gate that the emulated "
        "release no longer has.",
        repeats=True,
    )
    strict_kube_compat: ClassVar[Flag] = Flag(
        "--strict-kube-compat",
        "bool",
        flag_values.boolean,
        "If true, the server matches kube-apiserver in some cases where the two otherwise differ. The "
        "'Differences from kube-apiserver' documentation page lists these cases.",
        default="false",
        needs_value=False,
    )
    group_domain: ClassVar[Flag] = Flag(
        "--group-domain",
        "string",
        str,
        "The domain suffix of built-in API group names.",
        default=Brand.group_domain,
    )
    vendor: ClassVar[Flag] = Flag(
        "--vendor",
        "string",
        str,
        "The vendor name in media types and OpenAPI extensions, for example in "
        "application/vnd.kubernetes.protobuf.",
        default=Brand.vendor,
    )

    def runs_controller(self, name: str) -> bool:
        """Whether a controller is enabled: the last item of --controllers that names it decides."""
        names = (name, flag_values.CONTROLLERS[name])
        is_enabled = False
        for item in self.controllers:
            if item in ("*", "-*"):
                is_enabled = item == "*"
            elif item.removeprefix("-") in names:
                is_enabled = not item.startswith("-")
        return is_enabled


FLAGS: Final = flags_of(ApiOptions)
