"""Everything inside a PodSpec, wherever one stands: in pods, and in the templates of what makes pods.

    defaults               sets the defaults of pods and of everything in a spec
    validation_options     tells what specs may have by the feature gates of a server
    ratcheting             tells what a stored spec has beyond that, and may keep
    validation             checks a whole spec, with the memo `valid_specs`
    templates              checks a PodTemplateSpec, and has the columns of the kinds that have one
    containers, probes, restart_policies, volumes, field_references, resource_requirements, scheduling,
    security_contexts, pod_annotations
                           check one part each
    resource_totals        adds up what the containers of a pod ask for
    warnings               warns of what is allowed and still not wise; of files, overlapping_paths

Paths, reasons, texts and the order of errors are Kubernetes' (pkg/apis/core/validation).
"""
