package kube

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// addCopiedJob makes a Job of somebody's in a namespace, with its pod, from the manifests of a run's.
func (s *apiServer) addCopiedJob(namespace string, change func(*batchv1.Job)) {
	s.addNamespace(namespace)
	r := &run{Options: Options{Image: "x"}, id: "abcde", namespace: namespace, command: "venturi compare", deadline: time.Hour}
	j, p := r.job(clientRole), r.pod(clientRole)
	change(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	j.UID = types.UID(fmt.Sprintf("0a1b2c3d-cccc-0000-0000-%012d", s.next))
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: new(true)}}
	s.jobs[namespace+"/"+j.Name], s.pods[namespace+"/"+p.Name] = j, p
}

// A Job that somebody made with the labels of a run's is neither waited for nor removed, whether it has
// ended or never does, and nobody waits for the end of its pod.
func TestOthersJobs(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	server, client := newAPIServer(t)
	server.addCopiedJob("endless", func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = nil })
	server.addCopiedJob("unmarked", func(j *batchv1.Job) { j.Labels = nil })
	server.addCopiedJob("named", func(j *batchv1.Job) { j.Name = "backup" })
	server.addCopiedJob("ended", func(j *batchv1.Job) {
		j.Name, j.Status.Conditions = "report", []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	})
	before := server.leftovers()
	p, err := client.Place(t.Context(), testRequest(Plain, ""))
	testenv.Must(t, err)
	testenv.Must(t, p.Close())
	if removed, err := client.Cleanup(t.Context(), ""); err != nil || len(removed) > 0 {
		t.Errorf("cleanup removed %v, %v", removed, err)
	}
	if left := server.leftovers(); !slices.Equal(left, before) {
		t.Errorf("left %v of %v", left, before)
	}
}

// A Job that can no longer be that of a run, because it is suspended or past its deadline, is not waited for.
func TestOverdueJobs(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	server, client := newAPIServer(t)
	for i, c := range []struct {
		suspend bool
		age     time.Duration
		busy    bool
	}{
		{true, time.Minute, true}, {true, 10 * time.Minute, false}, {false, time.Hour + 30*time.Second, true}, {false, time.Hour + 2*time.Minute, false},
	} {
		namespace := fmt.Sprint("lab-", i)
		server.addCopiedJob(namespace, func(j *batchv1.Job) {
			j.Spec.Suspend, j.CreationTimestamp = &c.suspend, metav1.NewTime(time.Now().Add(-c.age))
		})
		p, err := client.Place(t.Context(), testRequest(Plain, namespace))
		if err == nil {
			testenv.Must(t, p.Close())
		}
		if (verr.Code(err) == verr.Busy) != c.busy || !c.busy && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A pod that somebody made with the labels and the owner of a run's does not get to be one of its agents; with
// all that tells the Job's own, it does not if it is younger.
func TestOthersPods(t *testing.T) {
	server, client := newAPIServer(t)
	server.addNamespace("lab")
	server.spoil = func(p *corev1.Pod) {
		for i := range 9 { // the server lists them in any order
			other := p.DeepCopy()
			other.Name, other.UID, other.Spec.NodeName = fmt.Sprintf("other-%d-of-%s", i, p.Name), "0a1b2c3d-bbbb", "theirs"
			switch i % 3 {
			case 0:
				for i := range other.OwnerReferences {
					other.OwnerReferences[i].Controller = nil
				}
			case 1:
				delete(other.Labels, batchv1.ControllerUidLabel)
			case 2:
				other.CreationTimestamp = metav1.NewTime(p.CreationTimestamp.Add(time.Second))
			}
			server.pods["lab/"+other.Name] = other
		}
	}
	p, err := client.Place(t.Context(), testRequest(Plain, "lab"))
	testenv.Must(t, err)
	for _, a := range p.Agents {
		if a.Node == "theirs" {
			t.Errorf("an agent in another's pod: %+v", p.Agents)
		}
	}
	testenv.Must(t, p.Close())
}
