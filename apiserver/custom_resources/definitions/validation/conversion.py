"""Validates how the versions of a CustomResourceDefinition are converted (row S02).

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from apiserver.golang.pem import NoCertificate, bundle_certificates
from apiserver.meta.field_errors import Errors, forbidden, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.checks import one_of
from apiserver.schema.validation.documents import at
from apiserver.schema.validation.webhooks import REVIEW_VERSIONS, client_config, review_versions

_STRATEGIES: Final = ("None", "Webhook")


def validate_conversion(
    path: str, conversion: Document, *, needs_known_review_version: bool, checks_ca_bundle: bool
) -> Errors:
    errors = one_of(f"{path}.strategy", conversion.get("strategy"), _STRATEGIES, required_text="")
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    config_path, versions_path = f"{path}.webhookClientConfig", f"{path}.conversionReviewVersions"
    if conversion.get("strategy") != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        errors += [forbidden(config_path, text)] if config is not None else []
        return errors + ([forbidden(versions_path, text)] if versions else [])
    if config is None:
        errors.append(required(config_path, "required when strategy is set to Webhook"))
    else:
        errors += _client_config(config_path, config, checks_ca_bundle=checks_ca_bundle)
    if not versions:
        return [*errors, required(versions_path)]
    return errors + review_versions(versions_path, versions, needs_known=needs_known_review_version)


def _client_config(path: str, config: Document, *, checks_ca_bundle: bool) -> Errors:
    errors, bundle = client_config(path, config), config.get("caBundle")
    if bundle and checks_ca_bundle and (problem := _ca_bundle_problem(bundle)):
        errors.append(invalid(f"{path}.caBundle", bundle, f"unable to load root certificates: {problem}"))
    return errors


def _ca_bundle_problem(bundle: str) -> str:
    """Returns why PEM in base64 contains no readable certificate; empty if it contains one."""
    try:
        bundle_certificates(base64.b64decode(bundle))
    except (NoCertificate, binascii.Error) as error:
        return str(error)
    return ""


def has_known_review_version(document: Document) -> bool:
    versions = at(document, "spec", "conversion", "webhook", "conversionReviewVersions")
    return not versions or not set(versions).isdisjoint(REVIEW_VERSIONS)


def has_valid_ca_bundle(document: Document) -> bool:
    """Whether the CA bundle is valid, or absent."""
    bundle = at(document, "spec", "conversion", "webhook", "clientConfig", "caBundle")
    return not (bundle and _ca_bundle_problem(bundle))
