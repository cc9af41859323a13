package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
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
		Use:   "why [flags] STATUS|ERROR|SQLSTATE|WORD",
		Short: "Say why something is retried or not, and what changes that",
		Long: `Why says what the library makes of a failure, what a policy does about it, and
what changes that. The failure is an HTTP status, the name of an error of Go or
of its type, the text of an error that a call ended with, a SQLSTATE, a header, a
word of a log such as a category, or an exit code. The policy is the default one,
or that of a file and the flags.`,
		Example: `  retry why 503 -H 'Retry-After: 120'
  retry why net.DNSError
  retry why 'failed after 2 attempts (local retry budget exhausted): no answer'
  retry why 40001
  retry why conn_reset
  retry why --exit 255 --profile ssh --stderr 'Connection refused'
  make 2>&1 >/dev/null | retry why --exit 2 --stderr -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			r.about = strings.Join(args, " ")
			answer, err := r.answer(os.Stdin)
			if err != nil {
				return err
			}
			_, err = io.WriteString(os.Stdout, answer)
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
	isNumber = regexp.MustCompile(`^-?[0-9]+$`)
	isHeader = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+$`)
	isName   = regexp.MustCompile(`^[*&]*[\pL_][\pL\pN_./-]*$`)
)

const whatWhyTakes = "write an HTTP status, the name of an error or of its type, or a SQLSTATE; or --exit CODE"

// answer finds out what it is asked about.
func (r *reason) answer(stdin io.Reader) (string, error) {
	switch {
	case r.exit > 0 && r.about != "":
		return "", fmt.Errorf("%s: --exit %d needs no other argument", r.about, r.exit)
	case r.exit == 0 && r.stderr != "":
		return "", errors.New("--stderr: needs --exit CODE")
	}
	policy, err := r.policy.over(&retry.Policy{})
	if err != nil {
		return "", err
	}
	if r.exit > 0 {
		return r.command(stdin, policy)
	}
	forHTTP := policy
	if r.policy.file == "" {
		if forHTTP, err = r.policy.over(retryhttp.DefaultPolicy()); err != nil {
			return "", err
		}
	}
	answers := why.Ask(why.Question{Text: r.about, Header: r.header, Policy: policy, HTTP: forHTTP})
	switch {
	case len(r.header) > 0 && !slices.ContainsFunc(answers, why.OfResponse):
		return "", errors.New("--header: needs an HTTP status, as in: retry why 503 -H 'Retry-After: 120'")
	case r.about == "":
		return "", errors.New("nothing to explain: " + whatWhyTakes)
	case len(answers) > 0:
	case isNumber.MatchString(r.about):
		return "", fmt.Errorf("%s: no HTTP status, which is from 100 to 599; an exit code is --exit %[1]s", r.about)
	case isName.MatchString(r.about):
		answers = append(answers, why.Type(r.about, policy))
	default:
		return "", fmt.Errorf("%s: no text that is known here: %s", r.about, whatWhyTakes)
	}
	texts := make([]string, len(answers))
	for i, a := range answers {
		texts[i] = a.String()
	}
	return strings.Join(texts, "\n"), nil
}

// longestStderr is more than retryexec reads of it.
const longestStderr = 1 << 20

func (r *reason) command(stdin io.Reader, policy *retry.Policy) (string, error) {
	profile := retryexec.Profile{}
	switch {
	case profiles[r.profile] != nil:
		profile = profiles[r.profile]()
	case r.profile != profileDefault:
		return "", fmt.Errorf("--profile %s: must be one of %s", r.profile, strings.Join(profileNames()[1:], ", "))
	}
	if r.stderr == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, longestStderr))
		if err != nil {
			return "", fmt.Errorf("--stderr -: %w", err)
		}
		r.stderr = string(text)
	}
	return why.Exit(r.exit, r.stderr, append(profile, retryexec.Default()...), policy).String(), nil
}
