package main

func Example() {
	main()
	// Output:
	// mail 7 attempt 1
	// mail 7 attempt 2
	// mail 7 attempt 3
	// context canceled
}
