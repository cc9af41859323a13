package main

import (
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

// write writes a page for the command and each of its subcommands.
func write(dir string) error {
	root := cli.Command()
	root.DisableAutoGenTag = true
	// The date is no part of a page, so that the pages change only with the command.
	never := time.Unix(0, 0).UTC()
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "retry", Manual: "retry", Date: &never}, dir)
}
