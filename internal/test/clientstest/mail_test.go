package clientstest_test

import (
	"bufio"
	"fmt"
	"net"
	"net/smtp"
	"strings"
	"testing"

	gosmtp "github.com/emersion/go-smtp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/wneessen/go-mail"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
)

// serveMail starts a mail server that answers the first command that begins with a word with
// a reply, and returns its address.
func serveMail(t *testing.T, command string, reply int) string {
	t.Helper()
	return provoke.Serve(t, func(conn net.Conn) {
		_, _ = fmt.Fprint(conn, "220 mail.example ESMTP\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), command) {
				_, _ = fmt.Fprintf(conn, "%d 5.1.1 no\r\n", reply)
			} else {
				_, _ = fmt.Fprint(conn, "250 ok\r\n")
			}
		}
	}).Addr
}

// TestMailServers checks that the replies of a server reach retry.Classify through the clients
// for SMTP: 4yz is for now, 5yz for good.
func TestMailServers(t *testing.T) {
	t.Parallel()
	message := func(t *testing.T) *mail.Msg {
		t.Helper()
		m := mail.NewMsg()
		require.NoError(t, m.From("from@example.com"))
		require.NoError(t, m.To("to@example.com"))
		m.SetBodyString(mail.TypeTextPlain, "hello")
		return m
	}
	for name, send := range map[string]func(t *testing.T, addr string) error{
		"net/smtp": func(_ *testing.T, addr string) error {
			return smtp.SendMail(addr, nil, "from@example.com", []string{"to@example.com"}, []byte("hello\r\n"))
		},
		"go-smtp": func(_ *testing.T, addr string) error {
			c, err := gosmtp.Dial(addr)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			return c.SendMail("from@example.com", []string{"to@example.com"}, strings.NewReader("hello\r\n"))
		},
		"go-mail": func(t *testing.T, addr string) error {
			t.Helper()
			tcp, err := net.ResolveTCPAddr("tcp", addr)
			require.NoError(t, err)
			c, err := mail.NewClient(tcp.IP.String(), mail.WithPort(tcp.Port), mail.WithTLSPolicy(mail.NoTLS))
			require.NoError(t, err)
			return c.DialAndSend(message(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for reply, class := range map[int]retry.Class{421: retry.Retryable, 450: retry.Retryable, 550: retry.Final, 554: retry.Final} {
				for _, command := range []string{"MAIL", "RCPT"} {
					err := send(t, serveMail(t, command, reply))
					require.Error(t, err)
					v := retry.Classify(err)
					assert.Equal(t, class, v.Class, "%s %d: %v", command, reply, err)
					assert.Equal(t, fmt.Sprintf("reply_%d", reply), v.Category, "%s: %v", command, err)
				}
			}
		})
	}
}
