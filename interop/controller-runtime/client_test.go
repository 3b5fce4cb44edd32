package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"aplomb.dev/tests/controller-runtime/api"
)

// seen keeps the media types of answers.
type seen struct {
	sync.Mutex
	types map[string]int
	next  http.RoundTripper
}

func (s *seen) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(request)
	if err == nil {
		s.Lock()
		s.types[response.Header.Get("Content-Type")]++
		s.Unlock()
	}
	return response, err
}

func TestBuiltInKindsTravelAsProtobuf(t *testing.T) {
	watched := &seen{types: map[string]int{}}
	c := rest.CopyConfig(config)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { watched.next = next; return watched })
	scheme, _ := newScheme()
	plain, err := client.New(c, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "typed-"}, BinaryData: map[string][]byte{"k": {0, 255}}}
	if err := plain.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if err := plain.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	if watched.types["application/vnd.kubernetes.protobuf"] < 2 {
		t.Errorf("answers came as %v", watched.types)
	}
}

func TestAStaleUpdateIsAConflict(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1"})
	stale := site.DeepCopy()
	site.Spec.Image = "registry.example.com/web:2"
	eventually(t, func() error {
		err := direct.Update(t.Context(), site)
		if apierrors.IsConflict(err) {
			_ = direct.Get(t.Context(), client.ObjectKeyFromObject(site), site)
			site.Spec.Image = "registry.example.com/web:2"
		}
		return err
	})
	stale.Spec.Image = "registry.example.com/web:3"
	if err := direct.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("not a conflict: %v", err)
	}
}

func TestTheServerRefusesWhatTheSchemaForbids(t *testing.T) {
	site := &api.Site{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}, Spec: api.SiteSpec{Replicas: -1}}
	if err := direct.Create(t.Context(), site); !apierrors.IsInvalid(err) {
		t.Errorf("not invalid: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}}
	if err := direct.Create(t.Context(), pod); !apierrors.IsInvalid(err) {
		t.Errorf("not invalid: %v", err)
	}
}

func TestListsComeInPagesAndCollectionsGoAtOnce(t *testing.T) {
	labels := client.MatchingLabels{"page": "yes"}
	for range 5 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "page-", Labels: labels}}
		if err := direct.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	var list corev1.ConfigMapList
	got, token := 0, ""
	for {
		if err := direct.List(t.Context(), &list, labels, client.Limit(2), client.Continue(token)); err != nil {
			t.Fatal(err)
		}
		got += len(list.Items)
		if token = list.Continue; token == "" {
			break
		}
	}
	if got != 5 {
		t.Errorf("%d in pages", got)
	}
	if err := direct.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("default"), labels); err != nil {
		t.Fatal(err)
	}
	if err := direct.List(t.Context(), &list, labels); err != nil || len(list.Items) != 0 {
		t.Errorf("%d left: %v", len(list.Items), err)
	}
}

func TestAStrategicPatchMergesByKey(t *testing.T) {
	site := newSite(t, api.SiteSpec{Image: "registry.example.com/web:1"})
	child, err := childOf(t, site)
	if err != nil {
		t.Fatal(err)
	}
	before := child.DeepCopy()
	child.Spec.Template.Spec.Containers = append(child.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "registry.example.com/side:1"})
	if err := direct.Patch(t.Context(), child, client.StrategicMergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if len(child.Spec.Template.Spec.Containers) != 2 {
		t.Errorf("containers %+v", child.Spec.Template.Spec.Containers)
	}
}

func TestScaleIsASubresource(t *testing.T) {
	object := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "scaled-"}}
	object.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	object.Spec.Template.Labels = map[string]string{"a": "b"}
	object.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "registry.example.com/a:1"}}
	if err := direct.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	// The box's own controller writes to the Deployment as well.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale := &autoscalingv1.Scale{}
		if err := direct.SubResource("scale").Get(t.Context(), object, scale); err != nil {
			return err
		}
		scale.Spec.Replicas = 3
		return direct.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scale))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if replicas := object.Spec.Replicas; replicas == nil || *replicas != 3 {
		t.Errorf("replicas %v", replicas)
	}
}

func TestASecondManagerWaitsForTheLease(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Controllers of one name are counted for the whole process, so this manager has none.
	second, err := newStandby(config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- second.Start(ctx) }()
	select {
	case <-second.Elected():
		t.Error("two leaders")
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	case <-time.After(2 * time.Second):
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(fmt.Errorf("the standby: %w", err))
	}
}
