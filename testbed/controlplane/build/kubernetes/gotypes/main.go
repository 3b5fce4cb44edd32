// Command gotypes prints the Go types behind the built-in kinds as JSON: for each struct its
// fields in order, with their JSON name, Go type and whether they are omitted when empty.
//
// OpenAPI does not say these things, and a server that decodes as the Go one does needs them: they
// are what error messages name and what decides which zero values an answer shows.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Every stable kind of the API: those of the clientset, and the two the clientset does not know.
func roots() []reflect.Type {
	found := []reflect.Type{
		reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](),
		reflect.TypeFor[apiregistrationv1.APIService](),
		reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.DeleteOptions](),
		reflect.TypeFor[metav1.WatchEvent](), reflect.TypeFor[metav1.PartialObjectMetadata](),
		reflect.TypeFor[metav1.PartialObjectMetadataList](), reflect.TypeFor[metav1.APIGroupList](),
		reflect.TypeFor[metav1.APIResourceList](), reflect.TypeFor[metav1.APIVersions](),
		reflect.TypeFor[metav1.Table](), reflect.TypeFor[apidiscoveryv2.APIGroupDiscoveryList](),
	}
	for kind, known := range scheme.Scheme.AllKnownTypes() {
		if !strings.ContainsAny(kind.Version[1:], "ab") && strings.HasPrefix(known.PkgPath(), "k8s.io/api/") {
			found = append(found, known)
		}
	}
	return found
}

// A field of a struct. Inlined structs have no name.
type field struct {
	Name string `json:"n,omitempty"`
	Type string `json:"t"`
	// omitempty
	Omit bool `json:"o,omitempty"`
	// omitzero
	Zero bool `json:"z,omitempty"`
}

// A named type: a struct, another basic type, or one that reads and writes its own JSON.
type named struct {
	// The name as Go's error messages print it.
	Go     string  `json:"go"`
	Fields []field `json:"fields,omitempty"`
	// The type a named string, number, list or map stands for.
	Of string `json:"of,omitempty"`
	// UnmarshalJSON or MarshalJSON is the type's own.
	Custom bool `json:"custom,omitempty"`
}

var types = map[string]*named{}

func name(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + name(t.Elem())
	case reflect.Interface:
		types["any"] = &named{Go: t.String(), Custom: true}
		return "any"
	}
	if t.Name() != "" && t.PkgPath() != "" {
		collect(t)
		return t.PkgPath() + "." + t.Name()
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "[]byte"
		}
		return "[]" + name(t.Elem())
	case reflect.Map:
		return "map[" + name(t.Key()) + "]" + name(t.Elem())
	}
	return t.String()
}

func collect(t reflect.Type) {
	key := t.PkgPath() + "." + t.Name()
	if types[key] != nil {
		return
	}
	n := &named{Go: t.String()}
	types[key] = n
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	if reflect.PointerTo(t).Implements(unmarshaler) {
		n.Custom = true
		return
	}
	if t.Kind() == reflect.Struct {
		n.Fields = fields(t)
		return
	}
	switch t.Kind() {
	case reflect.Slice:
		n.Of = "[]" + name(t.Elem())
	case reflect.Map:
		n.Of = "map[" + name(t.Key()) + "]" + name(t.Elem())
	default:
		n.Of = t.Kind().String()
	}
}

func fields(t reflect.Type) []field {
	var out []field
	for f := range t.Fields() {
		tag := strings.Split(f.Tag.Get("json"), ",")
		if tag[0] == "-" || !f.IsExported() {
			continue
		}
		entry := field{Name: tag[0], Type: name(f.Type)}
		for _, option := range tag[1:] {
			entry.Omit = entry.Omit || option == "omitempty"
			entry.Zero = entry.Zero || option == "omitzero"
		}
		if entry.Name == "" && !f.Anonymous {
			entry.Name = f.Name
		}
		out = append(out, entry)
	}
	return out
}

func main() {
	for _, root := range roots() {
		collect(root)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(types); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
