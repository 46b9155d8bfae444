// KubeRay's controllers of clusters and jobs, as its own program starts them.
//
// That program (1.6.2) does not compile with the controller-runtime of Kueue 0.19: its webhooks do not, which
// it leaves off unless asked. The newer one, 1.7.0, would.
package main

import (
	"flag"
	"os"

	configapi "github.com/ray-project/kuberay/ray-operator/apis/config/v1alpha1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/batchscheduler"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	metrics := flag.String("metrics-addr", "", "")
	probes := flag.String("health-probe-bind-address", "", "")
	elects := flag.Bool("enable-leader-election", false, "")
	flag.Parse()
	ctrl.SetLogger(zap.New())

	created := labels.SelectorFromSet(labels.Set{utils.KubernetesCreatedByLabelKey: utils.ComponentName})
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 clientgoscheme.Scheme,
		Metrics:                server.Options{BindAddress: *metrics},
		HealthProbeBindAddress: *probes,
		LeaderElection:         *elects,
		Cache:                  cache.Options{ByObject: map[client.Object]cache.ByObject{&batchv1.Job{}: {Label: created}}},
	})
	must(err)
	must(rayv1.AddToScheme(manager.GetScheme()))
	ctx, config := ctrl.SetupSignalHandler(), configapi.Configuration{}
	batch, err := batchscheduler.NewSchedulerManager(ctx, config, manager.GetConfig(), manager.GetClient())
	must(err)
	batch.AddToScheme(manager.GetScheme())

	clusters := ray.NewReconciler(ctx, manager, ray.RayClusterReconcilerOptions{BatchSchedulerManager: batch})
	must(clusters.SetupWithManager(manager, 1))
	jobs := ray.RayJobReconcilerOptions{BatchSchedulerManager: batch}
	must(ray.NewRayJobReconciler(ctx, manager, jobs, config).SetupWithManager(manager, 1))
	must(manager.Start(ctx))
}

func must(err error) {
	if err != nil {
		ctrl.Log.Error(err, "KubeRay's controllers end")
		os.Exit(1)
	}
}
