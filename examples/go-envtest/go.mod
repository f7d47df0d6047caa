module example.com/quotas

go 1.25.0

require (
	k8s.io/api v0.35.2
	k8s.io/apimachinery v0.35.2
	sigs.k8s.io/controller-runtime v0.23.3
)
