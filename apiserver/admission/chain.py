"""Runs admission plugins, which may change or refuse writes.

Mutating admission comes first, validating admission once the resource's own rules have been applied; both
call plugins in their order, and time them. Plugins that cannot be disabled may also check: they add errors to
those of the resource's own rules, where these depend on more than the object. Which plugins handle a write
depends on its resource, subresource and operation alone, and is cached: where there are none, admission costs
a lookup and a microsecond.
Source: k8s.io/apiserver, pkg/admission.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from time import perf_counter
from typing import Final, NamedTuple, Protocol

import orjson

from apiserver.audit.policy import AuditLevel
from apiserver.audit.request_audit import RequestAudit
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.errors import ApiError, BadRequest
from apiserver.meta.field_errors import FieldError
from apiserver.meta.names import qualified_name
from apiserver.meta.options import EMPTY_DRY_RUN, DeleteOptions, WriteOptions
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo
from apiserver.metrics.admission import ADMIT, VALIDATE, AdmissionDurations, AdmissionMetrics
from apiserver.registry.served_resource import ServedResource

# Resources with subresource and operation whose plugins are cached.
CACHED_MAX: Final = 4_096


class Operation(enum.Enum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


def _itself(document: Document) -> Document:
    return document


def _replace(document: Document, other: Document) -> None:
    document.clear()
    document.update(other)


def _encoded(document: Document | None) -> bytes:
    """Raises BadRequest."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise BadRequest("the object is nested too deeply to be stored") from None


def _differ(one: bytes, other: bytes) -> bool:
    """Are encoded documents different in more than the order of their members?"""
    before, after = (orjson.dumps(orjson.loads(each), option=orjson.OPT_SORT_KEYS) for each in (one, other))
    return before != after


class Waiting(Protocol):
    """The request of a write, as plugins see it. waited_s: how many seconds it has waited for others."""

    waited_s: float

    def elsewhere(self) -> AbstractContextManager[None]:
        """Have the request hold nothing that others need while it waits for another server."""
        ...


class AdmissionAttributes(NamedTuple):
    """What a write is about, apart from its objects: k8s.io/apiserver's admission.Attributes.

    name: empty for a create whose name is not known yet.
    path_name: the name in the request's path; empty if a collection is deleted, or an object created by POST.
    options: of the request; None for one that has none, as to connect.
    view: of a subresource with a kind of its own.
    verb: by which a client's request is authorized; empty for a write that is no request.
    deadline: when the client gives up, by the loop's clock; None: when the server does.
    rounds: set while plugins may change the write.
    audit: the record of the request, if there is one, to which plugins add annotations.
    request: gets the time for which webhooks have had it wait; None for a write that is no request.
    """

    operation: Operation
    resource: ServedResource
    namespace: str
    name: str
    user: UserInfo
    subresource: str = ""
    is_dry_run: bool = False
    path_name: str = ""
    options: WriteOptions | DeleteOptions | None = None
    view: SubresourceView | None = None
    verb: str = ""
    deadline: float | None = None
    rounds: Rounds | None = None
    audit: RequestAudit | None = None
    request: Waiting | None = None

    @property
    def allows_side_effects(self) -> bool:
        """Whether what is called may have side effects beyond the answer. Row J08."""
        return not self.is_dry_run or (self.options is not None and EMPTY_DRY_RUN in self.options.warnings)

    def waited(self, layer: str, seconds: float) -> None:
        """Note that the request has had to wait for webhooks.

        layer: these webhooks, as annotations of the request's record name them.
        """
        if self.request is not None:
            self.request.waited_s += seconds
        if self.audit is not None:
            self.audit.took(layer, seconds)

    def elsewhere(self) -> AbstractContextManager[None]:
        """Have the request hold nothing that others need while a plugin waits: see `Waiting`."""
        return nullcontext() if self.request is None else self.request.elsewhere()

    def annotate(self, key: str, value: str, level: AuditLevel = AuditLevel.METADATA) -> None:
        """Add an annotation to the record of the request, if there is one, and the key is valid.

        level: from which on it is recorded. The first annotation of a key counts.
        """
        if self.audit is not None and "/" in key and not qualified_name(key):
            self.audit.annotate(key, value, level)


class SubresourceView(NamedTuple):
    """What a subresource shows of the objects that plugins get.

    kind: of what a client sends and sees. of: returns that for an object. put: puts a changed one back into
    the object. Where plugins get what the client has sent (an Eviction), both do nothing.
    """

    kind: ServedResource
    of: Callable[[Document], Document] = _itself
    put: Callable[[Document, Document], None] = _replace


class Rounds:
    """The rounds in which plugins may change one write: a second one follows where a plugin asks for it.

    is_second: whether the second round is on. is_wanted: whether it is to follow.
    """

    def __init__(self) -> None:
        self.is_second = False
        self.is_wanted = False
        self._by_plugin: dict[Plugin, PluginRounds] = {}

    def of(self, plugin: Plugin) -> PluginRounds:
        """Returns the rounds as one of the plugins that have them sees them."""
        found = self._by_plugin.get(plugin)
        if found is None:
            found = self._by_plugin[plugin] = PluginRounds(self)
        return found


class PluginRounds:
    """The rounds of a plugin that asks others about the write: webhooks, policies.

    It calls some of them again in the second round, if what came after them has changed the object.
    Source: k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/reinvocationcontext.go.

    called: those that were called and want to be called again. due: those that have to be.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self.called: set[Hashable] = set()
        self.due: set[Hashable] = set()
        self._left: bytes | None = None

    @property
    def is_second(self) -> bool:
        return self._rounds.is_second

    def on_change(self) -> None:
        """One that was called has changed the object: those before it are called again."""
        self._rounds.is_wanted = True
        self.due |= self.called
        self.called = set()

    async def enter(self, document: Document | None, offload: Offload) -> None:
        """The plugin has its turn. What has changed since it had the last one was done by others.

        Raises BadRequest for a document that is nested too deeply to be stored.
        """
        left = self._left
        if left is None or left == (encoded := _encoded(document)):
            return
        size = size_class(max(len(left), len(encoded)))
        if await offload.run_begun(size, _differ, left, encoded):
            self.on_change()

    def leave(self, document: Document | None) -> None:
        """The plugin has had its turn. Raises BadRequest as `enter`."""
        if self.called:
            self._left = _encoded(document)


class Plugin:
    """An admission plugin. Documents are of the hub version (see `registry.version_codec`).

    name: as `--enable-admission-plugins` has it.
    has_rounds: whether it may want that all plugins have another turn (see `Rounds`).
    """

    name: str = ""
    has_rounds: bool = False

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        """Returns whether the plugin is to be called for such writes.

        The answer is cached, for as long as `stamp` stays the same.
        """
        return True

    def stamp(self) -> object:
        """Returns a value that changes whenever `handles` may answer otherwise; None: it never does."""
        return None

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str] | None:
        """Change what is written. old: the stored object; None for a create.

        Returns warnings for the client, if there are any. Raises ApiError to refuse the write.
        """

    async def mutate_deletion(
        self, attributes: AdmissionAttributes, old: Document | None
    ) -> Sequence[str] | None:
        """Decide about a deletion when it is the turn of `mutate`: there is nothing to change."""

    async def check(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[FieldError]:
        """Return what is wrong with what will be written, for the Status that the rules of its type make."""
        return ()

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str] | None:
        """Check what will be written. new: None for a delete. Returns and raises as `mutate`."""


class TimedPlugin(NamedTuple):
    """A plugin, and where the times that it takes are counted."""

    plugin: Plugin
    durations: AdmissionDurations


class PluginSteps(NamedTuple):
    """The plugins that handle some kind of write: those that change it, check it, and validate it.

    has_rounds: whether one of them may ask for a second round.
    """

    mutating: tuple[TimedPlugin, ...]
    checking: tuple[Plugin, ...]
    validating: tuple[TimedPlugin, ...]
    mutation: AdmissionDurations
    validation: AdmissionDurations
    has_rounds: bool = False


class ApplicablePlugins:
    """The plugins that handle one write."""

    def __init__(self, attributes: AdmissionAttributes, steps: PluginSteps) -> None:
        self._attributes = attributes
        self._steps = steps

    @property
    def may_mutate(self) -> bool:
        """Whether a plugin might change what is written: see `registry.write_request.Admission`."""
        return bool(self._steps.mutating)

    # The two loops are alike, and a call for each plugin would cost more than many a plugin does.

    async def mutate(self, new: Document | None, old: Document | None) -> list[str]:
        """Run mutating admission, once more if a plugin wants that: see `registry.write_request.Admission`.

        A refusal carries the warnings of the plugins before it.
        """
        if not self._steps.has_rounds:
            return await self._mutate(self._attributes, new, old)
        rounds = Rounds()
        attributes = self._attributes._replace(rounds=rounds)
        warnings = await self._mutate(attributes, new, old)
        if rounds.is_wanted:
            rounds.is_second = True
            try:
                warnings += await self._mutate(attributes, new, old)
            except ApiError as refused:
                refused.add_warnings(warnings)
                raise
        return warnings

    async def _mutate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> list[str]:
        warnings: list[str] = []
        step = durations = self._steps.mutation
        began = plugin_began = perf_counter()
        try:
            for plugin, durations in self._steps.mutating:
                if new is None:
                    warnings += await plugin.mutate_deletion(attributes, old) or ()
                else:
                    warnings += await plugin.mutate(attributes, new, old) or ()
                now = perf_counter()
                durations.accepted.observe(now - plugin_began)
                plugin_began = now
        except Exception as failure:
            _observe_refusal(step, began, durations, plugin_began)
            if isinstance(failure, ApiError):
                failure.add_warnings(warnings)
            raise
        step.accepted.observe(plugin_began - began)
        return warnings

    async def check(self, new: Document, old: Document | None) -> Sequence[FieldError]:
        """Returns the errors that plugins find: see `registry.write_request.Admission`."""
        return [
            error for each in self._steps.checking for error in await each.check(self._attributes, new, old)
        ]

    async def validate(self, new: Document | None, old: Document | None) -> list[str]:
        """Run validating admission. A refusal carries the warnings of the plugins before it."""
        warnings: list[str] = []
        step = durations = self._steps.validation
        began = plugin_began = perf_counter()
        try:
            for plugin, durations in self._steps.validating:
                warnings += await plugin.validate(self._attributes, new, old) or ()
                now = perf_counter()
                durations.accepted.observe(now - plugin_began)
                plugin_began = now
        except Exception as failure:
            _observe_refusal(step, began, durations, plugin_began)
            if isinstance(failure, ApiError):
                failure.add_warnings(warnings)
            raise
        step.accepted.observe(plugin_began - began)
        return warnings


def _observe_refusal(
    step: AdmissionDurations, began: float, plugin: AdmissionDurations, plugin_began: float
) -> None:
    now = perf_counter()
    plugin.rejected.observe(now - plugin_began)
    step.rejected.observe(now - began)


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)


class AdmissionChain:
    """All plugins that are enabled, in their order."""

    def __init__(self, plugins: Sequence[Plugin], metrics: AdmissionMetrics | None = None) -> None:
        self._all = tuple(plugins)
        self._metrics = AdmissionMetrics() if metrics is None else metrics
        self._steps_for = lru_cache(maxsize=CACHED_MAX)(self._find)
        # Of those whose `handles` does not always answer the same.
        self._stamp_getters = [each.stamp for each in plugins if _overrides(each, "stamp")]
        self._stamps: list[object] = []

    def admission_for(self, attributes: AdmissionAttributes) -> ApplicablePlugins:
        """Returns the plugins that handle a write. There may be none: admission is counted nevertheless."""
        stamps = [stamp() for stamp in self._stamp_getters]
        if stamps != self._stamps:
            self._stamps = stamps
            self._steps_for.cache_clear()
        resource = attributes.resource.stored_group_resource
        steps = self._steps_for(resource, attributes.subresource, attributes.operation)
        return ApplicablePlugins(attributes, steps)

    def _find(self, resource: GroupResource, subresource: str, operation: Operation) -> PluginSteps:
        """Plugins that take no part in a step are not called in it, nor counted."""
        plugins = [each for each in self._all if each.handles(resource, subresource, operation)]
        of_plugin, of_step, name = self._metrics.of_plugin, self._metrics.of_step, operation.value
        mutate = "mutate_deletion" if operation is Operation.DELETE else "mutate"
        return PluginSteps(
            mutating=tuple(
                TimedPlugin(each, of_plugin(each.name, ADMIT, name))
                for each in plugins
                if _overrides(each, mutate)
            ),
            checking=tuple(each for each in plugins if _overrides(each, "check")),
            validating=tuple(
                TimedPlugin(each, of_plugin(each.name, VALIDATE, name))
                for each in plugins
                if _overrides(each, "validate")
            ),
            mutation=of_step(ADMIT, name),
            validation=of_step(VALIDATE, name),
            has_rounds=any(each.has_rounds for each in plugins),
        )
