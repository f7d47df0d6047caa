"""kubectl in a namespace of its own on the shared server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.kubectl_apply.applier import Applier
from tests.support.api import Api
from tests.support.kubectl import oldest_and_newest, program
from tests.support.server_process import ServerProcess


@pytest.fixture(params=oldest_and_newest())
def kubectl(
    request: pytest.FixtureRequest, server: ServerProcess, api: Api, namespace: str, tmp_path: Path
) -> Applier:
    return Applier(program(request.param), server.kubeconfig, namespace, tmp_path, api)
