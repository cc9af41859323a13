module github.com/seed-5ff3c98e/retry

go 1.25

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
