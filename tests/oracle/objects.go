package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Objects are those of one scenario, by kind.
type Objects struct {
	config     config.Configuration
	namespaces []corev1.Namespace
	flavors    []kueue.ResourceFlavor
	cohorts    []kueue.Cohort
	queues     []kueue.ClusterQueue
	doors      []kueue.LocalQueue
	workloads  []kueue.Workload
}

// decode reads objects as an API server would: an unknown field is an error.
func decode(raw []json.RawMessage) (*Objects, error) {
	objects := &Objects{}
	for _, object := range raw {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(object, &kind); err != nil {
			return nil, err
		}
		if err := objects.add(kind.Kind, object); err != nil {
			return nil, fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
	return objects, nil
}

func (o *Objects) add(kind string, raw []byte) error {
	switch kind {
	case "Configuration":
		return strictly(raw, &o.config)
	case "Namespace":
		return appended(raw, &o.namespaces)
	case "ResourceFlavor":
		return appended(raw, &o.flavors)
	case "Cohort":
		return appended(raw, &o.cohorts)
	case "ClusterQueue":
		return appended(raw, &o.queues)
	case "LocalQueue":
		return appended(raw, &o.doors)
	case "Workload":
		return appended(raw, &o.workloads)
	}
	return fmt.Errorf("is no kind that is judged")
}

func appended[T any](raw []byte, list *[]T) error {
	var object T
	if err := strictly(raw, &object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

func strictly(raw []byte, into any) error {
	reader := json.NewDecoder(bytes.NewReader(raw))
	reader.DisallowUnknownFields()
	return reader.Decode(into)
}

// stored are the objects that an API server would hold.
func (o *Objects) stored() []client.Object {
	var all []client.Object
	all = append(all, pointers[corev1.Namespace](o.namespaces)...)
	all = append(all, pointers[kueue.ClusterQueue](o.queues)...)
	all = append(all, pointers[kueue.LocalQueue](o.doors)...)
	return append(all, pointers[kueue.Workload](o.workloads)...)
}

func pointers[T any, P interface {
	*T
	client.Object
}](list []T) []client.Object {
	all := make([]client.Object, len(list))
	for place := range list {
		all[place] = P(&list[place])
	}
	return all
}
