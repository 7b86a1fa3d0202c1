package remote

import (
	"fmt"
	"strings"
)

// Words of the script, each on a line of its own with what belongs to it. What a
// login shell prints before them is passed over.
const (
	helloWord = "venturi-hello"
	errorWord = "venturi-error"
	agentWord = "venturi-agent"
)

// script runs on the other machine under /bin/sh, before there is a program of ours. It
// says what the machine is, and reads one line: "NAME run" for the program that is
// there, or "NAME copy SIZE SHA256 ENCODING", behind which the program's bytes follow. Either
// verb may have [userPrefix] before it.
//
// It is one argument of a login shell that may be any: so it has neither single
// quotes nor exclamation marks nor line ends.
//
// The folder is removed by the program when it runs; those of programs that never
// came to run are removed by the next script, after ten minutes.
var script = strings.Join([]string{
	`umask 077`,
	`id=$(id -u)`,
	`as=user`,
	`if [ "$id" = 0 ]; then as=root; elif sudo -n true 2>/dev/null; then as=sudo; fi`,
	`sum() { sha256sum "$1" 2>/dev/null | cut -d " " -f 1; }`,
	`have=$(command -v venturi 2>/dev/null) || have=`,
	`gz=plain; if command -v gzip >/dev/null 2>&1; then gz=gzip; fi`,
	`echo "` + helloWord + ` 1 $(uname -s) $(uname -m) $as $gz ${have:-none} $(sum "$have" || true)"`,
	`read -r name verb size want encoding || exit 0`,
	`case "$verb" in ` + userPrefix + `*) as=user; verb=${verb#` + userPrefix + `};; esac`,
	`fail() { echo "` + errorWord + ` $*"; exit 1; }`,
	`run() { p=$1; shift; if [ "$as" = sudo ]; then exec sudo -n "$p" "$@"; else exec "$p" "$@"; fi; }`,
	`if [ "$verb" = run ]; then run "$have" agent --stdio --machine "$name"; fi`,
	`[ "$verb" = copy ] || exit 0`,
	`for d in "${XDG_RUNTIME_DIR:-}" /dev/shm /run /tmp /var/tmp "${HOME:-}"; do` +
		` [ -n "$d" ] && [ -d "$d" ] && [ -w "$d" ] || continue;` +
		` find "$d" -maxdepth 1 -name "` + folderPrefix + `??????" -user "$id" -mmin +10 -exec rm -rf {} + 2>/dev/null;` +
		` dir=$(mktemp -d "$d/` + folderPrefix + `XXXXXX" 2>/dev/null) || continue;` +
		` printf "#%s\nexit 0\n" "$(printf "\041")/bin/sh" >"$dir/try" && chmod 700 "$dir/try" && "$dir/try" 2>/dev/null && break;` +
		` rm -rf "$dir"; dir=; done`,
	`[ -n "${dir:-}" ] || fail no folder in which programs may run: all of /dev/shm, /run, /tmp, /var/tmp and the home are noexec or closed`,
	`trap "rm -rf \"$dir\"" EXIT HUP INT TERM`,
	`if [ "$encoding" = gzip ]; then head -c "$size" | gzip -dc >"$dir/venturi"; else head -c "$size" >"$dir/venturi"; fi`,
	`[ "$(sum "$dir/venturi")" = "$want" ] || fail the copy did not arrive whole: is $dir full?`,
	`chmod 700 "$dir/venturi"`,
	`run "$dir/venturi" agent --stdio --machine "$name" --remove "$dir"`,
}, "; ")

// userPrefix begins the script's verbs where sudo is there and must not be used.
const userPrefix = "user-"

// folderPrefix begins the name of the folder that a copy is put in.
const folderPrefix = "venturi-copy."

// command is what ssh hands to the login shell.
func command() string { return fmt.Sprintf("exec /bin/sh -c '%s'", script) }

// greeting is what the script says of the machine.
type greeting struct {
	system, arch string
	runsAs       string // root, sudo or user
	gzip         bool
	program, sum string // a program of that name on its PATH
}

func parseHello(line string) (h greeting, err error) {
	words := strings.Fields(line)
	if len(words) < 7 || words[0] != helloWord {
		return h, fmt.Errorf("it did not say what it is: %q", line)
	}
	if words[1] != "1" {
		return h, fmt.Errorf("it speaks version %s of the greeting, not 1", words[1])
	}
	h = greeting{system: words[2], arch: words[3], runsAs: words[4], gzip: words[5] == "gzip", program: words[6]}
	if len(words) > 7 {
		h.sum = words[7]
	}
	return h, nil
}
