"""The flags of the API: what is served, its names, controllers and the signing of certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from apiserver.catalogue.gated_fields import gates_of_fields
from apiserver.cli import flag_values
from apiserver.cli.flag import Flag, Kind, flags_of, option
from apiserver.cli.flag_values import PATH, SWITCH, WHOLE_DURATION
from apiserver.meta.brand import Brand
from apiserver.releases.emulation import DEFAULT_MINOR, MAJOR, NEWEST_MINOR, OLDEST_MINOR
from apiserver.releases.gate_effects import effective_gates
from apiserver.releases.gates import FeatureGates

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
        "The Kubernetes release whose APIs and defaults the server serves, for example 1.36 or kube=1.36. "
        f"Supported: {MAJOR}.{OLDEST_MINOR} to {MAJOR}.{NEWEST_MINOR}.",
        default=f"{MAJOR}.{DEFAULT_MINOR}",
    )
    min_compatibility_version: ClassVar[Flag] = Flag(
        "--min-compatibility-version",
        "strings",
        flag_values.release,
        "The oldest release that must be able to read the stored objects: 1.35, or kube=1.35. Objects are "
        "not stored in API versions that it does not have, and expressions cannot use functions that it "
        "does not know.",
        default="the release before --emulated-version",
    )
    # What this later release, 1.x, has removed is not served; None: all is.
    emulate_removal: int | None = option(
        None,
        Kind("string", flag_values.release),
        "Rehearse an upgrade: respond with 404 for the API versions that this later release, such as 1.38, "
        "removes. Objects stay stored, and are served in the remaining versions.",
    )
    emulate_removal_header: bool = option(
        False,
        SWITCH,
        "Rehearse an upgrade of single clients: only requests with the header Emulate-Removal: 1.38 are "
        "answered as if --emulate-removal were 1.38.",
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
    controllers: tuple[str, ...] = option(
        ("*",),
        Kind("strings", flag_values.controllers),
        "A list of controllers to enable. '*' enables all controllers, 'foo' enables the controller named "
        "'foo', '-foo' disables the controller named 'foo', '-*' disables all. Controllers: "
        f"{', '.join(flag_values.CONTROLLERS)}.",
    )
    # The CA that signs certificate requests; None: the one in the data directory, or shared by replicas.
    cluster_signing_cert_file: Path | None = option(
        None,
        PATH,
        "File containing a PEM-encoded X509 CA certificate that signs certificate requests. If not "
        "provided, it is the CA in --data-dir, which replicas share. Add another CA to --client-ca-file, so"
        " that the server accepts the certificates it signs.",
    )
    cluster_signing_key_file: Path | None = option(
        None, PATH, "File containing the private key of --cluster-signing-cert-file."
    )
    cluster_signing_duration_s: int = option(
        365 * 24 * 3600,
        WHOLE_DURATION,
        "The maximum lifetime of signed certificates. Certificate requests may ask for a shorter one in "
        "spec.expirationSeconds.",
    )
    # As they are given; those that have an effect have separate fields.
    feature_gates: tuple[tuple[str, bool], ...] = option(
        (),
        Kind("mapStringBool", flag_values.gates),
        "A set of key=value pairs that describe feature gates for alpha/experimental features. Options that "
        "have an effect are: "
        f"{', '.join(_GATES)}. "
        "AllAlpha and AllBeta set all gates that are not named. Other gates of Kubernetes are accepted, with "
        "a warning if they have no effect; gates that the release has removed are not.",
        repeats=True,
    )
    strict_kube_compat: ClassVar[Flag] = Flag(
        "--strict-kube-compat",
        "bool",
        flag_values.boolean,
        "Behave like kube-apiserver in the cases in which this server differs by default.",
        default="false",
        needs_value=False,
    )
    group_domain: ClassVar[Flag] = Flag(
        "--group-domain",
        "string",
        str,
        "The domain that the names of built-in API groups end with.",
        default=Brand.group_domain,
    )
    vendor: ClassVar[Flag] = Flag(
        "--vendor",
        "string",
        str,
        "The vendor in media types and OpenAPI extensions, for example in "
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
