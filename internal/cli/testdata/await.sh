# For scripts that start a command in the background: waits that end. What the
# command itself printed, testscript shows.

# slices FOLDER N: whether the record in FOLDER has more than N slices.
slices() {
	count=$(grep -cs slice "$1/record.jsonl")
	test "${count:-0}" -gt "$2"
}

# running PID: whether the process is there and has not ended.
running() {
	state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
	case $state in '' | Z* | X*) return 1 ;; esac
}

# await SECONDS PID CONDITION: wait until CONDITION, a command, holds, while PID
# runs (0: any). If it does not come to hold, give up.
await() {
	limit=$(($(date +%s) + $1))
	until eval "$3"; do
		test "$2" = 0 || running "$2" || give_up "$2" "$3: process $2 ended before"
		test "$(date +%s)" -lt "$limit" || give_up "$2" "$3: not within $1 s"
		sleep 0.05
	done
}

# exit_of PID: wait until the process ends, for two minutes at most; its exit code.
exit_of() {
	limit=$(($(date +%s) + 120))
	while running "$1"; do
		test "$(date +%s)" -lt "$limit" || give_up "$1" "process $1 does not end"
		sleep 0.05
	done
	wait "$1"
}

# give_up PID WHY: say what there is to see, end PID, and exit with 99.
give_up() {
	echo "await: $2; state: ${state:-none}"
	ls -lR . | head -n 60
	for file in ./*/record.jsonl error; do
		test ! -e "$file" || { echo "$file ends:"; tail -n 5 "$file" | cut -c 1-300; }
	done
	if test "$1" != 0; then
		kill -KILL "$1" 2>/dev/null
		wait "$1"
		echo "await: process $1 had exit code $?"
	fi
	exit 99
} >&2
