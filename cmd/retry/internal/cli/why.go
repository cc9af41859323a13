package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/why"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// reason answers why something was not retried.
type reason struct {
	policy  policyFlags
	header  http.Header
	exit    int // 0 means none
	stderr  string
	profile string
	about   string
}

func whyCommand() *cobra.Command {
	r := reason{header: http.Header{}, profile: profileDefault}
	c := &cobra.Command{
		Use:   "why [flags] STATUS|ERROR|SQLSTATE",
		Short: "Say why something is retried or not, and what changes that",
		Long: `Why says what the library makes of a failure, what a policy does about it, and
what changes that. The failure is an HTTP status, the name of an error of Go or
of its type, the text of an error that a call ended with, a SQLSTATE, or an exit
code. The policy is the default one, or that of a file and the flags.`,
		Example: `  retry why 503 -H 'Retry-After: 120'
  retry why net.DNSError
  retry why 'failed after 2 attempts (local retry budget exhausted): no answer'
  retry why 40001
  retry why --exit 255 --profile ssh --stderr 'Connection refused'
  make 2>&1 >/dev/null | retry why --exit 2 --stderr -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			r.about = strings.Join(args, " ")
			answer, err := r.answer(os.Stdin)
			if err != nil {
				return err
			}
			_, err = io.WriteString(os.Stdout, answer.String())
			return err
		},
	}
	c.Flags().SortFlags = false
	c.Flags().VarP(value[http.Header]{&r.header, r.withHeader, "'NAME: VALUE'"}, "header", "H", "of the response; may be repeated")
	c.Flags().Var(value[int]{&r.exit, parseExit, "CODE"}, "exit", "of a command, instead of STATUS")
	c.Flags().Var(value[string]{&r.stderr, anyText, "TEXT"}, "stderr", "of that command; - is standard input")
	c.Flags().Var(value[string]{&r.profile, anyText, "NAME"}, "profile", "of that command: "+strings.Join(profileNames()[1:], ", "))
	r.policy.register(c.Flags())
	_ = c.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(profileNames()[1:], cobra.ShellCompDirectiveNoFileComp))
	return c
}

// withHeader reads a header as curl writes it.
func (r *reason) withHeader(line string) (http.Header, error) {
	name, value, ok := strings.Cut(line, ":")
	if name = strings.TrimSpace(name); !ok || !isHeader.MatchString(name) {
		return nil, errors.New("must be a header like 'Retry-After: 120'")
	}
	r.header.Add(name, strings.TrimSpace(value))
	return r.header, nil
}

var (
	isNumber   = regexp.MustCompile(`^-?[0-9]+$`)
	isSQLState = regexp.MustCompile(`^[0-9A-Z]*[0-9][0-9A-Z]*$`)
	isHeader   = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+$`)
	isName     = regexp.MustCompile(`^[*&]*[\pL_][\pL\pN_./-]*$`)
)

const whatWhyTakes = "write an HTTP status, the name of an error or of its type, or a SQLSTATE; or --exit CODE"

// answer finds out what it is asked about.
func (r *reason) answer(stdin io.Reader) (*why.Answer, error) {
	status, isStatus := statusIn(r.about)
	switch {
	case r.exit > 0 && r.about != "":
		return nil, fmt.Errorf("%s: --exit %d needs no other argument", r.about, r.exit)
	case r.exit == 0 && r.stderr != "":
		return nil, errors.New("--stderr: needs --exit CODE")
	case len(r.header) > 0 && !isStatus:
		return nil, errors.New("--header: needs an HTTP status, as in: retry why 503 -H 'Retry-After: 120'")
	}
	policy := &retry.Policy{}
	if isStatus {
		policy = retryhttp.DefaultPolicy()
	}
	policy, err := r.policy.over(policy)
	switch {
	case err != nil:
		return nil, err
	case r.exit > 0:
		return r.command(stdin, policy)
	case r.about == "":
		return nil, errors.New("nothing to explain: " + whatWhyTakes)
	case isStatus && r.about[0] >= '0' && r.about[0] <= '9':
		return why.Status(status, r.header, policy), nil
	}
	answer := why.Error(r.about, policy)
	switch {
	case answer != nil:
		return answer, nil
	case isStatus:
		return why.Status(status, r.header, policy), nil
	case len(r.about) == len("40001") && isSQLState.MatchString(r.about):
		return why.SQLState(r.about, policy), nil
	case isNumber.MatchString(r.about):
		return nil, fmt.Errorf("%s: no HTTP status, which is from 100 to 599; an exit code is --exit %[1]s", r.about)
	case isName.MatchString(r.about):
		return why.Type(r.about, policy), nil
	default:
		return nil, fmt.Errorf("%s: no text that is known here: %s", r.about, whatWhyTakes)
	}
}

// statusIn returns an HTTP status that a text is, or has in it with its name.
func statusIn(text string) (int, bool) {
	number, name, _ := strings.Cut(text, " ")
	status, err := strconv.Atoi(number)
	if err == nil && len(number) == len("503") && status >= 100 && status <= 599 &&
		(name == "" || strings.EqualFold(name, http.StatusText(status))) {
		return status, true
	}
	for status := 400; status < 600; status++ {
		if name := http.StatusText(status); name != "" && strings.Contains(text, ": "+strconv.Itoa(status)+" "+name) {
			return status, true
		}
	}
	return 0, false
}

// longestStderr is more than retryexec reads of it.
const longestStderr = 1 << 20

func (r *reason) command(stdin io.Reader, policy *retry.Policy) (*why.Answer, error) {
	profile := retryexec.Profile{}
	switch {
	case profiles[r.profile] != nil:
		profile = profiles[r.profile]()
	case r.profile != profileDefault:
		return nil, fmt.Errorf("--profile %s: must be one of %s", r.profile, strings.Join(profileNames()[1:], ", "))
	}
	if r.stderr == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, longestStderr))
		if err != nil {
			return nil, fmt.Errorf("--stderr -: %w", err)
		}
		r.stderr = string(text)
	}
	return why.Exit(r.exit, r.stderr, append(profile, retryexec.Default()...), policy), nil
}
