"""Which of the two ways of validation decides, by feature gates. Rows H05, H06, H07."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Api
from tests.support.metrics import metrics_of
from tests.support.server_process import ServerProcess

AUTOSCALERS: Final = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
# One error that both ways find, with another text, and one that only the checks look for.
WRONG: Final = {
    "metadata": {"name": "a"},
    "spec": {"maxReplicas": 0, "scaleTargetRef": {"kind": "", "name": "a"}},
}
OF_CHECKS: Final = "spec.maxReplicas: Required value: must be set and greater than 0,"
OF_RULES: Final = "spec.maxReplicas: Required value]"
DECIDES: Final = {
    "H05 the checks": ((), OF_CHECKS),
    "H06 the rules": (("--feature-gates=DeclarativeValidationTakeover=true",), OF_RULES),
    "H07 nothing takes over": (
        ("--feature-gates=DeclarativeValidationTakeover=true,DeclarativeValidation=false",),
        OF_CHECKS,
    ),
}


@pytest.mark.parametrize(("flags", "expected"), DECIDES.values(), ids=DECIDES)
def test_who_decides(tmp_path: Path, flags: tuple[str, ...], expected: str) -> None:
    """Both ways agree about the field, so that nothing is counted. Rules are about every version."""
    with ServerProcess(tmp_path, *flags) as server, Api(server) as api:
        for version in ("v1", "v2"):
            refused = api.post(AUTOSCALERS.format(version), WRONG)
            assert refused.status == 422
            assert expected in refused.message
            assert "spec.scaleTargetRef.kind: Required value" in refused.message
        metrics = metrics_of(api).splitlines()
    for name in ("mismatch", "panic"):
        assert f"apiserver_validation_declarative_validation_{name}_total 0" in metrics
