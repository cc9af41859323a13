package main

func Example() {
	main()
	// Output:
	// build: attempt 1
	// docs: attempt 1
	// build: attempt 2
	// docs: attempt 2
	// build: attempt 3
	// docs: attempt 3
	// docs: attempt 4
	// build, on_hold, broken, tests fail
	// docs, review, busy
	// build: attempt 1
	// build, review, broken
	// docs, review, busy
}
