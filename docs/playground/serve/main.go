// Serve builds the playground and shows it on loopback:
//
//	go run ./docs/playground/serve            # http://127.0.0.1:8420
//	go run ./docs/playground/serve -o site    # writes the static page to a folder
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"

	"github.com/seed-5ff3c98e/retry/docs/playground"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8420", "where to show the page")
	out := flag.String("o", "", "a `folder` to write the page to, instead of showing it")
	flag.Parse()
	if err := run(context.Background(), *address, *out); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, out string) error {
	if out != "" {
		return playground.Build(ctx, out)
	}
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := playground.Build(ctx, dir); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	return playground.Server(playground.Files(dir), address).Serve(l)
}
