"""Warnings about new pods. Source: pkg/registry/core/pod, strategy.go."""

from __future__ import annotations

from apiserver.catalogue.core.pods.rules import PodRules
from apiserver.catalogue.pod_specs.warnings import pod_warnings
from apiserver.meta import names
from apiserver.meta.vocabulary import Document


def warn_pod(rules: PodRules, new: Document, old: Document | None) -> list[str]:
    """Warns of new pods only: those who change pods are programs."""
    if old is not None:
        return []
    warnings = []
    if problems := names.dns_label(new["metadata"].get("name", "")):
        text = "this is used in the Pod's hostname, which can result in surprising behavior"
        listed = " ".join(problems)
        warnings.append(f"metadata.name: {text}; a DNS label is recommended: [{listed}]")
    return warnings + pod_warnings("", new, has_git_repos=rules.specs.options.git_repos)
