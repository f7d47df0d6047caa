"""Deviations of the specification from kube-apiserver, and the choice between the two."""

from __future__ import annotations

from typing import Final, NamedTuple


class Deviations(NamedTuple):
    """The choices: True follows the specification, False kube-apiserver (`--strict-kube-compat`).

    item_watch: `?watch` on the path of one object watches it, instead of being ignored (row I11).
    empty_dry_run: `?dryRun` without a value is a dry run, instead of an error (row J08).
    limits_cached_lists: a limit counts beside `resourceVersion=0`, instead of being ignored (rows K08, K11,
        K23).
    if_match: If-Match on a JSON patch is a condition, instead of being ignored (row L04).
    empty_list_keeps_owners: `managedFields: []` has no effect, instead of removing all managers (row F22).
    reset_writer_owns: a manager that resets managedFields owns the other fields that its request changes,
        instead of nothing (F23).
    live_without_store: /livez passes while the store cannot be reached, instead of failing (N01).
    apply_drops_unknown_fields: an apply with unknown fields succeeds without them unless it is strict,
        instead of being refused (E06).
    explains_own_reviews: the reason in a SelfSubjectAccessReview has, after Kubernetes' text, the rule that
        allows the request, or the rules that nearly do (O03).
    """

    item_watch: bool = True
    empty_dry_run: bool = True
    limits_cached_lists: bool = True
    if_match: bool = True
    empty_list_keeps_owners: bool = True
    reset_writer_owns: bool = True
    live_without_store: bool = True
    apply_drops_unknown_fields: bool = True
    explains_own_reviews: bool = True


SPECIFIED: Final = Deviations()
KUBERNETES: Final = Deviations(*(False for _ in Deviations._fields))
