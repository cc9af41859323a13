module github.com/seed-5ff3c98e/retry/cmd/retryvet

go 1.26.0

require (
	codeberg.org/chavacava/garif v0.2.1
	github.com/golangci/plugin-module-register v0.1.2
	github.com/stretchr/testify v1.12.1
	golang.org/x/mod v0.43.0
	golang.org/x/tools v0.52.0
)

require (
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sync v0.25.0 // indirect
)

replace github.com/seed-5ff3c98e/retry => ../..
