package cli

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/seed-5ff3c98e/retry/docs/playground"
)

// defaultListen is also the default of docs/playground/serve.
const defaultListen = "127.0.0.1:8420"

func playgroundCommand() *cobra.Command {
	address := defaultListen
	c := &cobra.Command{
		Use:   "playground [flags]",
		Short: "Show a page on which a policy can be changed",
		Long: `Playground shows a page, by default at http://` + defaultListen + `, on which a policy can be
changed: what it does is seen at once. It ends with a signal.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", address)
			if err != nil {
				return err
			}
			fmt.Printf("http://%s\n", l.Addr())
			return playground.Server(playground.Handler(), address).Serve(l)
		},
	}
	c.Flags().StringVar(&address, "listen", address, "`ADDRESS` of the page; port 0 is any")
	return c
}
