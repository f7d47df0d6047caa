"""Builds the metrics of one server, which `exposition` makes the text of /metrics from."""

from __future__ import annotations

import asyncio
import platform
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from apiserver.app.secure_serving import SecureServing
from apiserver.cli.config import Config
from apiserver.endpoints.calls_under_way import CallsUnderWay
from apiserver.meta.vocabulary import GroupResource
from apiserver.metrics.admission import AdmissionMetrics
from apiserver.metrics.audit import AuditMetrics
from apiserver.metrics.authentication import AuthenticationMetrics
from apiserver.metrics.authorization import AuthorizationMetrics
from apiserver.metrics.certificates import CertificateMetrics
from apiserver.metrics.client_usage import ClientUsage
from apiserver.metrics.controllers import (
    GarbageCollectorMetrics,
    LeaderElectionMetrics,
    NodeGraphMetrics,
    StorageMigrationMetrics,
)
from apiserver.metrics.conversion_webhooks import ConversionWebhookMetrics
from apiserver.metrics.encryption import EncryptionMetrics
from apiserver.metrics.event_loop import EventLoopMonitor
from apiserver.metrics.expressions import ExpressionMetrics
from apiserver.metrics.extensions import ExtensionMetrics
from apiserver.metrics.request_filters import ImpersonationMetrics
from apiserver.metrics.requests import RequestMetrics
from apiserver.metrics.resource_series import ServedNames
from apiserver.metrics.storage import StorageMetrics, resources_of_keys
from apiserver.metrics.validation import ValidationMetrics
from apiserver.metrics.work_queues import WorkQueueMetrics


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Metrics:
    """The counters and measurements of a running server.

    resource_of: returns the group and the resource whose keys begin with a prefix.
    served_names: which resources have series.
    clients: the requests of the last minutes by client.
    """

    resource_of: Callable[[str], GroupResource]
    served_names: ServedNames
    clients: ClientUsage
    requests: RequestMetrics
    admission: AdmissionMetrics = field(default_factory=AdmissionMetrics)
    authentication: AuthenticationMetrics
    authorization: AuthorizationMetrics
    impersonation: ImpersonationMetrics = field(default_factory=ImpersonationMetrics)
    audit: AuditMetrics = field(default_factory=AuditMetrics)
    certificates: CertificateMetrics
    storage: StorageMetrics
    encryption: EncryptionMetrics
    conversion_webhooks: ConversionWebhookMetrics = field(default_factory=ConversionWebhookMetrics)
    extensions: ExtensionMetrics = field(default_factory=ExtensionMetrics)
    storage_migrations: StorageMigrationMetrics = field(default_factory=StorageMigrationMetrics)
    validation: ValidationMetrics = field(default_factory=ValidationMetrics)
    expressions: ExpressionMetrics = field(default_factory=ExpressionMetrics)
    node_graph: NodeGraphMetrics = field(default_factory=NodeGraphMetrics)
    work_queues: WorkQueueMetrics = field(default_factory=WorkQueueMetrics)
    leader_election: LeaderElectionMetrics = field(default_factory=LeaderElectionMetrics)
    garbage_collector: GarbageCollectorMetrics = field(default_factory=GarbageCollectorMetrics)
    calls: CallsUnderWay
    event_loop: EventLoopMonitor


def build_metrics(config: Config, serving: SecureServing) -> Metrics:
    resource_of = resources_of_keys(config.storage.etcd_prefix)
    served_names = ServedNames()
    calls = CallsUnderWay()
    clients = ClientUsage(time.monotonic)
    return Metrics(
        resource_of=resource_of,
        served_names=served_names,
        clients=clients,
        requests=RequestMetrics(served_names, clients),
        authentication=AuthenticationMetrics(socket.gethostname()),
        authorization=AuthorizationMetrics(socket.gethostname()),
        certificates=CertificateMetrics(lambda: serving.failed_handshakes),
        storage=StorageMetrics(resource_of, served_names),
        encryption=EncryptionMetrics(platform.node()),
        calls=calls,
        event_loop=EventLoopMonitor(
            asyncio.get_running_loop(), calls.operation_of, serving.taking, is_logging=False
        ),
    )
