"""Feature gates: which there are in a release, and which of them are on.

    gates.txt   the gates of Kubernetes, also those that were removed, and their stages in each release
    gates       reads it, and applies what --feature-gates asks for
    gate_effects.txt  what each gate that is on by default does here, or why it does nothing
    gate_effects      reads it

All of it is pure. What a gate switches is where it belongs, and asks for its state (`Config.gates`). The
other gates are known, so that the flags of a start script are taken, and a warning says that they have no
effect here.

Source: k8s.io/component-base, featuregate/feature_gate.go; rows H09, S08.
"""
