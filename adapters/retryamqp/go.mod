module github.com/seed-5ff3c98e/retry/adapters/retryamqp

go 1.25.0

replace github.com/seed-5ff3c98e/retry => ../..

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/seed-5ff3c98e/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.6 // indirect
