package main

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"aplomb.dev/tests/controller-runtime/api"
)

// newSite creates a Site in a namespace of its own and waits until it is deployed.
func newSite(t *testing.T, spec api.SiteSpec) *api.Site {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "site-"}}
	if err := direct.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	site := &api.Site{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "home"}, Spec: spec}
	if err := direct.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return deployed(t, site) })
	return site
}

func deployed(t *testing.T, site *api.Site) error {
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(site), site); err != nil {
		return err
	}
	if site.Status.ObservedGeneration != site.Generation || !meta.IsStatusConditionTrue(site.Status.Conditions, "Deployed") {
		return fmt.Errorf("not deployed: %+v", site.Status)
	}
	return nil
}

func childOf(t *testing.T, site *api.Site) (*appsv1.Deployment, error) {
	child := &appsv1.Deployment{}
	return child, direct.Get(t.Context(), client.ObjectKeyFromObject(site), child)
}

func TestTheManagerHoldsItsLease(t *testing.T) {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: "default", Name: "site-operator"}
	if err := direct.Get(t.Context(), key, &lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Fatalf("nobody holds it: %+v", lease.Spec)
	}
}

func TestASiteBecomesADeploymentWithPods(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1", Replicas: 2})
	child, err := childOf(t, site)
	if err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(child, site) {
		t.Errorf("not owned: %+v", child.OwnerReferences)
	}
	// The box's own controllers make the Pods; the status comes back through Owns.
	eventually(t, func() error {
		var pods corev1.PodList
		if err := direct.List(t.Context(), &pods, client.InNamespace(site.Namespace), client.MatchingLabels{"site": "home"}); err != nil {
			return err
		}
		if len(pods.Items) != 2 {
			return fmt.Errorf("%d Pods", len(pods.Items))
		}
		if err := deployed(t, site); err != nil || site.Status.Replicas == 2 {
			return err
		}
		return fmt.Errorf("%d replicas in the status", site.Status.Replicas)
	})
}

func TestAnEventIsWritten(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1"})
	eventually(t, func() error {
		var events eventsv1.EventList
		if err := direct.List(t.Context(), &events, client.InNamespace(site.Namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == "Deployed" && event.Regarding.UID == site.UID && event.ReportingController == owner {
				return nil
			}
		}
		return fmt.Errorf("not among %d events", len(events.Items))
	})
}

func TestAThemeReachesItsSitesThroughTheIndex(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1", Theme: "dark"})
	theme := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: "dark"}, Data: map[string]string{"color": "black"}}
	if err := direct.Create(t.Context(), theme); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		child, err := childOf(t, site)
		if err == nil && child.Spec.Template.Annotations[themeKey] != "black" {
			err = fmt.Errorf("themed %v", child.Spec.Template.Annotations)
		}
		return err
	})
}

func TestWhatIsDeletedComesBack(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1", Replicas: 1})
	child, err := childOf(t, site)
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Delete(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		again, err := childOf(t, site)
		if err == nil && again.UID == child.UID {
			err = fmt.Errorf("still the old one")
		}
		return err
	})
}

func TestAFinalizerHoldsASiteUntilItIsArchived(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:9", Replicas: 1})
	if err := direct.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	var archive corev1.ConfigMap
	key := client.ObjectKey{Namespace: site.Namespace, Name: "home-archive"}
	eventually(t, func() error { return direct.Get(t.Context(), key, &archive) })
	if archive.Data["image"] != "registry.example.com/web:9" {
		t.Errorf("archived %v", archive.Data)
	}
	eventually(t, func() error {
		// The Deployment goes with its owner: the garbage collector's work.
		if _, err := childOf(t, site); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Deployment is there: %v", err)
		}
		return nil
	})
}

func TestFieldsOfOthersStay(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1", Replicas: 1})
	other := appsac.Deployment(site.Name, site.Namespace).WithLabels(map[string]string{"team": "blue"})
	if err := direct.Apply(t.Context(), other, client.FieldOwner("person")); err != nil {
		t.Fatal(err)
	}
	taken := appsac.Deployment(site.Name, site.Namespace).WithSpec(appsac.DeploymentSpec().WithReplicas(7))
	if err := direct.Apply(t.Context(), taken, client.FieldOwner("person")); !apierrors.IsConflict(err) {
		t.Errorf("another's field was given away: %v", err)
	}
	before := site.DeepCopy()
	site.Spec.Replicas = 0
	// The manager writes the status at any moment: a patch carries no version that it could move.
	if err := direct.Patch(t.Context(), site, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		child, err := childOf(t, site)
		if err == nil && (*child.Spec.Replicas != 0 || child.Labels["team"] != "blue") {
			err = fmt.Errorf("%d replicas, labels %v", *child.Spec.Replicas, child.Labels)
		}
		return err
	})
}
