// Package quotas contains a controller that creates a ResourceQuota in each namespace of a team.
package quotas

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// TeamLabel is the label of namespaces that need a quota.
	TeamLabel = "example.com/team"
	// QuotaName is the name of the ResourceQuota.
	QuotaName = "team"
)

// Reconciler creates quotas, and restores quotas that a user changed or deleted.
type Reconciler struct {
	client.Client
	Pods resource.Quantity
}

// SetupWithManager sets up watches of namespaces and their quotas.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		For(&corev1.Namespace{}).
		Owns(&corev1.ResourceQuota{}).
		Complete(r)
}

// Reconcile creates or updates the quota of a namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := &corev1.Namespace{}
	if err := r.Get(ctx, request.NamespacedName, namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, found := namespace.Labels[TeamLabel]; !found || !namespace.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: QuotaName, Namespace: namespace.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, quota, func() error {
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: r.Pods}
		return controllerutil.SetControllerReference(namespace, quota, r.Scheme())
	})
	return ctrl.Result{}, err
}
