"""Everything inside a PodSpec: of pods, and of the templates of kinds that create pods.

    defaults               sets the defaults of pods and of everything in a spec
    validation_options     has what specs may have by the feature gates of a server
    ratcheting             finds what a stored spec has beyond that, and may keep
    validation             checks a whole spec, with the memo `valid_specs`
    templates              checks a PodTemplateSpec, and has the columns of the kinds that have one
    containers, probes, restart_policies, volumes, field_references, resource_requirements, scheduling,
    security_contexts, pod_annotations
                           check one part each
    resource_totals        adds up what the containers of a pod ask for
    warnings               warns of what is allowed but discouraged; of files, overlapping_paths

Paths, reasons, texts and the order of errors are Kubernetes' (pkg/apis/core/validation).
"""
