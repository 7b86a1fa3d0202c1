// Package thread gives loads threads of the kernel: locked, pinned to a core, named for whoever
// looks at what uses the CPU, and not disturbed by the Go scheduler.
package thread

import (
	"github.com/venturi-net/venturi/internal/host"
)

// Worker is a thread that does the work of active ends, one task at a time.
type Worker struct {
	tasks chan func() error
	errs  chan error
	users int // that have not left
}

// New starts one with a name, in a namespace (empty: any) and on a core (-1: any).
func New(name, namespace string, cpu int, exact bool) *Worker {
	t := &Worker{tasks: make(chan func() error), errs: make(chan error, 1)}
	go t.work(name, namespace, cpu, exact)
	return t
}

// work does tasks until there are no more; the thread ends with it.
func (t *Worker) work(name, namespace string, cpu int, exact bool) {
	err := host.Do(namespace, func() error {
		err := PinAs(name, cpu)
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
func (t *Worker) serve(err error) {
	for task := range t.tasks {
		if err != nil {
			t.errs <- err
			continue
		}
		t.errs <- task()
	}
}

// Start begins a task; Finish waits for it.
func (t *Worker) Start(task func() error) { t.tasks <- task }

// Finish gives the error of the task that was started.
func (t *Worker) Finish() error { return <-t.errs }

// Join makes the caller one of the thread's users.
func (t *Worker) Join() { t.users++ }

// Leave ends the thread when the last of its users does.
func (t *Worker) Leave() {
	if t.users--; t.users == 0 {
		close(t.tasks)
		<-t.errs
	}
}
