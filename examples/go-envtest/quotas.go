// Package quotas gives each namespace of a team a ResourceQuota.
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
	// TeamLabel is on the namespaces that have a quota.
	TeamLabel = "example.com/team"
	// QuotaName is the name of the ResourceQuota.
	QuotaName = "team"
)

// Reconciler creates the quotas, and restores those that somebody has changed or deleted.
type Reconciler struct {
	client.Client
	Pods resource.Quantity
}

// SetupWithManager watches namespaces and the quotas that they own.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		For(&corev1.Namespace{}).
		Owns(&corev1.ResourceQuota{}).
		Complete(r)
}

// Reconcile makes the quota of one namespace as it should be.
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
