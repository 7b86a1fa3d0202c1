package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/venturi-net/venturi/internal/testenv"
)

// storedObject is an object of any kind, with the books of who manages its fields. They are kept
// by the library with which API servers keep them.
type storedObject struct {
	value    map[string]any // without managedFields
	version  int
	managers fieldpath.ManagedFields // by "manager/operation"
	times    map[string]time.Time
}

// schemas are as much of the schemas of objects as says which lists are sets, and which keys are fields.
const schemas = `types:
- name: configmap
  map:
    fields:
    - {name: data, type: {map: {elementType: {scalar: string}}}}
    elementType: {namedType: __untyped_deduced_}
- name: workload
  map:
    fields:
    - {name: spec, type: {namedType: spec}}
    elementType: {namedType: __untyped_deduced_}
- name: spec
  map:
    fields:
    - {name: template, type: {namedType: template}}
    elementType: {namedType: __untyped_deduced_}
- name: template
  map:
    fields:
    - {name: spec, type: {namedType: podspec}}
    elementType: {namedType: __untyped_deduced_}
- name: podspec
  map:
    fields:
    - name: containers
      type: {list: {elementType: {namedType: container}, elementRelationship: associative, keys: [name]}}
    elementType: {namedType: __untyped_deduced_}
- name: container
  map:
    elementType: {namedType: __untyped_deduced_}
- name: __untyped_atomic_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_deduced_}, elementRelationship: separable}
`

// sameVersion converts nothing: each kind has one version here.
type sameVersion struct{}

func (sameVersion) Convert(o *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return o, nil
}
func (sameVersion) IsMissingVersionError(error) bool { return false }

func updater() *merge.Updater {
	return (&merge.UpdaterBuilder{Converter: sameVersion{}}).BuildUpdater()
}

// unnamed are the parts of an object whose managers are not noted.
var unnamed = []string{"apiVersion", "kind", "metadata"}

// schemaParser is one for all: values of different ones are not compared.
var schemaParser = sync.OnceValues(func() (*typed.Parser, error) { return typed.NewParser(schemas) })

func typedOf(value map[string]any) (*typed.TypedValue, error) {
	parser, err := schemaParser()
	if err != nil {
		return nil, err
	}
	kind := parser.Type("__untyped_deduced_")
	switch value["kind"] {
	case "DaemonSet", "Deployment":
		kind = parser.Type("workload")
	case "ConfigMap":
		kind = parser.Type("configmap")
	}
	body := copied(value)
	for _, key := range unnamed {
		delete(body, key)
	}
	return kind.FromUnstructured(body)
}

func copied(value map[string]any) (c map[string]any) {
	text, _ := json.Marshal(value)
	_ = json.Unmarshal(text, &c)
	return c
}

// export is the object with the books, as the server gives it.
func (o *storedObject) export() map[string]any {
	v := copied(o.value)
	m, _ := v["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	m["resourceVersion"], m["uid"] = fmt.Sprint(o.version), "0a1b2c3d-0000-0000-0000-000000000099"
	var entries []any
	for key, set := range o.managers {
		name, operation := path.Dir(key), path.Base(key)
		text, _ := set.Set().ToJSON()
		var fields map[string]any
		_ = json.Unmarshal(text, &fields)
		entries = append(entries, map[string]any{"manager": name, "operation": operation, "apiVersion": v["apiVersion"], "fieldsType": "FieldsV1",
			"fieldsV1": fields, "time": o.times[key].UTC().Format(time.RFC3339)})
	}
	m["managedFields"] = entries
	if entries == nil {
		delete(m, "managedFields")
	}
	v["metadata"] = m
	return v
}

// store takes the typed parts of an object, after a write by a manager.
func (o *storedObject) store(t *typed.TypedValue, managers fieldpath.ManagedFields, by string) {
	if t != nil {
		body, _ := t.AsValue().Unstructured().(map[string]any)
		for _, key := range unnamed {
			body[key] = o.value[key]
		}
		o.value = copied(body)
	}
	o.version++
	o.managers, o.times[by] = managers, time.Now()
}

// update makes an object another one, as a manager.
func (o *storedObject) update(value map[string]any, manager string) error {
	live, err := typedOf(o.value)
	if err != nil {
		return err
	}
	next, err := typedOf(value)
	if err != nil {
		return err
	}
	by := manager + "/Update"
	t, managers, err := updater().Update(live, next, "v1", o.managers, by)
	if err == nil {
		o.store(t, managers, by)
	}
	return err
}

// AddObject has an object made by a manager.
func (s *apiServer) AddObject(at, manager string, value map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addStored(at, manager, value)
}

func (s *apiServer) addStored(at, manager string, value map[string]any) {
	if s.stored == nil {
		s.stored = map[string]*storedObject{}
	}
	empty := map[string]any{}
	for _, key := range unnamed {
		empty[key] = value[key]
	}
	o := &storedObject{value: empty, managers: fieldpath.ManagedFields{}, times: map[string]time.Time{}}
	if err := o.update(copied(value), manager); err != nil {
		panic(err)
	}
	s.stored[at] = o
}

// Object gives an object; nil: there is none.
func (s *apiServer) Object(at string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.stored[at]; o != nil {
		return o.export()
	}
	return nil
}

// UpdateObject has a manager change an object.
func (s *apiServer) UpdateObject(t *testing.T, at, manager string, change func(map[string]any)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	value := copied(s.stored[at].value)
	change(value)
	testenv.Must(t, s.stored[at].update(value, manager))
}

// serveStored answers calls that are about stored objects. False: this one is not.
func (s *apiServer) serveStored(w http.ResponseWriter, r *http.Request, c apiCall, body []byte) bool {
	at := r.URL.Path
	o := s.stored[at]
	switch {
	case c.resource == "configmaps" && c.verb == "create":
		s.createStored(w, at+"/"+objectName(body), body)
	case o == nil && c.verb == "list":
		return s.listStored(w, at)
	case o == nil && c.verb == "patch":
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, c.name+" not found")
	case o == nil:
		return false
	case c.verb == "get":
		reply(w, http.StatusOK, o.export())
	case c.verb == "delete":
		var options metav1.DeleteOptions
		_ = json.Unmarshal(body, &options)
		if p := options.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != fmt.Sprint(o.version) {
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "it has another version")
			return true
		}
		delete(s.stored, at)
		reply(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
	default:
		s.writeStored(w, r, o, body)
	}
	return true
}

func (s *apiServer) createStored(w http.ResponseWriter, at string, body []byte) {
	if s.stored[at] != nil {
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, at+" already exists")
		return
	}
	var value map[string]any
	_ = json.Unmarshal(body, &value)
	s.addStored(at, manager, value)
	reply(w, http.StatusCreated, s.stored[at].export())
}

func (s *apiServer) listStored(w http.ResponseWriter, at string) bool {
	items := []any{}
	for name, o := range s.stored {
		if path.Dir(name) == at {
			items = append(items, o.export())
		}
	}
	if len(items) > 0 {
		reply(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	return len(items) > 0
}

// writeStored carries out an update, an apply or a patch.
func (s *apiServer) writeStored(w http.ResponseWriter, r *http.Request, o *storedObject, body []byte) {
	by := r.URL.Query().Get("fieldManager")
	var value map[string]any
	var err error
	switch r.Header.Get("Content-Type") {
	case "application/apply-patch+yaml":
		_ = json.Unmarshal(body, &value)
		if version, ok := field(value, "metadata", "resourceVersion").(string); ok && version != fmt.Sprint(o.version) {
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
			return
		}
		err = o.apply(value, by, r.URL.Query().Get("force") == "true")
	case "application/json-patch+json":
		if value, err = patched(o.export(), body); err == nil {
			err = o.update(value, by)
		}
	default:
		_ = json.Unmarshal(body, &value)
		if version, ok := field(value, "metadata", "resourceVersion").(string); ok && version != fmt.Sprint(o.version) {
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
			return
		}
		err = o.update(value, by)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
		return
	}
	reply(w, http.StatusOK, o.export())
}

func (o *storedObject) apply(config map[string]any, manager string, force bool) error {
	live, err := typedOf(o.value)
	if err != nil {
		return err
	}
	if config["kind"] != o.value["kind"] {
		return fmt.Errorf("kind %v is none of %v", config["kind"], o.value["kind"])
	}
	applied, err := typedOf(config)
	if err != nil {
		return err
	}
	by := manager + "/Apply"
	t, managers, err := updater().Apply(live, applied, "v1", o.managers, by, force)
	if err == nil {
		o.store(t, managers, by)
	}
	return err
}

func field(object any, keys ...string) any {
	for _, key := range keys {
		m, _ := object.(map[string]any)
		object = m[key]
	}
	return object
}
