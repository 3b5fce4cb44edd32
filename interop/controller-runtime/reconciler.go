package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"aplomb.dev/tests/controller-runtime/api"
)

const (
	owner      = "site-operator"
	finalizer  = "web.example.com/archive"
	themeIndex = "spec.theme"
	themeKey   = "web.example.com/theme"
)

// reconciler makes a Deployment of every Site.
type reconciler struct {
	client.Client
	events recorder.EventRecorder
}

func (r *reconciler) setup(ctx context.Context, mgr ctrl.Manager) error {
	theme := func(o client.Object) []string { return []string{o.(*api.Site).Spec.Theme} }
	if err := mgr.GetFieldIndexer().IndexField(ctx, &api.Site{}, themeIndex, theme); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Site{}).
		Owns(&appsv1.Deployment{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.sitesOf)).
		Complete(r)
}

// sitesOf finds, through the index, who uses a theme.
func (r *reconciler) sitesOf(ctx context.Context, theme client.Object) []reconcile.Request {
	var sites api.SiteList
	err := r.List(ctx, &sites, client.InNamespace(theme.GetNamespace()), client.MatchingFields{themeIndex: theme.GetName()})
	if err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range sites.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sites.Items[i])})
	}
	return requests
}

// Reconcile brings the world to what one Site says.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var site api.Site
	if err := r.Get(ctx, request.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.archive(ctx, &site)
	}
	if controllerutil.AddFinalizer(&site, finalizer) {
		return ctrl.Result{}, r.Update(ctx, &site)
	}
	theme, err := r.theme(ctx, &site)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Apply(ctx, deployment(&site, theme), client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &site)
}

// theme is what the Site's ConfigMap says, or nothing as long as there is none.
func (r *reconciler) theme(ctx context.Context, site *api.Site) (string, error) {
	if site.Spec.Theme == "" {
		return "", nil
	}
	var theme corev1.ConfigMap
	key := client.ObjectKey{Namespace: site.Namespace, Name: site.Spec.Theme}
	err := r.Get(ctx, key, &theme)
	return theme.Data["color"], client.IgnoreNotFound(err)
}

func (r *reconciler) report(ctx context.Context, site *api.Site) error {
	var child appsv1.Deployment
	if err := r.Get(ctx, client.ObjectKeyFromObject(site), &child); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := site.DeepCopy()
	site.Status.Replicas = child.Status.Replicas
	site.Status.ObservedGeneration = site.Generation
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Deployed", Status: metav1.ConditionTrue, Reason: "Applied",
		Message: fmt.Sprintf("%d replicas", child.Status.Replicas), ObservedGeneration: site.Generation,
	})
	if before.Status.ObservedGeneration != site.Generation {
		r.events.Eventf(site, &child, corev1.EventTypeNormal, "Deployed", "Apply", "generation %d is deployed", site.Generation)
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, site, client.MergeFrom(before)))
}

// archive does what has to be done before a Site may go.
func (r *reconciler) archive(ctx context.Context, site *api.Site) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	archive := coreac.ConfigMap(site.Name+"-archive", site.Namespace).WithData(map[string]string{"image": site.Spec.Image})
	if err := r.Apply(ctx, archive, client.FieldOwner(owner), client.ForceOwnership); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(site, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, site))
}

func deployment(site *api.Site, theme string) *appsac.DeploymentApplyConfiguration {
	labels := map[string]string{"site": site.Name}
	parent := metaac.OwnerReference().WithAPIVersion(api.GroupVersion.String()).WithKind("Site").
		WithName(site.Name).WithUID(site.UID).WithController(true).WithBlockOwnerDeletion(true)
	container := coreac.Container().WithName("web").WithImage(site.Spec.Image)
	pods := coreac.PodTemplateSpec().WithLabels(labels).WithAnnotations(map[string]string{themeKey: theme}).
		WithSpec(coreac.PodSpec().WithContainers(container))
	return appsac.Deployment(site.Name, site.Namespace).WithLabels(labels).WithOwnerReferences(parent).
		WithSpec(appsac.DeploymentSpec().WithReplicas(site.Spec.Replicas).
			WithSelector(metaac.LabelSelector().WithMatchLabels(labels)).WithTemplate(pods))
}
