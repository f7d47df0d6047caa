"""Checks of webhook addresses and review versions: of admission and of conversion alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.golang.urls import InvalidUrl, parse
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import follows

REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_URL_FORM: Final = "; desired format: https://host[/path]"


def review_versions(path: str, versions: Sequence[str], *, needs_known: bool = True) -> Errors:
    """Checks the versions of reviews that a webhook accepts."""
    errors: Errors = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        where = f"{path}[{index}]"
        if version in seen:
            errors.append(invalid(where, version, "duplicate version"))
        else:
            errors += follows(where, version, names.dns1035_label)
        seen.add(version)
    if needs_known and seen.isdisjoint(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors


def client_config(path: str, config: Document) -> Errors:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is not None:
        return webhook_service(f"{path}.service", service)
    return webhook_url(f"{path}.url", str(url))


def webhook_url(path: str, text: str) -> Errors:
    """Checks the URL of a webhook. Source: k8s.io/apiserver, pkg/util/webhook, ValidateWebhookURL."""
    try:
        url = parse(text)
    except InvalidUrl as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    errors: Errors = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    if not url.host:
        errors.append(invalid(path, url.host, f"host must be specified{_URL_FORM}"))
    if url.user is not None:
        errors.append(invalid(path, url.user, "user information is not permitted in the URL"))
    if url.fragment:
        fragment = url.fragment.decode("utf-8", "replace")
        errors.append(invalid(path, fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def webhook_service(path: str, service: Document) -> Errors:
    """Checks the reference to a webhook's Service.

    Source: ValidateWebhookService, which Kubernetes calls with name and namespace exchanged.
    """
    errors: Errors = [
        required(f"{path}.{shown}")
        for shown, field in (("name", "namespace"), ("namespace", "name"))
        if not service.get(field)
    ]
    port, url_path = service.get("port"), service.get("path")
    if port is not None and not 1 <= port <= 65_535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.port", port, text))
    if url_path and url_path != "/":
        errors += _url_path(f"{path}.path", url_path)
    return errors


def _url_path(path: str, url_path: str) -> Errors:
    if url_path == "//":
        return [invalid(path, url_path, "segment[0] may not be empty")]
    errors: Errors = []
    if not url_path.startswith("/"):
        errors.append(invalid(path, url_path, "must start with a '/'"))
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            errors.append(invalid(path, url_path, f"segment[{index}] may not be empty"))
            continue
        problems = names.dns_subdomain(segment)
        errors += [invalid(path, url_path, f"segment[{index}]: {problem}") for problem in problems]
    return errors
