"""Which admission plugins are implemented, which are enabled, and how they are named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from apiserver.admission.configuration.image_policy import ImagePolicy
from apiserver.admission.configuration.plugin_configurations import PluginConfigurations
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugin_names import (
    ALWAYS_ON,
    AUTO_PROVISION,
    IMPLEMENTED,
    KNOWN,
    NOT_IMPLEMENTED,
    OFF_BY_DEFAULT,
    ON_BY_DEFAULT,
    REMOVED,
)
from apiserver.admission.plugins import builtin_plugins
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.auth.authz.configuration import RBAC, of_modes
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.command_line import parse
from apiserver.extensions.host.hooks import ExtensionHooks
from apiserver.load.offload import Offload
from apiserver.meta.brand import Brand
from apiserver.meta.releases.gates import FeatureGates
from apiserver.metrics.admission import AdmissionMetrics
from apiserver.metrics.extensions import ExtensionMetrics
from apiserver.registry.served_resource import ServedTable
from apiserver.storage.embedded import EmbeddedStore
from apiserver.webhooks.client_config import ClientConfig
from apiserver.webhooks.credentials import ClientCredentials
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.kubeconfig import KubeconfigCluster
from tests.support.in_process import TABLE, server

# https://github.com/kubernetes/kubernetes/blob/master/pkg/kubeapiserver/options/plugins.go
IN_ORDER: Final = (
    *("LimitPodHardAntiAffinityTopology", "LimitRanger", "ServiceAccount", "NodeRestriction"),
    *("TaintNodesByCondition", "AlwaysPullImages", "ImagePolicyWebhook"),
    *("PodSecurity", "PodNodeSelector", "Priority"),
    *("DefaultTolerationSeconds", "PodTolerationRestriction", "EventRateLimit"),
    *("ExtendedResourceToleration", "DefaultStorageClass", "StorageObjectInUseProtection"),
    *("OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass"),
    *("CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest"),
    *("CertificateSubjectRestriction", "DefaultIngressClass", "DenyServiceExternalIPs"),
    *("PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator"),
    *("MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"),
    *("ValidatingAdmissionWebhook", "ResourceQuota", "AlwaysDeny"),
)

# Those that are there only if a feature gate is on.
GATED: Final = ("PodTopologyLabels", "NodeDeclaredFeatureValidator")

# Without this, there is no plugin to ask about images.
IMAGES: Final = ImagePolicy(
    KubeconfigCluster("https://a"), ClientCredentials(), 0, 0, 0, allows_by_default=False
)
CONFIGURED: Final = PluginConfigurations(image_policy=IMAGES)


class NobodyAnswers:
    async def post(self, client: ClientConfig, body: bytes, timeout_s: int) -> Any:
        raise CallFailed("nobody answers")


async def test_those_listed_as_implemented_are_those_that_are_built(store: EmbeddedStore) -> None:
    async with server(store) as registry:

        def built(*names: str, modes: Sequence[str] = (), minor: int = 36) -> list[str]:
            authorizers = Authorizers(of_modes(modes), Brand(), lambda: True)
            context = PluginContext(
                registry,
                ServedTable(TABLE),
                Brand(),
                authorizers,
                Offload(),
                ExtensionHooks(ExtensionMetrics()),
            )
            plugins = builtin_plugins(
                context,
                CONFIGURED,
                lambda _: NobodyAnswers(),
                AdmissionMetrics(),
                names.__contains__,
                FeatureGates(minor),
            )
            return [plugin.name for plugin in plugins]

        known = KNOWN - REMOVED.keys()
        assert built(*known) == ["", "", "", *IN_ORDER, ""], "each once, in kube-apiserver's order"
        older = ["", *(name for name in IN_ORDER if name not in GATED), ""]
        assert built(*KNOWN, minor=19) == older, "without those of gates, and those that were removed"
        assert {*IN_ORDER, AUTO_PROVISION} == IMPLEMENTED
        assert built("Priority", "PodSecurity") == ["", "", "", "PodSecurity", "Priority", ""], (
            "in their own order"
        )
        assert built() == ["", "", "", ""], "certificates of pods, two of claims, parameters of policies"
        assert built(minor=35) == ["", "", ""], "nobody checked who changed which part of a claim's status"
        assert built(minor=33) == ["", ""], "nobody checked who had devices in use"
        assert built("Priority", modes=[RBAC]) == ["", "", "", "Priority", "", ""], "then that for escalation"


def test_a_name_is_in_one_list() -> None:
    assert not ON_BY_DEFAULT & OFF_BY_DEFAULT
    assert len(KNOWN) == len(IMPLEMENTED) + len(ALWAYS_ON) + len(NOT_IMPLEMENTED) + len(REMOVED)
    assert NamespaceLifecycle.__name__ in ALWAYS_ON


def test_help_names_those_that_are_implemented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help-all"])
    words = set(re.findall(r"\w+", capsys.readouterr().out))
    assert words >= IMPLEMENTED
    assert not words & NOT_IMPLEMENTED


def test_what_is_enabled_by_default() -> None:
    config = parse([])
    assert {name for name in IMPLEMENTED if config.admission.runs_admission_plugin(name)} == ON_BY_DEFAULT


def test_others_are_enabled_by_name() -> None:
    config = parse(["--enable-admission-plugins=NodeRestriction", "--enable-admission-plugins=AlwaysDeny"])
    on = {name for name in IMPLEMENTED if config.admission.runs_admission_plugin(name)}
    assert on == ON_BY_DEFAULT | {"NodeRestriction", "AlwaysDeny"}
    assert config.warnings == ()


def test_some_are_switched_off() -> None:
    config = parse(
        ["--disable-admission-plugins=ServiceAccount, Priority", "--disable-admission-plugins=LimitRanger"]
    )
    off = {name for name in ON_BY_DEFAULT if not config.admission.runs_admission_plugin(name)}
    assert off == {"ServiceAccount", "Priority", "LimitRanger"}


def test_an_empty_list_takes_back_those_before() -> None:
    config = parse(["--disable-admission-plugins=Priority", "--disable-admission-plugins="])
    assert config.admission.runs_admission_plugin("Priority")


def test_to_name_one_that_is_on_changes_nothing() -> None:
    config = parse(["--enable-admission-plugins=ServiceAccount,NamespaceLifecycle"])
    assert config.admission.runs_admission_plugin("ServiceAccount")
    assert config.admission.runs_admission_plugin("Priority")
    assert config.warnings == ()


WARNED: Final = {
    "one that is not implemented": (
        "--enable-admission-plugins=JobValidation",
        "JobValidation is not implemented by this server: enabling it has no effect yet",
    ),
    "T11 one that later releases have not": (
        "--enable-admission-plugins=PodSecurityPolicy",
        "PodSecurityPolicy is not implemented by this server: enabling it has no effect yet",
    ),
    "another one": (
        "--enable-admission-plugins=PodPreset",
        "PodPreset is not implemented by this server: enabling it has no effect yet",
    ),
    "one that cannot be disabled": (
        "--disable-admission-plugins=NamespaceLifecycle",
        "NamespaceLifecycle is always on: disabling it has no effect",
    ),
}


@pytest.mark.parametrize(("flag", "text"), WARNED.values(), ids=WARNED)
def test_what_is_warned_about(flag: str, text: str) -> None:
    """A start script can swap the binaries."""
    (warning,) = parse(["--emulated-version=1.19", flag]).warnings
    assert warning == f"admission plugin {text}"


def test_to_disable_one_that_is_not_implemented_is_no_reason_to_warn() -> None:
    assert parse(["--disable-admission-plugins=JobValidation"]).warnings == ()


@pytest.mark.parametrize("plugin", REMOVED)
def test_t11_a_plugin_that_later_releases_have_not_is_off_by_default(plugin: str) -> None:
    release = f"--emulated-version=1.{REMOVED[plugin] - 1}"
    assert not parse([release]).admission.runs_admission_plugin(plugin)
    assert parse([release, f"--enable-admission-plugins={plugin}"]).admission.runs_admission_plugin(plugin)
    assert parse([release, f"--disable-admission-plugins={plugin}"]).warnings == ()


REFUSED: Final = {
    "T11 one that is gone": (
        ["--emulated-version=1.25", "--enable-admission-plugins=PodSecurityPolicy"],
        "--enable-admission-plugins: Kubernetes 1.25 has no admission plugin 'PodSecurityPolicy'",
    ),
    "T11 one that is gone, disabled": (
        ["--disable-admission-plugins=PodSecurityPolicy"],
        "--disable-admission-plugins: Kubernetes 1.36 has no admission plugin 'PodSecurityPolicy'",
    ),
    "one that went with its API": (
        ["--emulated-version=1.20", "--enable-admission-plugins=PodPreset"],
        "--enable-admission-plugins: Kubernetes 1.20 has no admission plugin 'PodPreset'",
    ),
    "one that nobody knows": (["--enable-admission-plugins=Garbage"], "'Garbage' is not an admission plugin"),
    "in lower case": (["--disable-admission-plugins=priority"], "'priority' is not an admission plugin"),
    "both": (
        ["--enable-admission-plugins=Priority", "--disable-admission-plugins=Priority"],
        "both contain Priority",
    ),
}


@pytest.mark.parametrize(("flags", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(flags: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse(flags)
