import pytest
from kopf.testing import KopfRunner


@pytest.fixture
def operator(kube, monkeypatch, pytestconfig):
    """Runs the operator with `kopf run` and with the permissions of its service account."""
    kubeconfig = kube.service_account("backup-operator", "backup-operator")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    program = str(pytestconfig.rootpath / "backups.py")
    with KopfRunner(["run", "--all-namespaces", "--standalone", program], timeout=60) as runner:
        yield runner
    assert runner.exception is None, runner.output
