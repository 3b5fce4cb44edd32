// Command messages prints how the built-in kinds are written as protobuf: for each message its
// fields with their number, JSON name and Go type, and which message each kind is.
//
// Fields and numbers are those of the .proto files beside the Go types. The types say two things
// more, which a writer of the very same bytes needs: what is a pointer, and what JSON leaves out
// when empty.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type field struct {
	// Empty for an inlined struct.
	Name string `json:"n,omitempty"`
	// The name in Go, as errors mention it, where it is not the JSON name in capitals.
	Go     string `json:"g,omitempty"`
	Number int    `json:"p"`
	Type   string `json:"t"`
	// omitempty
	Omit bool `json:"o,omitempty"`
	// omitzero
	Zero bool `json:"z,omitempty"`
}

// Types whose JSON is not that of a struct; the codec knows them by name.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "Raw",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "Raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "Raw",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

var (
	messages = map[string][]field{}
	kinds    = map[string]string{}
)

type marshaler interface{ Marshal() ([]byte, error) }

func key(t reflect.Type) string { return strings.TrimPrefix(t.PkgPath(), "k8s.io/") + "." + t.Name() }

func name(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + name(t.Elem())
	}
	if known, ok := special[t.PkgPath()+"."+t.Name()]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Struct:
		collect(t)
		return key(t)
	case reflect.Slice:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[marshaler]()) {
			return "Strings"
		}
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + name(t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic("a key that is not text: " + t.String())
		}
		return "map:" + name(t.Elem())
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return t.Kind().String()
	}
	panic("not known to protobuf: " + t.String())
}

func collect(t reflect.Type) {
	if _, seen := messages[key(t)]; seen {
		return
	}
	messages[key(t)] = []field{}
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[marshaler]()) {
		panic("not a message: " + t.String())
	}
	out, numbers := []field{}, numbers(t)
	for f := range t.Fields() {
		tag := strings.Split(f.Tag.Get("json"), ",")
		_, called, _ := strings.Cut(f.Tag.Get("protobuf"), "name=")
		called, _, _ = strings.Cut(called, ",")
		if called == "" {
			called = strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		number, known := numbers[called]
		if tag[0] == "-" || !known {
			continue
		}
		delete(numbers, called)
		entry := field{Name: tag[0], Number: number, Type: name(f.Type)}
		for _, option := range tag[1:] {
			entry.Omit = entry.Omit || option == "omitempty"
			entry.Zero = entry.Zero || option == "omitzero"
		}
		if entry.Name == "" && !f.Anonymous {
			entry.Name = f.Name
		}
		if entry.Name == "" || strings.ToUpper(entry.Name[:1])+entry.Name[1:] != f.Name {
			entry.Go = f.Name
		}
		out = append(out, entry)
	}
	if len(numbers) > 0 {
		panic(fmt.Sprintf("%s: no Go field for %v", t, numbers))
	}
	slices.SortFunc(out, func(a, b field) int { return a.Number - b.Number })
	messages[key(t)] = out
}

func kind(version, name string, t reflect.Type) {
	collect(t)
	kinds[strings.TrimPrefix(version+"/"+name, "/")] = key(t)
}

// The kinds of one scheme that have a stable version and a protobuf form.
func stable(known *runtime.Scheme, path string) {
	for gvk, t := range known.AllKnownTypes() {
		if strings.ContainsAny(gvk.Version[1:], "ab") || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if strings.HasPrefix(t.PkgPath(), path) && reflect.PointerTo(t).Implements(reflect.TypeFor[marshaler]()) {
			kind(gvk.GroupVersion().String(), gvk.Kind, t)
		}
	}
}

// Kinds every group has under its own name.
func shared() {
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.DeleteOptions](), reflect.TypeFor[metav1.CreateOptions](),
		reflect.TypeFor[metav1.UpdateOptions](), reflect.TypeFor[metav1.PatchOptions](),
		reflect.TypeFor[metav1.ListOptions](), reflect.TypeFor[metav1.GetOptions](),
		reflect.TypeFor[metav1.WatchEvent](),
	} {
		kind("", t.Name(), t)
	}
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.APIVersions](),
		reflect.TypeFor[metav1.APIGroupList](), reflect.TypeFor[metav1.APIGroup](),
		reflect.TypeFor[metav1.APIResourceList](),
	} {
		kind("v1", t.Name(), t)
	}
	for _, version := range []string{"meta.k8s.io/v1", "meta.k8s.io/v1beta1"} {
		kind(version, "PartialObjectMetadata", reflect.TypeFor[metav1.PartialObjectMetadata]())
		kind(version, "PartialObjectMetadataList", reflect.TypeFor[metav1.PartialObjectMetadataList]())
	}
}

func main() {
	extra := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, apidiscoveryv2.AddToScheme,
	} {
		if err := add(extra); err != nil {
			panic(err)
		}
	}
	stable(scheme.Scheme, "k8s.io/api/")
	stable(extra, "k8s.io/")
	shared()
	fmt.Print("{\"kinds\":{")
	lines(kinds)
	fmt.Print("},\"messages\":{")
	lines(messages)
	fmt.Println("}}")
}

// One entry a line, so that a new version shows what changed.
func lines[V any](table map[string]V) {
	for i, key := range slices.Sorted(maps.Keys(table)) {
		value, err := json.Marshal(table[key])
		if err != nil {
			panic(err)
		}
		if i > 0 {
			fmt.Print(",")
		}
		fmt.Printf("\n%q:%s", key, value)
	}
}
