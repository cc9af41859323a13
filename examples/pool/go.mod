module github.com/seed-5ff3c98e/retry/examples/pool

go 1.25

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/seed-5ff3c98e/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect

replace github.com/seed-5ff3c98e/retry => ../..
