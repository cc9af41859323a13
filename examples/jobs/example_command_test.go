package jobs_test

import (
	"context"
	"fmt"

	"github.com/seed-5ff3c98e/retry/examples/jobs"
)

func ExampleCommand() {
	err := jobs.Command(context.Background(), "go", "list", "errors")
	fmt.Println(err)
	// Output:
	// errors
	// <nil>
}
