"""Reads the file of `--admission-control-config-file`, which configures each plugin.

Source: k8s.io/apiserver, pkg/admission/config.go and pkg/apis/apiserver/v1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from apiserver.admission import plugin_names
from apiserver.admission.configuration import image_policy, pod_node_selector
from apiserver.admission.configuration.plugin_configurations import PARSERS, REQUIRED, PluginConfigurations
from apiserver.meta.brand import Brand
from apiserver.webhooks.kubeconfig import ReadFile
from apiserver.wire.configuration_fields import ConfigurationObject, InvalidConfiguration, decode

_KIND: Final = "AdmissionConfiguration"
# Files that configured one plugin each, before there was this kind.
_FORMER: Final = {
    image_policy.FIELD: "ImagePolicyWebhook",
    pod_node_selector.FIELD: "PodNodeSelector",
}


def read_admission_configuration(
    path: Path | None, brand: Brand, is_on: Callable[[str], bool], read: ReadFile = Path.read_bytes
) -> tuple[PluginConfigurations, list[str]]:
    """Returns the configuration of the enabled plugins in a file, and warnings.

    path: None if there is no file. is_on: whether the plugin of a name is enabled.
    Raises InvalidConfiguration.
    """

    def content(file: Path) -> bytes:
        try:
            return read(file)
        except OSError as error:
            raise InvalidConfiguration(f"cannot read {file}: {error.strerror or error}") from None

    documents: dict[str, Any] = {}
    if path is not None:
        text = content(path)
        try:
            documents = _documents(decode(text), path, brand, content)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{path}: {error}") from None
    values: dict[str, Any] = {}
    for name in documents:
        if is_on(name) and (parser := PARSERS.get(name)) is not None:
            try:
                field, parse = parser
                values[field] = parse(documents[name], brand, content)
            except InvalidConfiguration as error:
                raise InvalidConfiguration(f"{path}: {name}: {error}") from None
    for name in REQUIRED:
        if is_on(name) and name not in documents:
            raise InvalidConfiguration(f"the admission plugin {name} must be configured in a file")
    unknown = documents.keys() - plugin_names.KNOWN
    return PluginConfigurations(**values), [
        f"{path}: {name!r} is not an admission plugin" for name in sorted(unknown)
    ]


def _documents(document: Any, path: Path, brand: Brand, read: ReadFile) -> dict[str, Any]:
    """Returns the document that configures each plugin. Raises InvalidConfiguration."""
    with ConfigurationObject(document) as fields:
        if not fields.has("kind") and (
            former := [name for field, name in _FORMER.items() if fields.has(field)]
        ):
            for field in document:
                fields.any(field)
            return dict.fromkeys(former, document)
        fields.require_kind(
            (f"{brand.group('apiserver.config')}/v1", _KIND),
            (f"{brand.group('apiserver')}/v1alpha1", _KIND),
        )
        documents: dict[str, Any] = {}
        for each in fields.objects("plugins"):
            with each:
                name, file = each.text("name"), each.text("path")
                configuration = each.any("configuration")
            if not name:
                raise each.fail("name", "is required")
            if name in documents:
                continue  # The first one counts.
            if configuration is not None:
                documents[name] = configuration
            elif file:
                documents[name] = _of_file(path.parent / file, read)
        return documents


def _of_file(path: Path, read: ReadFile) -> Any:
    """Returns the configuration of a plugin in a file."""
    content = read(path)
    try:
        return decode(content)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{path}: {error}") from None
