package load

import "github.com/venturi-net/venturi/internal/host"

// thread does the work of active ends, one task at a time.
type thread struct {
	tasks chan func() error
	errs  chan error
	users int // that have not left
}

// startThread starts one with a name, in a namespace (empty: any) and on a core (-1: any).
func startThread(name, namespace string, cpu int, exact bool) *thread {
	t := &thread{tasks: make(chan func() error), errs: make(chan error, 1)}
	go t.work(name, namespace, cpu, exact)
	return t
}

// work does tasks until there are no more; the thread ends with it.
func (t *thread) work(name, namespace string, cpu int, exact bool) {
	err := host.Do(namespace, func() error {
		err := pinAs(name, cpu)
		if err == nil && exact {
			err = exactTimers()
		}
		t.serve(err)
		return nil
	})
	t.serve(err) // no task is left, unless the namespace could not be entered
	close(t.errs)
}

// serve does what it is told until there is nothing more; nothing of it when err is set.
func (t *thread) serve(err error) {
	for task := range t.tasks {
		if err != nil {
			t.errs <- err
			continue
		}
		t.errs <- task()
	}
}

// leave ends the thread when the last of its users does.
func (t *thread) leave() {
	if t.users--; t.users == 0 {
		close(t.tasks)
		<-t.errs
	}
}
