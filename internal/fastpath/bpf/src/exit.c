/* Revokes the lease when the daemon exits, for whatever reason. The kernel runs this when any
 * thread of the host exits. */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct signal_struct {
	struct {
		int counter;
	} live; /* number of threads */
} __attribute__((preserve_access_index));

struct task_struct {
	struct signal_struct *signal;
} __attribute__((preserve_access_index));

/* The globals of state.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64)); /* size and flags are set before it is loaded */
} shared SEC(".maps");

const volatile __u32 deadline_at; /* offset of the deadline, bytes */
volatile __u32 daemon = 0;        /* its PID in the initial PID namespace */

SEC("raw_tp/sched_process_exit")
int on_exit(void *ctx)
{
	__u32 zero = 0, process = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *task;
	void *all;

	if (!daemon) { /* the daemon runs this first, to set its PID */
		daemon = process;
		return 0;
	}
	if (process != daemon)
		return 0;
	task = (void *)bpf_get_current_task();
	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0; /* other threads go on */
	all = bpf_map_lookup_elem(&shared, &zero);
	if (all)
		*(volatile __u64 *)(all + deadline_at) = 0;
	return 0;
}

char __license[] SEC("license") = "GPL";
