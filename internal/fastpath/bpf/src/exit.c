/* The end of the daemon, however it ends: programs must not carry packets on the word of
 * one that is dead. Run by the kernel as each thread of the machine ends. */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

struct signal_struct {
	struct {
		int counter;
	} live; /* threads of the process */
} __attribute__((preserve_access_index));

struct task_struct {
	struct signal_struct *signal;
} __attribute__((preserve_access_index));

/* What the programs of the fast path and the daemon share, of state.h. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64)); /* set before it is loaded, and so are its flags */
} shared SEC(".maps");

const volatile __u32 deadline_at; /* where the deadline is there, bytes */
volatile __u32 daemon = 0;        /* its process, as the kernel numbers it */

SEC("raw_tp/sched_process_exit")
int ended(void *ctx)
{
	__u32 zero = 0, process = bpf_get_current_pid_tgid() >> 32;
	struct task_struct *task;
	void *all;

	if (!daemon) { /* the daemon itself runs it first */
		daemon = process;
		return 0;
	}
	if (process != daemon)
		return 0;
	task = (void *)bpf_get_current_task();
	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0; /* a thread */
	all = bpf_map_lookup_elem(&shared, &zero);
	if (all)
		*(volatile __u64 *)(all + deadline_at) = 0;
	return 0;
}

char __license[] SEC("license") = "GPL";
