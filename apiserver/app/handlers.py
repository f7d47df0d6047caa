"""Builds the handlers of resources, of their subresources and of virtual kinds, and the admission plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from apiserver.admission.chain import AdmissionChain
from apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from apiserver.admission.plugin_context import PluginContext
from apiserver.admission.plugins import builtin_plugins
from apiserver.app.access import Access
from apiserver.app.console import console_handlers
from apiserver.app.core import Core
from apiserver.app.serving.listening import CannotStart
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import Handler
from apiserver.endpoints.handlers.apply import Applier
from apiserver.endpoints.handlers.create import Creator, create_handler
from apiserver.endpoints.handlers.decoding import Decoder, rewriting_before_schema
from apiserver.endpoints.handlers.delete import DeleteOptionsReader, delete_handler
from apiserver.endpoints.handlers.delete_collection import delete_collection_handler
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.get import get_handler
from apiserver.endpoints.handlers.list import list_handler
from apiserver.endpoints.handlers.patch import patch_handler
from apiserver.endpoints.handlers.reviews import all_reviews, review_handlers
from apiserver.endpoints.handlers.subresources.binding import binding_handlers
from apiserver.endpoints.handlers.subresources.connect import Connector, connect_handler
from apiserver.endpoints.handlers.subresources.eviction import eviction_handlers
from apiserver.endpoints.handlers.subresources.rollback import rollback_handlers
from apiserver.endpoints.handlers.subresources.scale import scale_handlers
from apiserver.endpoints.handlers.subresources.token import TokenSettings, UidCheck, token_handlers
from apiserver.endpoints.handlers.update import update_handler
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, virtual_kinds
from apiserver.endpoints.handlers.watch import watch_handler
from apiserver.endpoints.handlers.write_requests import WriteRequests
from apiserver.endpoints.request_info import HISTORY
from apiserver.endpoints.routes import HistoryHandlers, ResourceHandlers, VerbHandlers
from apiserver.extensions.errors import InvalidExtension
from apiserver.registry.subresources import BINDING, EVICTION, OLD_ROLLBACKS, OLD_SCALES, SCALE, TOKEN_REQUEST
from apiserver.webhooks.review_server import CallerFactory

if TYPE_CHECKING:
    from apiserver.app.history import History
    from apiserver.app.virtual_resources import VirtualResources

_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


def build_admission(core: Core, authorizers: Authorizers, caller_with: CallerFactory) -> AdmissionChain:
    """Build the enabled admission plugins.

    caller_with: makes the client that calls admission webhooks. Raises CannotStart.
    """
    context = PluginContext(
        core.registry, core.served, core.brand, authorizers, core.offload, core.extensions
    )
    config, metrics = core.config, core.metrics.admission
    try:
        plugins = builtin_plugins(
            context,
            config.admission.plugin_configurations,
            caller_with,
            metrics,
            config.admission.runs_admission_plugin,
            config.gates,
        )
    except InvalidExtension as error:
        raise CannotStart(str(error)) from None
    return AdmissionChain(plugins, metrics)


def build_handlers(
    core: Core,
    access: Access,
    lifecycle: NamespaceLifecycle,
    admission: AdmissionChain,
    connectors: Mapping[str, Connector],
    virtual_resources: VirtualResources,
) -> ResourceHandlers:
    """Build the handlers of all verbs, subresources and reviews. connectors: see `build_connectors`."""
    config, brand, registry = core.config, core.brand, core.registry
    chain, deviations = access.authorizers.chain, config.deviations
    encoders = Encoders(brand, core.clock, core.meta_encoders, has_cbor=config.has_cbor)
    field_managers = core.field_managers
    decoder = Decoder(brand, has_cbor=config.has_cbor, before_schema=rewriting_before_schema(deviations))
    requests = WriteRequests(brand, deviations, admission, field_managers)
    creator = Creator(registry, lifecycle, requests)
    applier = Applier(registry, requests, creator, chain, field_managers, has_cbor=config.has_cbor)
    options_reader = DeleteOptionsReader(
        brand,
        core.schemas.get(_DELETE_OPTIONS),
        deviations,
        has_cbor=config.has_cbor,
        allows_unsafe=config.gates.is_on("AllowUnsafeMalformedObjectDeletion"),
    )
    verbs = VerbHandlers(
        get=get_handler(registry, encoders),
        list=list_handler(registry, encoders, brand, deviations),
        watch=watch_handler(
            registry,
            encoders,
            brand,
            core.streams,
            min_request_timeout_s=config.serving.min_request_timeout_s,
        ),
        create=create_handler(encoders, decoder, requests, creator),
        update=update_handler(registry, encoders, decoder, requests, creator, chain),
        patch=patch_handler(registry, encoders, requests, applier, deviations),
        delete=delete_handler(registry, encoders, options_reader, lifecycle, requests, chain),
        deletecollection=delete_collection_handler(
            registry, encoders, options_reader, brand, requests, deviations
        ),
    )
    if virtual_resources:
        from apiserver.endpoints.handlers.virtual_resources import VirtualHandlers

        virtual_handlers = VirtualHandlers(
            registry,
            encoders,
            decoder,
            requests,
            lifecycle,
            options_reader,
            chain,
            deviations,
            brand,
            core.streams,
            config.serving.min_request_timeout_s,
        )
        verbs = virtual_handlers.before(verbs, virtual_resources)
    virtual = VirtualKinds(decoder, encoders, requests, virtual_kinds(core.schemas, brand))
    policy = access.authorizers.rbac_policy if deviations.explains_own_reviews else None
    reviews = all_reviews(
        chain,
        policy,
        access.authorizers.rules,
        access.authentication.tokens.review,
        core.clock,
        has_selectors=config.gates.is_on("AuthorizeWithSelectors"),
    )
    return ResourceHandlers(
        verbs=verbs,
        virtual={
            **_subresources(core, access, lifecycle, virtual, applier),
            **review_handlers(virtual, reviews),
        },
        connect=connect_handler(requests, connectors, core.metrics.requests),
        history=None if core.history is None else _history_handlers(core, core.history, encoders, chain),
        paths=console_handlers(core, access.authorizers),
    )


def _history_handlers(
    core: Core, history: History, encoders: Encoders, authorize: AuthorizationChain
) -> HistoryHandlers:
    from apiserver.endpoints.handlers import history_rewrite
    from apiserver.endpoints.handlers.history import PastHandlers
    from apiserver.endpoints.handlers.history_purges import PurgeHandlers
    from apiserver.registry.history.purges import Purges
    from apiserver.registry.history.recent_changes import RecentChanges

    prefix = core.config.storage.etcd_prefix
    reads = history.reads(core.registry, core.clock)
    changes = RecentChanges(reads, history.log, core.served, prefix)
    handlers = PastHandlers(reads, changes, encoders, core.brand, authorize)
    purges = PurgeHandlers(Purges(reads, history.log, history.writes, core.registry, prefix))
    rewrites = history_rewrite.RewriteHandler(reads, history.writes, prefix)
    return HistoryHandlers(
        state=handlers.state,
        versions=handlers.versions,
        purge=purges.of_object,
        paths={
            HISTORY: {"GET": handlers.changes, "HEAD": handlers.changes, "DELETE": purges.of_many},
            history_rewrite.PATH: {"POST": rewrites.rewrite},
        },
    )


def _subresources(
    core: Core, access: Access, lifecycle: NamespaceLifecycle, virtual: VirtualKinds, applier: Applier
) -> Mapping[str, Mapping[str, Handler]]:
    """Returns the handlers of subresources that have their own kind, by definition and by verb."""
    config, registry, served, clock = core.config, core.registry, core.served, core.clock
    tokens = TokenSettings(
        issuer=access.accounts.issuer,
        audiences=access.accounts.audiences,
        expiration_max_s=config.authentication.service_account_max_token_expiration_s,
        extends=config.authentication.service_account_extend_token_expiration,
        uid_check=UidCheck.of(config.gates),
    )
    return {
        **{
            scale: scale_handlers(registry, virtual, applier, config.deviations, scale)
            for scale in (SCALE, *OLD_SCALES)
        },
        **{rollback: rollback_handlers(registry, virtual, rollback) for rollback in OLD_ROLLBACKS},
        BINDING: binding_handlers(registry, served, virtual, lifecycle, clock, config.gates),
        EVICTION: eviction_handlers(registry, served, virtual, lifecycle, clock),
        TOKEN_REQUEST: token_handlers(registry, served, virtual, lifecycle, tokens, clock),
    }
