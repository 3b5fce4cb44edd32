// An ordinary operator on controller-runtime, as a stranger would write it: the box has to serve it as it is.
package main

import (
	"context"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"aplomb.dev/tests/controller-runtime/api"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, api.AddToScheme(scheme)
}

// newStandby is a manager that takes part in the election, with times that suit a test on a slow machine; all else is
// the default.
func newStandby(config *rest.Config) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	lease, deadline, retry := 30*time.Second, 20*time.Second, 500*time.Millisecond
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "site-operator",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &deadline,
		RetryPeriod:                   &retry,
	})
}

// newManager is the whole operator.
func newManager(ctx context.Context, config *rest.Config) (ctrl.Manager, error) {
	mgr, err := newStandby(config)
	if err != nil {
		return nil, err
	}
	operator := &reconciler{Client: mgr.GetClient(), events: mgr.GetEventRecorder(owner)}
	return mgr, operator.setup(ctx, mgr)
}

func main() {
	ctrl.SetLogger(zap.New())
	ctx := ctrl.SetupSignalHandler()
	mgr, err := newManager(ctx, ctrl.GetConfigOrDie())
	if err == nil {
		err = mgr.Start(ctx)
	}
	if err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}
