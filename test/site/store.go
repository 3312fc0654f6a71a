package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Store is the etcd of a cluster. Through it, tests that share the cluster see all objects, and a
// reset needs no knowledge of resources, owners or finalizers.
type Store struct {
	url string
	// first contains the objects that no test has created or changed.
	first map[string][]byte
}

// NewStore returns the etcd at a URL. Reset will restore what it contains now.
func NewStore(ctx context.Context, url string) (*Store, error) {
	s := &Store{url: url}
	var err error
	s.first, err = s.Objects(ctx)
	return s, err
}

const prefix = "/registry/"

// Objects returns all objects, as Kubernetes stores them, by keys such as "configmaps/default/a"
// and "config.openshift.io/proxies/cluster".
func (s *Store) Objects(ctx context.Context) (map[string][]byte, error) {
	text, err := s.call(ctx, "range", pair{Key: []byte(prefix), RangeEnd: []byte("/registry0")})
	if err != nil {
		return nil, err
	}
	var answer struct{ KVs []pair }
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("decoding the content of etcd: %w", err)
	}
	objects := map[string][]byte{}
	for _, one := range answer.KVs {
		objects[strings.TrimPrefix(string(one.Key), prefix)] = one.Value
	}
	return objects, nil
}

// Added returns the keys of the objects that tests have created.
func (s *Store) Added(ctx context.Context) ([]string, error) {
	now, err := s.Objects(ctx)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(key string) bool {
		return s.first[key] != nil || s.isKept(key)
	}), err
}

const (
	pollEvery = 100 * time.Millisecond
	// calm is the number of times that a reset must find nothing to do: controllers react to it.
	calm = 3
	// most is how often a reset restores an object that Kubernetes changes again each time.
	most = 20
	// resetBound is no property of the product, and long because the time on a busy machine counts.
	resetBound = 2 * time.Minute
)

// Reset deletes what tests have created, and restores what they have changed or deleted. It waits
// until nothing is left, and no controller adds anything. A controller that was late when the
// cluster started repeats after each restoration what NewStore has missed, such as the first status
// of a ReplicaSet. Then Reset keeps it.
func (s *Store) Reset(ctx context.Context) error {
	var left []string
	restored := map[string]int{}
	quiet := 0
	err := wait.PollUntilContextTimeout(ctx, pollEvery, resetBound, true,
		func(ctx context.Context) (bool, error) {
			changed, err := s.restore(ctx, restored)
			if err != nil {
				return false, err
			}
			if quiet++; len(changed) > 0 {
				left, quiet = changed, 0
			}
			return quiet == calm, nil
		})
	if err != nil {
		return fmt.Errorf("resetting a cluster: %w; changed last: %v", err, left)
	}
	return nil
}

// restore restores all objects once, and returns the keys of those that it has changed. Events are
// not among them: they are sent late. It counts how often each key has been restored.
func (s *Store) restore(ctx context.Context, restored map[string]int) ([]string, error) {
	now, err := s.Objects(ctx)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(s.first)
	maps.Copy(all, now)
	var changed []string
	var operations []operation
	for key := range all {
		first, known := s.first[key]
		current, exists := now[key]
		if s.isKept(key) || known == exists && bytes.Equal(first, current) {
			continue
		}
		if restored[key]++; restored[key] > most {
			s.adopt(key, current)
			continue
		}
		if !strings.HasPrefix(key, "events/") {
			changed = append(changed, key)
		}
		one := &pair{Key: []byte(prefix + key), Value: first}
		if known {
			operations = append(operations, operation{Put: one})
		} else {
			operations = append(operations, operation{Delete: one})
		}
	}
	const together = 100 // etcd accepts 128 in a transaction
	for some := range slices.Chunk(operations, together) {
		_, err := s.call(ctx, "txn", map[string][]operation{"success": some})
		if err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// adopt makes what Kubernetes contains now the first state of a key. A missing object is nil.
func (s *Store) adopt(key string, now []byte) {
	if s.first[key] = now; now == nil {
		delete(s.first, key)
	}
}

// isKept returns whether Kubernetes itself keeps an object as it must be.
func (s *Store) isKept(key string) bool {
	parts := strings.Split("/"+key, "/")
	resource, namespace, name := parts[1], parts[len(parts)-2], parts[len(parts)-1]
	switch resource {
	case "masterleases", "peerserverleases", "flowschemas", "prioritylevelconfigurations",
		"servicecidrs", "apiregistration.k8s.io":
		return true
	case "minions": // the nodes of the cluster, whose status changes
		return s.first[key] != nil
	case "clusterroles": // controllers aggregate these
		return slices.Contains([]string{"admin", "edit", "view"}, name)
	}
	ofEach := resource == "configmaps" && name == "kube-root-ca.crt" ||
		resource == "serviceaccounts" && name == "default"
	isRole := resource == "roles" || resource == "rolebindings" // operators have some in kube-system
	return strings.HasPrefix(namespace, "kube-") && !isRole ||
		ofEach && s.first["namespaces/"+namespace] != nil
}

// pair is an entry of etcd, or a request for entries. JSON contains keys and values in base64.
type pair struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value,omitempty"`
	RangeEnd []byte `json:"range_end,omitempty"`
}

// operation is a part of a transaction.
type operation struct {
	Put    *pair `json:"request_put,omitempty"`
	Delete *pair `json:"request_delete_range,omitempty"`
}

// call sends a request to the gateway of etcd.
func (s *Store) call(ctx context.Context, method string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	sent, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v3/kv/"+method,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(sent)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd returned %d: %s", response.StatusCode, text.String())
	}
	return text.Bytes(), err
}
