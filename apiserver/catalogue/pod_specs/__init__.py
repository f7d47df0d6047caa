"""The fields of a PodSpec: of pods, and of the templates of workloads.

    defaults               sets the defaults of pods and of all fields of a spec
    validation_options     the options of specs, by the feature gates of a server
    ratcheting             finds the options that a stored spec uses beyond these, and may keep
    validation             checks a whole spec, with the memo `valid_specs`
    templates              checks a PodTemplateSpec, and has the columns of the kinds that have one
    containers, probes, restart_policies, volumes, field_references, resource_requirements, scheduling,
    security_contexts, pod_annotations
                           check one part each
    resource_totals        adds up the requests of a pod's containers
    warnings               warns about discouraged fields; overlapping_paths about files

Paths, reasons, texts and the order of errors are Kubernetes' (pkg/apis/core/validation).
"""
