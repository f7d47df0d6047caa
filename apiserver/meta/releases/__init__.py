"""The releases of Kubernetes: their APIs and feature gates, deprecations, and storage versions.

    api_lifecycles.txt  each version of each API: introduced, deprecated, removed, and its replacement
    lifecycles          reads it, and selects the facts of one release
    deprecated_calls    counts calls of APIs that go away, by caller
    emulation           the release that a server emulates, and the oldest one that must be able to read its
    data
    sharing             the common API versions of servers of different releases on one store
    gates.txt           the feature gates of Kubernetes, including removed ones, and their stages in each
    release
    gates               reads it, and applies --feature-gates
    gate_effects.txt    the effect of each gate that is on by default, or the reason for having none
    gate_effects        reads it
    deviations          flags that make the server follow kube-apiserver instead of the specification

One table instead of a constant at each type: the APIs that a release serves, warns about, stores and removes
are then views of the same facts, and a rule about all of them is a test of the table (rows H01-H03, S03,
S05-S07, S12, S14, T01-T31).

Since 1.19 Kubernetes reports deprecated versions: by Warning headers, in audit events and in a metric. A
server that emulates an older release does not (row S05); `/debug/deprecations` shows versions that go away,
and their callers, at any release.

All of it is pure. The catalogue declares the types themselves, in all versions that are implemented; it
selects those that the release has (`catalogue.builtins`). Code that a gate switches reads its state
(`Config.gates`). All other gates are known, so that the flags of a start script are accepted, with a warning
that they have no effect here (rows H09, S08).

Source: https://kubernetes.io/docs/reference/using-api/deprecation-policy/; k8s.io/apiserver, pkg/server
(deleted_kinds.go, resourceconfig) and pkg/server/storage (resource_encoding_config.go);
k8s.io/component-base, featuregate/feature_gate.go.
"""
