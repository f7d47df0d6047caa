"""A real Prometheus that scrapes a server every second, for tests of expressions."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.eventually import WITHIN_S, until
from tests.support.ports import free_port
from tests.support.server_process import ServerProcess

# A vector: the labels of each series, with its value.
Vector = list[tuple[dict[str, str], float]]


class PrometheusProcess:
    """Prometheus on loopback. rules: files of alerts and recording rules. job: of the server that it scrapes.

    Skips the test where Prometheus is not installed.
    """

    def __init__(self, directory: Path, server: ServerProcess, *rules: Path, job: str = "apiserver") -> None:
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("prometheus is missing: https://prometheus.io/download/ has it; it has to be on PATH")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {
                    "job_name": job,
                    "scheme": "https",
                    "tls_config": {"ca_file": str(server.ca_path)},
                    "authorization": {"credentials": "admin-token"},
                    "static_configs": [{"targets": [server.url.removeprefix("https://")]}],
                }
            ],
        }
        path = directory / "prometheus.json"  # JSON is YAML.
        path.write_text(json.dumps(config))
        address = f"127.0.0.1:{free_port()}"
        self._url = f"http://{address}"
        self._command = [
            program,
            f"--config.file={path}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address={address}",
        ]
        self._log = directory / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            until(self._is_ready, what="Prometheus is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(WITHIN_S)
            self._process = None

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=WITHIN_S):
                return True
        except OSError:
            return False

    def query(self, expression: str) -> Vector:
        """Returns the value of an expression now. Prometheus' error is an AssertionError."""
        query = urllib.parse.urlencode({"query": expression})
        found = self._get(f"query?{query}")["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def rules(self) -> list[dict[str, Any]]:
        """Returns the rules with their state."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=WITHIN_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error
