"""The built-in types: a package per API group, and in it a module or package per kind.

    core, apps, batch, …  one package for each group; `TYPES` or `types` has its kinds in discovery's order
    builtin_type          the form in which a kind is declared: names, verbs, defaults, strategy, columns
    builtins              makes served resources of all declarations
    shared_values         values that servers of a process share
    runtime_config        which versions `--runtime-config` turns on and off
    pod_specs             everything inside a PodSpec, which many kinds have
    common                what else kinds of several groups share

Fields, their types and their descriptions come from Kubernetes' own definitions (`schema.builtin`); the width
of numbers and what empty means, from its Go types (`schema.go_fields`). What those lack is here: names,
scope, verbs, defaults, validation, warnings and columns.

A kind's module has its defaults, checks, warnings and columns, and declares it: in `BUILTIN_TYPE` at the
end, or in the function `builtin_type` at the beginning if the declaration depends on feature gates or flags.
To add a kind, write such a module and list it in its group.

What it guarantees: paths, reasons, texts and the order of errors are Kubernetes' (pkg/apis/*/validation of
releases 1.34 to 1.36, k8s.io/kubernetes), because people and scripts know them. Everything but `builtins` and
`shared_values` is pure: a rule is a function of documents, and can be tested without a server.

Why this shape: a reader asks about one kind, and finds all about it in one place. Where a type has several
versions, its objects are stored in one of them and converted at the registry's border
(`registry.version_codec`), so that rules are written once, for that version.

Left out: what a kind needs beside its own fields is in `admission.plugins`, `controllers` or
`handlers.subresources`.
"""
