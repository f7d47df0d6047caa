"""The built-in types: a package per API group, and in it a module or package per kind.

    core, apps, batch, …  one package for each group; `TYPES` or `types` has its kinds in discovery's order
    builtin_type          the declaration of a kind: names, verbs, defaults, strategy, columns
    builtins              makes served resources from all declarations
    shared_values         values that servers of a process share
    runtime_config        the versions that `--runtime-config` turns on and off
    pod_specs             all fields of a PodSpec, which many kinds have
    common                other fields that kinds of several groups share

Fields, their types and their descriptions come from Kubernetes' own definitions (`schema.builtin`); the width
of numbers and the meaning of empty values, from its Go types (`schema.go_fields`). The catalogue adds the
rest: names, scope, verbs, defaults, validation, warnings and columns.

A kind's module has its defaults, checks, warnings and columns, and declares it: in `BUILTIN_TYPE` at the
end, or in the function `builtin_type` at the beginning if the declaration depends on feature gates or flags.
To add a kind, write such a module and list it in its group.

Guarantees: paths, reasons, texts and the order of errors are Kubernetes' (pkg/apis/*/validation of releases
1.34 to 1.36, k8s.io/kubernetes), because users and scripts rely on them. All modules but `builtins` and
`shared_values` are pure: a rule is a function of documents, and can be tested without a server.

Why this shape: everything about a kind is in one place. If a type has several versions, its objects are
stored in one of them and converted by the registry (`registry.version_codec`), so that rules are written
once, for that version.

Elsewhere: rules that involve more than the fields of a kind are in `admission.plugins`, `controllers` or
`handlers.subresources`.
"""
