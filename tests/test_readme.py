"""What README.md and the pages of docs/ say of flags, plugins, controllers, limits and dependencies is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from apiserver.admission import plugin_names
from apiserver.auth.authz.rbac import rule_coverage
from apiserver.cli import flag_values
from apiserver.cli.config import Config
from apiserver.cli.flags import SECTIONS
from apiserver.cli.kube_apiserver_flags import NOT_NEEDED, REFUSED
from apiserver.endpoints import body_limits, connection
from apiserver.storage import interface
from apiserver.testkit.simulation import kubelet, node_controller, scheduler
from apiserver.testkit.simulation.workloads import controller as workloads

ROOT: Final = Path(__file__).parent.parent
SERVING: Final = Config().serving
README: Final = (ROOT / "README.md").read_text()
PYPROJECT: Final = (ROOT / "pyproject.toml").read_text()
LINES_MAX: Final = 200
# The pages about testing have tests of their own; those of the reference that are generated, too.
PAGES: Final = "\n\n".join(
    path.read_text()
    for folder in ("tutorials", "operating", "developing", "reference", "explanation")
    for path in sorted((ROOT / "docs" / folder).glob("*.md"))
    if path.name
    not in {"test-an-operator.md", "flags.md", "metrics.md", "feature-gates.md", "command-line.md"}
)
ALL: Final = f"{README}\n\n{PAGES}"
# Flags of the other programs, and of subcommands, that it shows.
OTHERS: Final = {
    "kubectl": {
        "for",
        "all-namespaces",
        "as",
        "as-group",
        "cascade",
        "clusterrole",
        "timeout",
        "dry-run",
        "from-file",
        "from-literal",
        "group",
        "image",
        "list",
        "non-resource-url",
        "raw",
        "serviceaccount",
    }
    | {"recursive", "resource", "role", "type", "user", "verb", "watch"}
    | {"certificate-authority", "cluster", "embed-certs", "kubeconfig", "namespace", "output"}
    | {"image", "resource-name", "server", "subresource", "token"},
    "apiserver audit": {"by", "denied"},
    "apiserver conformance": {"area", "features", "kubeconfig", "server", "token-alice", "webhook-host"},
    "apiserver console": {"kubeconfig", "no-open"},
    "apiserver convert": {"output-version", "strict"},
    "apiserver crd": {"release"},
    "apiserver deprecations": {"fail-in", "kubeconfig", "server", "token-file", "certificate-authority"},
    "apiserver history": {"all-of-namespace", "before", "by", "change", "since", "until"},
    "apiserver snapshot": {"force", "initial-cluster", "initial-cluster-token"},
    "apiserver top": {"by", "kubeconfig", "sort"},
    "apiserver storage": {
        *{"after", "allow-running-source", "bump-revision", "force", "from", "objects-of", "rate", "to"},
        *{f"{side}-etcd-{name}" for side in ("from", "to") for name in ("cafile", "certfile", "keyfile")},
    },
    "curl": {"cacert", "data", "header", "request"},
    "docker": {"build", "detach", "name", "no-deps", "publish", "read-only", "rm", "tag", "tmpfs", "volume"},
    "etcd": {"election-timeout", "heartbeat-interval", "quota-backend-bytes", "trusted-ca-file"},
    "etcdctl": {"cluster", "command-timeout", "endpoints", "physical", "write-out"},
    "etcdutl": {"bump-revision", "initial-advertise-peer-urls", "mark-compacted", "name"},
    "kubectl apply": {"filename", "force-conflicts"},
    "kubectl patch": {"patch"},
    "make bench": {"store"},
    "make release": {"commit", "no-image"},
    "mypy": {"strict"},
    "make fuzz, soak": {"minutes"},
    "pip": {"constraint", "editable", "find-links", "no-deps", "no-index", "wheel-dir"},
    "prepare.py": {"directory", "name", "print-kubeconfig", "url"},
    "sed": {"in-place"},
    "sha256sum": {"check"},
    "systemctl": {"now"},
}


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= LINES_MAX


def test_passing_conversations_are_those_of_the_conformance_page() -> None:
    total = re.search(r"\*\*total\*\* \| (\d+) \| (\d+)", PAGES)
    assert total
    assert ALL.count(f"{total[2]} of the {total[1]}") == 2  # in the README and among the features


def test_flags_exist() -> None:
    ours = {flag.name.removeprefix("--") for flags in SECTIONS.values() for flag in flags} | {
        "config",
        "help",
        "help-all",
        "version",
        *NOT_NEEDED,
        *REFUSED,
    }
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z])(?![a-z]|-…)", ALL))
    assert named - ours - set().union(*OTHERS.values()) == set()


def rows(header: str) -> list[list[str]]:
    """The cells of all tables with this header."""
    tables = [each.partition("\n")[2].partition("\n\n")[0] for each in ALL.split(f"{header}\n|---")[1:]]
    assert tables, header
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for table in tables
        for line in table.splitlines()
    ]


def test_all_controllers_are_listed() -> None:
    named = [name for row in rows("| controller | task |") for name in re.findall(r"`([a-z-]+)`", row[0])]
    assert sorted(named) == sorted(flag_values.CONTROLLERS)


def test_all_simulated_components_are_listed() -> None:
    named = [
        name for row in rows("| controller | flag | task |") for name in re.findall(r"`([a-z-]+)`", row[0])
    ]
    assert sorted(named) == sorted(each.NAME for each in (node_controller, scheduler, kubelet, workloads))


def test_admission_plugins_are_those_that_run() -> None:
    for before, names in (
        ("These plugins are on by default, as in kube-apiserver: ", plugin_names.ON_BY_DEFAULT),
        ("These plugins are off by default: ", plugin_names.OFF_BY_DEFAULT),
    ):
        named = re.split(r",\s+", ALL.partition(before)[2].partition(".")[0])
        assert len(named) == len({*named})
        assert {*named} == names


LIMITS: Final = {
    "size of a request body": f"{connection.BODY_BYTES_MAX // 2**20} MiB",
    "size of a stored object, as JSON": f"{interface.VALUE_BYTES_MAX / 2**20:g} MiB",
    "request headers": (
        f"{connection.HEADER_BYTES_MAX // 2**10} KiB in total, and {connection.HEADERS_MAX} headers"
    ),
    "time until the response to a request is ready, except for watches": f"{SERVING.request_timeout_s:.0f} s",
    "time that a connection can stay open without a complete request": f"{connection.IDLE_TIMEOUT_S:.0f} s",
    "steps to check that a role's author has all permissions in the role": f"{rule_coverage.STEPS_MAX:,}",
    "requests in flight": (
        f"{SERVING.max_requests_inflight} reads and {SERVING.max_mutating_requests_inflight} writes"
    ),
    "request bodies that the server is receiving": (
        f"{body_limits.LARGE_BODIES_BYTES_MAX // 2**20} MiB for bodies over "
        f"{body_limits.SMALL_BODY_BYTES // 2**10} KiB, and "
        f"{body_limits.SMALL_BODIES_BYTES_MAX // 2**20} MiB for all other bodies"
    ),
    "minimum speed of a request body": f"{body_limits.BYTES_PER_PERIOD_MIN // 2**10} KiB in 5 s",
    "age of the old object versions that clients can list and watch": (
        f"{Config().storage.etcd_compaction_interval_s / 60:.0f} minutes"
    ),
}


@pytest.mark.parametrize(("what", "limit"), LIMITS.items(), ids=LIMITS)
def test_limits(what: str, limit: str) -> None:
    told = {row[0]: row[1] for row in rows("| subject | limit | effect above the limit |")}
    assert limit in told[what]


def test_all_dependencies_have_a_reason() -> None:
    project = tomllib.loads(PYPROJECT)["project"]
    needed = {re.split(r"[>=<;\[]", text)[0] for text in project["dependencies"]}
    tested = {re.split(r"[>=<;\[]", text)[0] for text in project["optional-dependencies"]["test"]}
    built = {re.split(r"[>=]", text)[0] for text in tomllib.loads(PYPROJECT)["build-system"]["requires"]}
    extras = {
        f"the extra `{extra}`": {
            re.split(r"[>=<;\[]", text)[0] for text in project["optional-dependencies"][extra]
        }
        for extra in ("helm", "tracing")
    }
    listed: dict[str, set[str]] = {of: set() for of in ("", "tests", "the build", *extras)}
    for name, _ in rows("| package | purpose |"):
        of, _, names = name.removeprefix("*").rpartition(":* ")
        listed[of].update(names.split(", "))
    assert listed == {
        "": needed,
        "tests": tested - {"apiserver"},  # with the extra
        "the build": built - needed,
        **{of: names - {"apiserver"} for of, names in extras.items()},
    }


# String literals that look like the names of annotations and labels.
_NAME: Final = re.compile(
    r'"((?:[a-z0-9-]+\.)*(?:simulate\.apiserver|kubernetes\.io|k8s\.io)/[A-Za-z0-9._-]*)"'
)
_API_VERSION: Final = re.compile(r"/v\d\w*$")
OTHER_NAMES: Final = {
    "finalizers": {
        "kubernetes.io/pvc-protection",
        "kubernetes.io/pv-protection",
        "kubernetes.io/vac-protection",
    }
    | {"batch.kubernetes.io/job-tracking"},
    "types of Secrets": {
        "bootstrap.kubernetes.io/token",
        *(
            f"kubernetes.io/{each}"
            for each in (
                *("basic-auth", "dockercfg", "dockerconfigjson", "service-account-token", "ssh-auth", "tls"),
            )
        ),
    },
    "signers": {
        f"kubernetes.io/{each}"
        for each in (
            *("kube-apiserver-client", "kube-apiserver-client-kubelet", "kube-apiserver-serving"),
            *("kubelet-serving", "legacy-unknown"),
        )
    },
    "managers of Jobs": {"kubernetes.io/job-controller"},
    "what names begin with": {"kubernetes.io/"},
}


def test_all_annotations_and_labels_are_listed() -> None:
    """Those that the code has as they are, without a brand."""
    page = (ROOT / "docs" / "reference" / "annotations.md").read_text()
    named = {
        name
        for path in (ROOT / "apiserver").rglob("*.py")
        for name in _NAME.findall(path.read_text())
        if not _API_VERSION.search(name)
    }
    assert "kubernetes.io/limit-ranger" in named
    assert {name for name in named.difference(*OTHER_NAMES.values()) if f"`{name}" not in page} == set()


def test_unit_tests_mirror_the_packages() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert {folder for folder in folders if not (ROOT / "apiserver" / folder).is_dir()} == set()
