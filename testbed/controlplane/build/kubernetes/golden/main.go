// Command golden prints objects as JSON with their protobuf bytes beside them, packed: the samples
// Kubernetes keeps of each of its kinds, with every field filled, and answers of the server that
// KUBECONFIG names, which have the gaps real objects have.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type sample struct {
	Name     string          `json:"name"`
	JSON     json.RawMessage `json:"json"`
	Protobuf []byte          `json:"protobuf"`
}

var stable = regexp.MustCompile(`\.v[0-9]+\.[A-Za-z]+\.pb$`)

// What the server sends and never serves, and an event, which is not an object.
var skipped = regexp.MustCompile(`AdmissionReview|ConversionReview|WatchEvent`)

// Paths, and the conversion asked for.
var asked = [][2]string{
	{"/api", ""}, {"/api/v1", ""}, {"/apis", ""}, {"/apis/apps", ""}, {"/apis/apps/v1", ""},
	{"/api/v1/namespaces", ""}, {"/api/v1/namespaces/default", ""}, {"/api/v1/namespaces/missing", ""},
	{"/api/v1/configmaps", ""}, {"/api/v1/services", ""}, {"/api/v1/nodes", ""},
	{"/apis/apiregistration.k8s.io/v1/apiservices", ""},
	{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ""},
	{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", ""},
	{"/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=3", ""},
	{"/apis/scheduling.k8s.io/v1/priorityclasses", ""},
	{"/apis/coordination.k8s.io/v1/leases", ""},
	{"/api/v1/namespaces/default", ";g=meta.k8s.io;v=v1;as=PartialObjectMetadata"},
	{"/api/v1/namespaces", ";g=meta.k8s.io;v=v1;as=PartialObjectMetadataList"},
	{"/apis", ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
	{"/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion=0", ""},
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func kept() (out []sample) {
	for _, place := range [][2]string{
		{"k8s.io/api", "testdata/HEAD"},
		{"k8s.io/apiextensions-apiserver", "pkg/apis/testdata/HEAD"},
	} {
		module, folder := place[0], place[1]
		root := must(exec.Command("go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module).Output())
		for _, path := range must(filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), folder, "*.pb"))) {
			if !stable.MatchString(path) || skipped.MatchString(path) {
				continue
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, must(os.ReadFile(strings.TrimSuffix(path, "pb")+"json"))); err != nil {
				panic(err)
			}
			name := strings.TrimSuffix(filepath.Base(path), ".pb")
			out = append(out, sample{name, compact.Bytes(), must(os.ReadFile(path))})
		}
	}
	return out
}

func get(client rest.Interface, path, media string) []byte {
	request := client.Get().RequestURI(path).SetHeader("Accept", media)
	body, err := request.DoRaw(context.Background())
	if len(body) == 0 {
		must(body, err)
	}
	return body
}

func answers() (out []sample) {
	config := must(clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")))
	client := must(kubernetes.NewForConfig(config)).RESTClient()
	for _, ask := range asked {
		text := get(client, ask[0], "application/json"+ask[1])
		// The lines of a watch become a list.
		lines := strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",")
		if strings.Contains(ask[0], "watch=1") {
			lines = "[" + lines + "]"
		}
		raw := get(client, ask[0], "application/vnd.kubernetes.protobuf"+ask[1])
		out = append(out, sample{ask[0] + ask[1], json.RawMessage(lines), raw})
	}
	return out
}

func main() {
	packed := must(gzip.NewWriterLevel(os.Stdout, gzip.BestCompression))
	must(0, json.NewEncoder(packed).Encode(append(kept(), answers()...)))
	must(0, packed.Close())
}
