"""Encryption at rest as one server has it: what a reload of its configuration does to the event loop."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from tests.support.eventually import WITHIN_S, eventually


def test_a_reload_loads_what_it_needs_beside_the_event_loop(tmp_path: Path) -> None:
    """It takes tenths of a second to import gRPC, which no request should wait for."""
    command = [sys.executable, "-m", __name__, str(tmp_path / "encryption.json")]
    end = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (end.returncode, end.stderr) == (0, "")
    assert json.loads(end.stdout) == {"grpc": False, "nacl": False, "apiserver.storage.encryption.kms": False}


class Imports(MetaPathFinder):
    """Notes of modules whether the main thread was the first to import them."""

    def __init__(self) -> None:
        self.on_main_thread: dict[str, bool] = {}

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        self.on_main_thread[name] = threading.current_thread() is threading.main_thread()


async def reload(path: Path) -> dict[str, bool]:
    """Reload a configuration with all kinds of providers. Returns who has imported what they need."""
    from apiserver.app.encryption import EncryptionAtRest
    from apiserver.meta.brand import Brand
    from apiserver.metrics.encryption import EncryptionMetrics
    from apiserver.storage.encryption.configuration import EncryptionConfiguration

    key = {"name": "key", "secret": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="}
    kms = {"apiVersion": "v2", "name": "absent", "endpoint": f"unix://{path.parent}/kms.sock"}
    providers: list[dict[str, Any]] = [{"secretbox": {"keys": [key]}}, {"kms": kms}]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    content = json.dumps({**kind, "resources": [{"resources": ["secrets"], "providers": providers}]})
    before = EncryptionConfiguration((), "")
    encryption = EncryptionAtRest(path, before, Brand(), EncryptionMetrics("server"), "/registry")
    imports = Imports()
    sys.meta_path.insert(0, imports)
    reloading = asyncio.create_task(encryption.reload([content.encode()]))
    await eventually(
        lambda: reloading.done() or any(each.get_name() == "kms-absent" for each in asyncio.all_tasks())
    )
    reloading.cancel()
    await asyncio.wait((reloading,))
    await encryption.close()
    wanted = ("grpc", "nacl", "apiserver.storage.encryption.kms")
    return {name: imports.on_main_thread[name] for name in wanted}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(reload(Path(sys.argv[1])))))
