module github.com/seed-5ff3c98e/retry/cmd/retry

go 1.25.0

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/seed-5ff3c98e/retry v0.0.0-00010101000000-000000000000
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.1.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	go.yaml.in/yaml/v4 v4.0.0
)

require github.com/inconshreveable/mousetrap v1.1.0 // indirect

replace github.com/seed-5ff3c98e/retry => ../..
