"""The Pod Security Standards: the checks of the levels `baseline` and `restricted`.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/, and for the texts
k8s.io/pod-security-admission, policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from apiserver.admission.configuration.pod_security import BASELINE, PRIVILEGED, RESTRICTED
from apiserver.admission.plugins.pod_specs import containers
from apiserver.meta.field_errors import quote
from apiserver.meta.releases.emulation import DEFAULT_MINOR
from apiserver.meta.vocabulary import Document
from apiserver.schema.validation.documents import at

LATEST_MINOR: Final = DEFAULT_MINOR


class Finding(NamedTuple):
    """A violation of the Pod Security Standards.

    reason: the field that it is about. detail: the containers that violate it, and how.
    """

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


class PodView(NamedTuple):
    """A pod, or a pod template, as checks see it. minor: that of the standards' version."""

    annotations: dict[str, str]
    spec: Document
    minor: int

    @property
    def containers(self) -> Iterator[Document]:
        return containers(self.spec, "initContainers", "containers", "ephemeralContainers")

    @property
    def runs_on_windows(self) -> bool:
        return self.minor >= 25 and at(self.spec, "os", "name") == "windows"

    @property
    def has_users_of_its_own(self) -> bool:
        """Whether the pod has its own user namespace, in which less is forbidden from 1.35 on."""
        return self.minor >= 35 and self.spec.get("hostUsers") is False

    def context(self, *path: str) -> Any:
        """Returns a field of the pod's own security context."""
        return at(self.spec, "securityContext", *path)

    def with_context(self, *path: str) -> Iterator[tuple[str, Any]]:
        """Yields the name of each container, with a field of its security context."""
        for each in self.containers:
            yield each.get("name", ""), at(each, "securityContext", *path)


class Check(NamedTuple):
    """A check of the Pod Security Standards. since: the minor version from which it is part of the standards.

    stricter: the check that replaces it at the next level.
    """

    level: str
    find: Callable[[PodView], Finding | None]
    since: int = 0
    stricter: Callable[[PodView], Finding | None] | None = None


def findings(level: str, minor: int, annotations: dict[str, str], spec: Document) -> list[Finding]:
    """Returns the violations of a pod at a level of the standards of version 1.`minor`."""
    if level == PRIVILEGED:
        return []
    pod = PodView(annotations, spec, min(minor, LATEST_MINOR))
    checks = [c for c in _CHECKS if c.since <= pod.minor and level in (RESTRICTED, c.level)]
    replaced = {c.find for c in checks}
    return [found for c in checks if c.stricter not in replaced and (found := c.find(pod)) is not None]


# ---- words


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(map(quote, values))


def _containers_text(names: list[str], word: str = "container") -> str:
    return f"{_plural(word, len(names))} {_quoted(names)}"


def _uses(names: list[str]) -> str:
    return f"{_containers_text(names)} {'uses' if len(names) == 1 else 'use'}"


def _violators_text(is_pod: bool, names: list[str]) -> str:
    """Returns `pod and containers "a", "b"`; empty if neither violates it."""
    return " and ".join(filter(None, ["pod" if is_pod else "", _containers_text(names) if names else ""]))


# ---- baseline

_SAFE_PROFILES: Final = ("RuntimeDefault", "Localhost")


def _is_unsafe(profile: str | None) -> bool:
    return profile is not None and profile not in _SAFE_PROFILES


_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def _app_armor(pod: PodView) -> Finding | None:
    own = pod.context("appArmorProfile", "type")
    bad = {name: kind for name, kind in pod.with_context("appArmorProfile", "type") if _is_unsafe(kind)}
    told = sorted(
        f"{key}={quote(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APP_ARMOR)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    values = [*sorted({*bad.values(), *([own] if _is_unsafe(own) else ())}), *told]
    if not values:
        return None
    setters = [
        _violators_text(_is_unsafe(own), list(bad)),
        _plural("annotation", len(told)) if told else "",
    ]
    who = " and ".join(filter(None, setters))
    return Finding(
        _plural("forbidden AppArmor profile", len(values)),
        f"{who} must not set AppArmor profile type to {_quoted(values)}",
    )


_USUAL_CAPABILITIES: Final = frozenset(
    """AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID
    SYS_CHROOT""".split()  # noqa: SIM905
)


def _added(pod: PodView, allowed: frozenset[str]) -> str:
    """Returns the disallowed capabilities that containers add; empty if there are none."""
    adding = [(name, set(added or ()) - allowed) for name, added in pod.with_context("capabilities", "add")]
    names = [name for name, added in adding if added]
    if not names:
        return ""
    added = sorted(set().union(*(each for _, each in adding)))
    return f"{_containers_text(names)} must not include {_quoted(added)} in securityContext.capabilities.add"


def _capabilities(pod: PodView) -> Finding | None:
    added = _added(pod, _USUAL_CAPABILITIES)
    return Finding("non-default capabilities", added) if added else None


def _host_namespaces(pod: PodView) -> Finding | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Finding("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(pod: PodView) -> Finding | None:
    names = [each["name"] for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None]
    return Finding("hostPath volumes", _containers_text(names, "volume")) if names else None


def _host_ports(pod: PodView) -> Finding | None:
    names, ports = [], set()
    for each in pod.containers:
        if taken := {str(port["hostPort"]) for port in each.get("ports") or () if port.get("hostPort")}:
            names.append(each.get("name", ""))
            ports |= taken
    if not names:
        return None
    return Finding("hostPort", f"{_uses(names)} {_plural('hostPort', len(ports))} {', '.join(sorted(ports))}")


_HANDLERS: Final = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


def _probed_hosts(pod: PodView) -> Finding | None:
    names, hosts = set(), set()
    for each in pod.containers:
        for handler in _HANDLERS:
            for way in ("httpGet", "tcpSocket"):
                if host := at(each, *handler, way, "host"):
                    names.add(each.get("name", ""))
                    hosts.add(host)
    if not names:
        return None
    word = _plural("probe or lifecycle host", len(hosts))
    return Finding("probe or lifecycle host", f"{_uses(sorted(names))} {word} {_quoted(sorted(hosts))}")


def _privileged(pod: PodView) -> Finding | None:
    names = [name for name, value in pod.with_context("privileged") if value]
    return (
        Finding("privileged", f"{_containers_text(names)} must not set securityContext.privileged=true")
        if names
        else None
    )


def _proc_mount_of_host_users(pod: PodView) -> Finding | None:
    return None if pod.has_users_of_its_own else _proc_mount(pod)


def _proc_mount(pod: PodView) -> Finding | None:
    bad = [(name, value) for name, value in pod.with_context("procMount") if value not in (None, "Default")]
    if not bad:
        return None
    names, values = [name for name, _ in bad], sorted({value for _, value in bad})
    return Finding(
        "procMount", f"{_containers_text(names)} must not set securityContext.procMount to {_quoted(values)}"
    )


_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})


def _se_linux(pod: PodView) -> Finding | None:
    allowed = _SELINUX_TYPES | ({"container_engine_t"} if pod.minor >= 31 else set())

    def is_bad(options: Document | None) -> bool:
        options = options or {}
        kind, user, role = (options.get(field, "") for field in ("type", "user", "role"))
        return kind not in allowed or bool(user or role)

    own = pod.context("seLinuxOptions")
    bad = [(name, options) for name, options in pod.with_context("seLinuxOptions") if is_bad(options)]
    who = _violators_text(is_bad(own), [name for name, _ in bad])
    if not who:
        return None
    found = [options for options in (own, *(each for _, each in bad)) if options]
    types = sorted({each.get("type", "") for each in found} - allowed)
    told = [_containers_text(types, "type")] if types else []
    told += [
        f"{field} may not be set" for field in ("user", "role") if any(each.get(field) for each in found)
    ]
    return Finding("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(told)}")


def _seccomp(pod: PodView) -> Finding | None:
    own = pod.context("seccompProfile", "type")
    bad = {name: kind for name, kind in pod.with_context("seccompProfile", "type") if _is_unsafe(kind)}
    who = _violators_text(_is_unsafe(own), list(bad))
    if not who:
        return None
    values = sorted({*bad.values(), *([own] if _is_unsafe(own) else ())})
    return Finding(
        "seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {_quoted(values)}"
    )


# By the version that took them to be safe.
_SAFE_SYSCTLS: Final = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0,
    "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
}


def _sysctls(pod: PodView) -> Finding | None:
    names = [each.get("name", "") for each in pod.context("sysctls") or ()]
    bad = [name for name in names if _SAFE_SYSCTLS.get(name, pod.minor + 1) > pod.minor]
    return Finding("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(pod: PodView) -> Finding | None:
    path = ("windowsOptions", "hostProcess")
    who = _violators_text(
        bool(pod.context(*path)), [name for name, value in pod.with_context(*path) if value]
    )
    if not who:
        return None
    return Finding("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


# ---- restricted


def _privilege_escalation(pod: PodView) -> Finding | None:
    names = [name for name, value in pod.with_context("allowPrivilegeEscalation") if value is not False]
    if not names or pod.runs_on_windows:
        return None
    return Finding(
        "allowPrivilegeEscalation != false",
        f"{_containers_text(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _unrestricted_capabilities(pod: PodView) -> Finding | None:
    if pod.runs_on_windows:
        return None
    keeping = [
        name for name, dropped in pod.with_context("capabilities", "drop") if "ALL" not in (dropped or ())
    ]
    told = (
        [f'{_containers_text(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    )
    if added := _added(pod, frozenset({"NET_BIND_SERVICE"})):
        told.append(added)
    return Finding("unrestricted capabilities", "; ".join(told)) if told else None


_ALLOWED_VOLUMES: Final = frozenset(
    """configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret""".split()  # noqa: SIM905
)


def _volumes(pod: PodView) -> Finding | None:
    names, kinds = [], set()
    for each in pod.spec.get("volumes") or ():
        found = each.keys() - {"name"}
        if not found & _ALLOWED_VOLUMES:
            names.append(each["name"])
            kinds.add(min(found, default="unknown"))
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    kinds_word = _plural("restricted volume type", len(kinds))
    return Finding(
        "restricted volume types",
        f"{_containers_text(names, 'volume')} {uses} {kinds_word} {_quoted(sorted(kinds))}",
    )


def _run_as_non_root(pod: PodView) -> Finding | None:
    if pod.has_users_of_its_own:
        return None
    own = pod.context("runAsNonRoot")
    values = list(pod.with_context("runAsNonRoot"))
    if who := _violators_text(own is False, [name for name, value in values if value is False]):
        return Finding("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    unsaid = [name for name, value in values if value is None]
    if own or not unsaid:
        return None
    return Finding(
        "runAsNonRoot != true",
        f"pod or {_containers_text(unsaid)} must set securityContext.runAsNonRoot=true",
    )


def _run_as_user(pod: PodView) -> Finding | None:
    if pod.has_users_of_its_own:
        return None
    who = _violators_text(
        pod.context("runAsUser") == 0, [name for name, value in pod.with_context("runAsUser") if value == 0]
    )
    return Finding("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp_is_set(pod: PodView) -> Finding | None:
    if pod.runs_on_windows:
        return None
    if bad := _seccomp(pod):
        return bad
    unsaid = [name for name, kind in pod.with_context("seccompProfile", "type") if kind is None]
    if not unsaid or pod.context("seccompProfile", "type") is not None:
        return None
    return Finding(
        "seccompProfile",
        f"pod or {_containers_text(unsaid)} must set securityContext.seccompProfile.type to "
        '"RuntimeDefault" or "Localhost"',
    )


# In the order of the messages.
_CHECKS: Final = (
    Check(BASELINE, _app_armor),
    Check(BASELINE, _capabilities, stricter=_unrestricted_capabilities),
    Check(BASELINE, _host_namespaces),
    Check(BASELINE, _host_paths, stricter=_volumes),
    Check(BASELINE, _host_ports),
    Check(BASELINE, _probed_hosts, since=34),
    Check(BASELINE, _privileged),
    Check(BASELINE, _proc_mount_of_host_users, stricter=_proc_mount),
    Check(BASELINE, _se_linux),
    Check(BASELINE, _seccomp, since=19, stricter=_seccomp_is_set),
    Check(BASELINE, _sysctls),
    Check(BASELINE, _host_process),
    Check(RESTRICTED, _privilege_escalation, since=8),
    Check(RESTRICTED, _proc_mount, since=35),
    Check(RESTRICTED, _unrestricted_capabilities, since=22),
    Check(RESTRICTED, _volumes),
    Check(RESTRICTED, _run_as_non_root),
    Check(RESTRICTED, _run_as_user, since=23),
    Check(RESTRICTED, _seccomp_is_set, since=19),
)
