package quotas

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const within = time.Minute

var api client.Client

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runTests starts a server and a manager, and runs all tests.
func runTests(m *testing.M) (code int, err error) {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		return 0, err
	}
	defer func() {
		if stopped := environment.Stop(); err == nil {
			err = stopped
		}
	}()
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return 0, err
	}
	reconciler := &Reconciler{Client: manager.GetClient(), Pods: resource.MustParse("10")}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return 0, err
	}
	if api, err = client.New(config, client.Options{}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	code = m.Run()
	cancel()
	return code, <-ended
}

// newNamespace creates a namespace with a unique name.
func newNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// waitForQuota waits until the quota of a namespace allows the given number of pods, and returns the quota.
func waitForQuota(t *testing.T, namespace, pods string) *corev1.ResourceQuota {
	t.Helper()
	quota := &corev1.ResourceQuota{}
	key := client.ObjectKey{Namespace: namespace, Name: QuotaName}
	isThere := func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, key, quota); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return quota.Spec.Hard.Pods().Cmp(resource.MustParse(pods)) == 0, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, within, true, isThere); err != nil {
		t.Fatalf("%s has no quota of %s pods: %v", namespace, pods, err)
	}
	return quota
}

func TestANamespaceOfATeamHasAQuota(t *testing.T) {
	namespace := newNamespace(t, map[string]string{TeamLabel: "web"})
	quota := waitForQuota(t, namespace, "10")
	if owner := metav1.GetControllerOf(quota); owner == nil || owner.Name != namespace {
		t.Errorf("the quota has the wrong owner: %v", owner)
	}
}

func TestAChangedQuotaIsRestored(t *testing.T) {
	quota := waitForQuota(t, newNamespace(t, map[string]string{TeamLabel: "web"}), "10")
	quota.Spec.Hard[corev1.ResourcePods] = resource.MustParse("1000")
	if err := api.Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	waitForQuota(t, quota.Namespace, "10")
}

func TestADeletedQuotaIsRestored(t *testing.T) {
	quota := waitForQuota(t, newNamespace(t, map[string]string{TeamLabel: "web"}), "10")
	if err := api.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	if restored := waitForQuota(t, quota.Namespace, "10"); restored.UID == quota.UID {
		t.Error("the quota was not deleted")
	}
}
