"""A server in a container, for testcontainers: `with ApiServerContainer() as server:`.

This module requires the library testcontainers, a container engine, and the image of this project's
Dockerfile. `apiserver.testing.ApiServer` runs the same server without a container.
"""

from __future__ import annotations

import base64
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml

try:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.exceptions import ContainerStartException
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy
except ImportError as error:
    raise ImportError(f"{__name__} requires testcontainers: pip install testcontainers") from error

from apiserver import __version__
from apiserver.testing.errors import ServerStopped

PORT: Final = 6443
# As `docker build --tag` of the Dockerfile makes it.
IMAGE: Final = f"apiserver:{__version__}"
_KUBECONFIG_IN_IMAGE: Final = "/var/lib/apiserver/admin.kubeconfig"
# As text, or as JSON with --logging-format=json.
_READY: Final = re.compile(r'^ready https://|^\{.*"msg":"ready"', re.MULTILINE)
# Names that each certificate of a server has, wherever it runs.
_CERTIFIED: Final = ("localhost", "127.0.0.1")


class ApiServerContainer(DockerContainer):
    """Runs a server in a container, with all features of testcontainers. The server keeps its objects in
    memory.

    image: the container image. The default is the image for this package's version.
    flags: command-line flags for the server. The `apiserver --help` command lists all flags.
    options: additional arguments for the constructor of `DockerContainer`.

    A `with` block starts the container, waits until the server is ready, and removes the container at the
    end. The properties raise ServerStopped if the server is not running.
    """

    def __init__(self, image: str = IMAGE, *, flags: Sequence[str] = (), **options: Any) -> None:
        super().__init__(image, **options)
        self._directory: Path | None = None
        self._kubeconfig: dict[str, Any] = {}
        self.with_exposed_ports(PORT)
        self.with_command(["--storage-backend=memory", *flags])
        self.waiting_for(LogMessageWaitStrategy(_READY))

    def start(self) -> Self:
        """Starts the container, and returns when the server is ready."""
        super().start()
        read = self.get_wrapped_container().exec_run(["cat", _KUBECONFIG_IN_IMAGE])
        if read.exit_code:
            raise ContainerStartException(f"{_KUBECONFIG_IN_IMAGE} cannot be read: {read.output.decode()}")
        url = f"https://{self.get_container_host_ip()}:{self.get_exposed_port(PORT)}"
        self._kubeconfig = kubeconfig_from_outside(read.output, url)
        self._directory = directory = Path(tempfile.mkdtemp(prefix="apiserver-container-"))
        # It contains the administrator's key; mkdtemp makes it private.
        (directory / "admin.kubeconfig").write_text(yaml.safe_dump(self._kubeconfig))
        (directory / "ca.crt").write_bytes(
            base64.b64decode(self._kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"])
        )
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        super().stop(force, delete_volume)

    @property
    def url(self) -> str:
        """The URL of the server, for example `https://localhost:49153`."""
        self._own_directory("url")
        server: str = self._kubeconfig["clusters"][0]["cluster"]["server"]
        return server

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig. The file is removed together with the container."""
        return self._own_directory("kubeconfig") / "admin.kubeconfig"

    @property
    def kubeconfig_dict(self) -> dict[str, Any]:
        """The content of the administrator's kubeconfig."""
        self._own_directory("kubeconfig_dict")
        return self._kubeconfig

    @property
    def ca(self) -> Path:
        """The path of the PEM file with the CA certificate that verifies the server."""
        return self._own_directory("ca") / "ca.crt"

    def _own_directory(self, asked: str) -> Path:
        if self._directory is None:
            raise ServerStopped(asked)
        return self._directory


def kubeconfig_from_outside(content: bytes, url: str) -> dict[str, Any]:
    """Returns a kubeconfig from inside a container, changed for clients outside of it.

    url: the URL that they use. If the certificate does not contain its host, it is verified by a name that it
        contains.
    """
    document: dict[str, Any] = yaml.safe_load(content)
    for each in document["clusters"]:
        each["cluster"]["server"] = url
        if urlsplit(url).hostname not in _CERTIFIED:
            each["cluster"]["tls-server-name"] = _CERTIFIED[0]
    return document
