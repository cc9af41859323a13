package cli

// Section is a part of a manual page. Its paragraphs are divided by empty lines; one that
// begins with a term and ":\t" is an item, and one that is indented is an example.
type Section struct{ Title, Text string }

// Manual has the parts of the manual pages that are not help of their commands, by page.
var Manual = map[string][]Section{"retry": {
	{"Command and subcommands", `The command begins with the first word that is no flag, or after "--".
Flags behind it are its own, as with timeout(1), nice(1) and env(1).

A subcommand (plan, why, check, storm, playground, completion, help) is the first word of all. So "retry -n 5 check" and
"retry -- check" run a program with the name check.

A redirection or several commands need a shell: retry sh -c "a && b". A pipe needs one that fails if any part of it does, or
a failure is taken for a success: retry bash -o pipefail -c "a | b".`},
	{"Exit status", `0:	the last run succeeded; with --until-fails, it failed

of the last run:	it failed for good, or the runs are used up

--give-up-exit:	the runs, or the time for them, are used up, if this flag is set

123:	the command succeeded to the end, and what --until or --until-fails asks for did not come

124:	a time limit ended the last run

125:	retry itself failed: a bad flag, a file that is no policy, input or output that could not be kept

126, 127:	the command cannot be run, or was not found

128 + n:	signal n ended the last run, or ended retry between two runs`},
	{"Signals", `SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the process group of the run. It may end as it likes, and is not run
again. During a wait, a signal ends retry at once.

If the run died by the signal, or exits with 128 and its number, retry dies by it too, so that ^C ends a script or a
loop that runs retry. If the run ended otherwise, retry has its exit status. SIGQUIT is told by status 131 alone. A signal that is
ignored when retry starts, as by nohup(1), is ignored by retry as well.

A run that is too slow gets SIGTERM, and SIGKILL after --kill-after.`},
	{"Files", `A policy is an object in YAML or JSON; the file's name ends with .json if it is JSON.
Durations are texts such as 1m30s, or numbers of seconds.

` + formExample + `

A file may also have several: an object "default" and an object "policies", which has policies by name; see --policy-name. "retry
check" finds faults in both. The page docs/policy.md has every key.`},
	{"Environment", `TERM, NO_COLOR:	with TERM=dumb, or if NO_COLOR is set, no wait is counted down

TMPDIR:	where input and output are kept that do not fit into memory`},
}}

const formExample = `  name: upload
  max_attempts: 5
  backoff: {exponential: {initial: 1s, multiplier: 2}}
  max_delay: 30s
  jitter: full
  attempt_timeout: 10s
  timeout: 5m
  overrides:
    exit_75: {max_attempts: 10}`
