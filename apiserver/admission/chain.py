"""Runs admission plugins, which may change or refuse writes.

Mutating admission comes first, validating admission once the resource's own rules have been applied; both
call plugins in their order, and time them. Plugins that cannot be disabled may also check: they add errors
that depend on more than the object to those of the resource's own rules. The plugins that handle a write
depend only on its resource, subresource and operation, and are cached: without plugins, admission costs a
lookup and a microsecond.
Source: k8s.io/apiserver, pkg/admission.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from time import perf_counter
from typing import Final, NamedTuple, Protocol, TypeAlias

import orjson

from apiserver.audit.policy import AuditLevel
from apiserver.audit.request_audit import RequestAudit
from apiserver.load.offload import Offload
from apiserver.load.size_class import size_class
from apiserver.meta.errors import ApiError, BadRequest, Timeout
from apiserver.meta.field_errors import FieldError
from apiserver.meta.names import qualified_name
from apiserver.meta.options import EMPTY_DRY_RUN, DeleteOptions, WriteOptions
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo
from apiserver.metrics.admission import ADMIT, VALIDATE, AdmissionDurations, AdmissionMetrics
from apiserver.registry.invalidating_changes import InvalidField
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.write_request import Resumption
from apiserver.tracing.request_trace import record

# Resources with subresource and operation whose plugins are cached.
CACHED_MAX: Final = 4_096
# The states of one object that are kept until it is known to be valid, in bytes: ten of the largest one.
# Later changes are not noted: if one of them makes the object invalid, the write is refused as if the client
# had done so.
CHANGES_BYTES_MAX: Final = 16 * 1024 * 1024


class Operation(enum.StrEnum):
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
    """Returns an encoded document."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        raise BadRequest("the object is nested too deeply to be stored") from None


def _differ(one: bytes, other: bytes) -> bool:
    """Whether encoded documents differ in more than the order of their members."""
    before, after = (orjson.dumps(orjson.loads(each), option=orjson.OPT_SORT_KEYS) for each in (one, other))
    return before != after


class WaitingRequest(Protocol):
    """The request of a write, as plugins see it while they wait.

    waited_s: how many seconds it has waited for other servers.
    """

    waited_s: float

    def without_slot(self) -> AbstractContextManager[None]:
        """Releases the request's slot or seats while it waits for another server."""
        ...


class AdmissionAttributes(NamedTuple):
    """The attributes of a write except its objects: k8s.io/apiserver's admission.Attributes.

    name: empty for a create whose name is not known yet.
    offload: runs work for the user.
    path_name: the name in the request's path; empty if a collection is deleted, or an object created by POST.
    options: of the request; None for one that has none, as to connect.
    view: of a subresource with its own kind.
    verb: by which a client's request is authorized; empty for a write that is no request.
    deadline: when the client gives up, by the loop's clock; None: when the server does.
    rounds: set while plugins may change the write.
    audit: the audit record of the request, if there is one, to which plugins add annotations.
    request: records the time spent waiting for webhooks; None for a write that is no request.
    """

    operation: Operation
    resource: ServedResource
    namespace: str
    name: str
    user: UserInfo
    offload: Offload
    subresource: str = ""
    is_dry_run: bool = False
    path_name: str = ""
    options: WriteOptions | DeleteOptions | None = None
    view: SubresourceView | None = None
    verb: str = ""
    deadline: float | None = None
    rounds: ReinvocationContext | None = None
    audit: RequestAudit | None = None
    request: WaitingRequest | None = None

    @property
    def allows_side_effects(self) -> bool:
        """Whether calls to other servers may have side effects beyond their response (row J08)."""
        return not self.is_dry_run or (self.options is not None and EMPTY_DRY_RUN in self.options.warnings)

    def with_rounds(self, rounds: ReinvocationContext) -> AdmissionAttributes:
        """Returns `_replace(rounds=rounds)`, in a tenth of its time."""
        return tuple.__new__(AdmissionAttributes, (*self[:_ROUNDS], rounds, *self[_ROUNDS + 1 :]))

    def remaining_s(self) -> float | None:
        """Returns how long the client still waits; None if it waits as long as the server.

        Raises Timeout if that time is over.
        """
        if self.deadline is None:
            return None
        remaining_s = self.deadline - asyncio.get_running_loop().time()
        if remaining_s <= 0:
            raise Timeout.of_request()
        return remaining_s

    def waited(self, layer: str, seconds: float) -> None:
        """Note that the request has waited for webhooks.

        layer: these webhooks, as annotations of the audit event name them.
        """
        if self.request is not None:
            self.request.waited_s += seconds
        if self.audit is not None:
            self.audit.took(layer, seconds)

    def without_slot(self) -> AbstractContextManager[None]:
        """Releases the request's slot or seats while a plugin waits: see `WaitingRequest`."""
        return nullcontext() if self.request is None else self.request.without_slot()

    def annotate(self, key: str, value: str, level: AuditLevel = AuditLevel.METADATA) -> None:
        """Add an annotation to the audit record of the request, if there is one, and the key is valid.

        level: the lowest audit level that records it. The first annotation of a key counts.
        """
        if self.audit is not None and "/" in key and not qualified_name(key):
            self.audit.annotate(key, value, level)


_ROUNDS: Final = AdmissionAttributes._fields.index("rounds")


class SubresourceView(NamedTuple):
    """The objects of a subresource in the form that plugins receive.

    kind: that of the documents that clients send and see. of: returns the view of an object. put: puts a
    changed view back into the object. Where plugins get the client's document (an Eviction), both do nothing.
    """

    kind: ServedResource
    of: Callable[[Document], Document] = _itself
    put: Callable[[Document, Document], None] = _replace


class ReinvocationContext:
    """The rounds in which plugins may change one write: a second one runs if a plugin requests it.

    is_second: whether the second round is running. is_wanted: whether it is to follow, as it does if one of
        these plugins has changed the object. changes: those that functions have made. left_out: the functions
        that are not called. warnings: of the plugins that have been called.
    """

    __slots__ = (
        *("_by_plugin", "_noted_bytes", "_start"),
        *("changes", "is_second", "is_wanted", "left_out", "warnings"),
    )

    def __init__(self, left_out: Collection[Hashable] = (), warnings: Iterable[str] = ()) -> None:
        self.warnings = [*warnings]
        self.is_second = False
        self.is_wanted = False
        self.left_out = left_out
        self.changes: Sequence[FunctionChange] = ()
        self._noted_bytes = 0
        self._start: ReinvocationContext | None = None  # before the first change
        self._by_plugin: dict[Plugin, PluginReinvocations] = {}

    def note(self, change: FunctionChange) -> None:
        """Note a change by a function, unless all states would then exceed `CHANGES_BYTES_MAX`."""
        if self._start is None:
            self._start = self._copy(self.left_out, self.warnings)
        is_known = bool(self.changes) and change.before is self.changes[-1].after
        self._noted_bytes += len(change.after) + (0 if is_known else len(change.before))
        if self._noted_bytes <= CHANGES_BYTES_MAX:
            self.changes = [*self.changes, change]

    def resumed(self, failed: Collection[Hashable], warnings: Sequence[str]) -> ReinvocationContext:
        """Returns the rounds as they were before the plugin of the first change was called.

        failed: functions to leave out, too. warnings: about them.
        """
        assert self._start is not None
        return self._start._copy({*self.left_out, *failed}, [*self._start.warnings, *warnings])

    def _copy(self, left_out: Collection[Hashable], warnings: Iterable[str]) -> ReinvocationContext:
        copied = ReinvocationContext(left_out, warnings)
        copied.is_second, copied.is_wanted = self.is_second, self.is_wanted
        copied._by_plugin = {each: rounds.copy_for(copied) for each, rounds in self._by_plugin.items()}
        return copied

    def of(self, plugin: Plugin) -> PluginReinvocations:
        """Returns the rounds for one of the plugins that take part in them."""
        found = self._by_plugin.get(plugin)
        if found is None:
            found = self._by_plugin[plugin] = PluginReinvocations(self)
        return found


class FunctionChange(NamedTuple):
    """A change of an object by a function that has failed if the object is invalid because of it.

    before, after: see `registry.invalidating_changes.ObjectChange`. function: identifies it, also after a
    reload. plugin: calls the function. is_fatal: whether the write fails then. on_invalid: returns
    warnings, or raises the ApiError that refuses the write.
    """

    before: bytes
    after: bytes
    function: Hashable
    plugin: Plugin
    is_fatal: bool
    on_invalid: Callable[[Sequence[InvalidField]], Sequence[str]]


class ResumedRounds(Resumption):
    """The rounds without functions that have failed, from the plugin on that calls them."""

    def __init__(self, rounds: ReinvocationContext, plugin: Plugin) -> None:
        self.rounds, self.plugin = rounds, plugin


class PluginReinvocations:
    """The rounds of a plugin that calls webhooks or policies.

    It calls some of them again in the second round, if later plugins have changed the object.
    Source: k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/reinvocationcontext.go.

    called: those that were called and may be called again. due: those that must be.
    """

    __slots__ = ("_left", "_rounds", "called", "due")

    def __init__(self, rounds: ReinvocationContext) -> None:
        self._rounds = rounds
        self.called: set[Hashable] = set()
        self.due: set[Hashable] = set()
        self._left: bytes | None = None

    def copy_for(self, rounds: ReinvocationContext) -> PluginReinvocations:
        """Returns a copy that takes part in other rounds."""
        copied = PluginReinvocations(rounds)
        copied.called, copied.due, copied._left = {*self.called}, {*self.due}, self._left
        return copied

    @property
    def is_second(self) -> bool:
        return self._rounds.is_second

    def on_change(self) -> None:
        """Note that a webhook or policy has changed the object, so that those before it are called again."""
        self._rounds.is_wanted = True
        self.due |= self.called
        self.called = set()

    async def enter(self, document: Document | None, offload: Offload) -> None:
        """Begin the plugin's turn, and detect changes by other plugins since its last one.

        Raises BadRequest for a document that is nested too deeply to be stored.
        """
        left = self._left
        if left is None or left == (encoded := _encoded(document)):
            return
        size = size_class(max(len(left), len(encoded)))
        if await offload.run_begun(size, _differ, left, encoded):
            self.on_change()

    def leave(self, document: Document | None) -> None:
        """End the plugin's turn. Raises BadRequest as `enter`."""
        if self.called:
            self._left = _encoded(document)


# A resource, a subresource, and what is done to it.
HandledWrite: TypeAlias = tuple[GroupResource, str, Operation]


def creates(*resources: GroupResource, subresource: str = "") -> frozenset[HandledWrite]:
    return frozenset((each, subresource, Operation.CREATE) for each in resources)


def updates(*resources: GroupResource, subresource: str = "") -> frozenset[HandledWrite]:
    return frozenset((each, subresource, Operation.UPDATE) for each in resources)


def writes(*resources: GroupResource, subresource: str = "") -> frozenset[HandledWrite]:
    return creates(*resources, subresource=subresource) | updates(*resources, subresource=subresource)


class Configuration(Protocol):
    """Objects that configure a plugin. changes: how often they have changed."""

    changes: int


class Plugin:
    """An admission plugin. Documents are of the hub version (see `registry.version_codec`).

    name: as in `--enable-admission-plugins`. handled: the writes for which it is called; None: all.
    has_rounds: whether it may request a second round of all plugins (see `ReinvocationContext`).
    configurations: what the results of `handles` depend on.
    The methods that admit a write return warnings for the client, if there are any, and raise ApiError to
    refuse the write.
    """

    name: str = ""
    handled: Collection[HandledWrite] | None = None
    has_rounds: bool = False
    configurations: Sequence[Configuration] = ()

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        """Returns whether the plugin is called for such writes.

        The answer is cached until one of `configurations` changes.
        """
        return self.handled is None or (resource, subresource, operation) in self.handled

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str] | None:
        """Change the object that is written. old: the stored object; None for a create."""

    async def mutate_deletion(
        self, attributes: AdmissionAttributes, old: Document | None
    ) -> Sequence[str] | None:
        """Decide about a deletion in the mutating step, where nothing can be changed."""

    async def check(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[FieldError]:
        """Returns the errors in the object to be written, which join those of the type's own rules."""
        return ()

    async def validate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str] | None:
        """Check the object to be written, and raise ApiError to refuse it."""

    async def validate_deletion(
        self, attributes: AdmissionAttributes, old: Document | None
    ) -> Sequence[str] | None:
        """Check the object to be deleted, and raise ApiError to refuse it."""


# Mutates or validates: takes the attributes, the new and the old object.
PluginMethod: TypeAlias = Callable[
    [AdmissionAttributes, Document | None, Document | None], Awaitable[Sequence[str] | None]
]


class AdmissionStep(NamedTuple):
    """Mutating or validating admission of some kind of write.

    methods: those of the plugins that take part, each with its plugin and its counter of times. name: for
        traces.
    """

    methods: tuple[tuple[PluginMethod, Plugin, AdmissionDurations], ...]
    durations: AdmissionDurations
    name: str

    def beginning_at(self, plugin: Plugin) -> AdmissionStep:
        """Returns the step without the plugins before one of them."""
        first = next(index for index, each in enumerate(self.methods) if each[1] is plugin)
        return self._replace(methods=self.methods[first:])

    async def run(
        self,
        attributes: AdmissionAttributes,
        new: Document | None,
        old: Document | None,
        warnings: list[str],
    ) -> list[str]:
        """Call the plugins, and add their warnings to others, which are returned.

        A refusal carries the warnings of the plugins before it.
        """
        durations = self.durations
        began = plugin_began = perf_counter()
        try:
            for method, _, durations in self.methods:
                warnings += await method(attributes, new, old) or ()
                now = perf_counter()
                durations.accepted.observe(now - plugin_began)
                plugin_began = now
        except Exception as failure:
            now = perf_counter()
            durations.rejected.observe(now - plugin_began)
            self.durations.rejected.observe(now - began)
            record(self.name, began)
            if isinstance(failure, ApiError):
                failure.add_warnings(warnings)
            raise
        self.durations.accepted.observe(plugin_began - began)
        record(self.name, began)
        return warnings


class PluginSteps(NamedTuple):
    """The plugins that handle some kind of write: those that mutate, check and validate it.

    has_rounds: whether one of them may request a second round.
    notes_changes: whether all that may change the object then note it in the rounds.
    """

    mutation: AdmissionStep
    checking: tuple[Plugin, ...]
    validation: AdmissionStep
    has_rounds: bool = False
    notes_changes: bool = False


class ApplicablePlugins:
    """The plugins that handle one write. may_mutate, has_mutated: see `registry.write_request.Admission`."""

    def __init__(self, attributes: AdmissionAttributes, steps: PluginSteps) -> None:
        self._attributes = attributes
        self._steps = steps
        self.may_mutate = self.has_mutated = bool(steps.mutation.methods)
        self.changes: Sequence[FunctionChange] = ()
        self._rounds: ReinvocationContext | None = None  # those of the last `mutate`

    async def mutate(
        self, new: Document | None, old: Document | None, resumption: Resumption | None = None
    ) -> list[str]:
        """Run mutating admission, twice if a plugin requests it: see `registry.write_request.Admission`."""
        mutation = self._steps.mutation
        if not self._steps.has_rounds:
            return await mutation.run(self._attributes, new, old, [])
        self.changes = ()
        first, rounds = mutation, ReinvocationContext()
        if resumption is not None:
            assert isinstance(resumption, ResumedRounds)
            first, rounds = mutation.beginning_at(resumption.plugin), resumption.rounds
        self._rounds, attributes = rounds, self._attributes.with_rounds(rounds)
        await first.run(attributes, new, old, rounds.warnings)
        if self._steps.notes_changes:
            self.has_mutated = rounds.is_wanted
        if rounds.is_wanted and not rounds.is_second:
            rounds.is_second = True
            await mutation.run(attributes, new, old, rounds.warnings)
        self.changes = rounds.changes
        return rounds.warnings

    def resumption(self, causes: Mapping[int, Sequence[InvalidField]]) -> ResumedRounds:
        """Returns how mutating admission goes on: see `registry.write_request.Admission`."""
        failed: dict[Hashable, tuple[FunctionChange, list[InvalidField]]] = {}
        for index, fields in causes.items():
            change = self.changes[index]
            failed.setdefault(change.function, (change, []))[1].extend(fields)
        warnings: list[str] = []
        # Functions whose failure fails the write come first: otherwise those of others count as ignored.
        for change, fields in sorted(failed.values(), key=lambda each: not each[0].is_fatal):
            warnings += change.on_invalid(fields)
        assert self._rounds is not None
        return ResumedRounds(self._rounds.resumed(failed, warnings), self.changes[0].plugin)

    async def check(self, new: Document, old: Document | None) -> Sequence[FieldError]:
        """Returns the errors that plugins find: see `registry.write_request.Admission`."""
        errors: list[FieldError] = []
        for each in self._steps.checking:
            errors += await each.check(self._attributes, new, old)
        return errors

    async def validate(self, new: Document | None, old: Document | None) -> list[str]:
        """Run validating admission."""
        return await self._steps.validation.run(self._attributes, new, old, [])


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)


class AdmissionChain:
    """All enabled plugins, in their order."""

    def __init__(self, plugins: Sequence[Plugin], metrics: AdmissionMetrics | None = None) -> None:
        self._all = tuple(plugins)
        self._metrics = AdmissionMetrics() if metrics is None else metrics
        self._steps_for = lru_cache(maxsize=CACHED_MAX)(self._find)
        self._configurations = [each for plugin in plugins for each in plugin.configurations]
        self._changes: list[int] = []

    def admission_for(self, attributes: AdmissionAttributes) -> ApplicablePlugins:
        """Returns the plugins that handle a write; admission is counted even if there are none."""
        changes = [each.changes for each in self._configurations]
        if changes != self._changes:
            self._changes = changes
            self._steps_for.cache_clear()
        resource = attributes.resource.stored_group_resource
        steps = self._steps_for(resource, attributes.subresource, attributes.operation)
        return ApplicablePlugins(attributes, steps)

    def _find(self, resource: GroupResource, subresource: str, operation: Operation) -> PluginSteps:
        """Find the plugins for a kind of write, without those that take no part in a step."""
        plugins = [each for each in self._all if each.handles(resource, subresource, operation)]

        def step(verb: str, type_: str) -> AdmissionStep:
            name = f"{verb}_deletion" if operation is Operation.DELETE else verb
            methods = tuple(
                (_method(each, name), each, self._metrics.of_plugin(each.name, type_, operation.value))
                for each in plugins
                if _overrides(each, name)
            )
            kind = "mutating" if type_ == ADMIT else "validating"
            durations = self._metrics.of_step(type_, operation.value)
            return AdmissionStep(methods, durations, f"{kind} admission")

        return PluginSteps(
            step("mutate", ADMIT),
            tuple(each for each in plugins if _overrides(each, "check")),
            step("validate", VALIDATE),
            has_rounds=any(each.has_rounds for each in plugins),
            notes_changes=all(each.has_rounds for each in plugins if _overrides(each, "mutate")),
        )


def _method(plugin: Plugin, name: str) -> PluginMethod:
    method: Callable[..., Awaitable[Sequence[str] | None]] = getattr(plugin, name)
    if name.endswith("_deletion"):
        return lambda attributes, _, old: method(attributes, old)
    return method
