"""Names of signers and of bundles of their CAs, and requests of pods to signers.

Source: pkg/apis/core/validation, names.go and ValidateUserAnnotations; pkg/apis/certificates, types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apiserver.golang.quoting import go_quote
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required, too_long
from apiserver.meta.names import byte_length
from apiserver.meta.object_meta import ANNOTATIONS_BYTES_MAX

_SIGNER_BYTES_MAX: Final = 571  # domain/namespace.name
# Kubernetes' own signers.
KUBE_APISERVER_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN: Final = "kubernetes.io/legacy-unknown"
KUBERNETES_SIGNERS: Final = (KUBE_APISERVER_CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN)
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
# How long the certificate of a pod may be valid at least.
POD_CERTIFICATE_S_MIN: Final = HOUR_S


class NotForSigner(ValueError):
    """A signer does not sign a request. The message is Kubernetes', and goes to the requester."""


def validate_signer_name(path: str, name: str) -> Errors:
    """Checks a signer name: `domain/path`, both with dotted parts. Source: ValidateSignerName."""
    if not name:
        return [required(path)]
    segments = name.split("/")
    if len(segments) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    domain, rest = segments
    errors: Errors = []
    if byte_length(domain) > names.SUBDOMAIN_MAX:
        errors.append(too_long(path, names.SUBDOMAIN_MAX))
    errors += _first_bad_part(path, domain, names.dns_label)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, text))
    errors += _first_bad_part(path, rest, names.dns_subdomain)
    if byte_length(name) > _SIGNER_BYTES_MAX:
        errors.append(too_long(path, _SIGNER_BYTES_MAX))
    return errors


def _first_bad_part(path: str, value: str, rule: names.NameRule) -> Errors:
    for part in value.split("."):
        if problems := rule(part):
            texts = [f"validating label {go_quote(part)}: {problem}" for problem in problems]
            return [invalid(path, value, text) for text in texts]
    return []


def is_of_kubernetes(signer: str) -> bool:
    """Returns whether the name of a signer is reserved for the Kubernetes project."""
    host = signer.partition("/")[0]
    return host == "kubernetes.io" or host.endswith(".kubernetes.io")


def pod_certificate_s_max(signer: str) -> int:
    """Returns the maximum lifetime of a pod's certificate by a signer, in seconds."""
    return DAY_S if is_of_kubernetes(signer) else 91 * DAY_S


def validate_user_annotations(path: str, annotations: Mapping[str, str]) -> Errors:
    """Checks the annotations of a pod for its signer."""
    errors: Errors = []
    for key in map(str.lower, annotations):
        if not key:
            errors.append(required(path))
            continue
        problems = names.qualified_name(key)
        if not problems and "/" not in key:
            problems = ['must be a domain-prefixed key (such as "acme.io/foo")']
        errors += [invalid(path, key, problem) for problem in problems]
    size = sum(byte_length(key) + byte_length(value) for key, value in annotations.items())
    return [*errors, too_long(path, ANNOTATIONS_BYTES_MAX)] if size > ANNOTATIONS_BYTES_MAX else errors


# ---- ClusterTrustBundles


def bundle_name_prefix(signer: str) -> str:
    """Returns the prefix for names of a signer's bundles."""
    return signer.replace("/", ":") + ":"


def bundle_name_problems(name: str, signer: str) -> list[str]:
    """Returns the errors in the name of a bundle. signer: empty if it has none."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return names.dns_subdomain(name)
    prefix = bundle_name_prefix(signer)
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return names.dns_subdomain(name.removeprefix(prefix))
