package main

func Example() {
	main()
	// Output: 3 calls: <nil>
}
