"""The releases of Kubernetes: which APIs and feature gates each of them has, what it deprecates, and in which
form it stores objects.

    api_lifecycles.txt  each version of each API: introduced, deprecated, removed, and what to use instead
    lifecycles          reads it, and answers for one release
    deprecated_calls    counts who asks for APIs that go away
    emulation           the release that a server emulates, and the oldest that its data must be readable to
    sharing             what servers of different releases on one store have in common
    gates.txt           the feature gates of Kubernetes, removed ones, too, and their stages in each release
    gates               reads it, and applies what --feature-gates asks for
    gate_effects.txt    what each gate that is on by default does here, or why it does nothing
    gate_effects        reads it
    deviations          where a flag has the server do what Kubernetes does, and the specification does not

One table instead of a constant at each type: what a release serves, warns of, stores and removes are then
views of the same facts, and a rule about all of them is a test of the table (rows H01-H03, S03, S05-S07,
S12, S14, T01-T31).

Kubernetes has told clients since 1.19 that a version is deprecated: by Warning headers, in audit events and
in a metric. So a server that emulates an older release does not (row S05); which versions go, and who asks
for them, `/debug/deprecations` tells at any release.

All of it is pure. The catalogue declares the types themselves, in all versions that are implemented; it
asks here which of them the release has (`catalogue.builtins`). What a gate switches is where it belongs, and
asks for its state (`Config.gates`). The other gates are known, so that the flags of a start script are taken,
and a warning says that they have no effect here (rows H09, S08).

Source: https://kubernetes.io/docs/reference/using-api/deprecation-policy/; k8s.io/apiserver, pkg/server
(deleted_kinds.go, resourceconfig) and pkg/server/storage (resource_encoding_config.go);
k8s.io/component-base, featuregate/feature_gate.go.
"""
