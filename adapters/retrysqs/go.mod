module github.com/seed-5ff3c98e/retry/adapters/retrysqs

go 1.26.0

replace github.com/seed-5ff3c98e/retry => ../..

require (
	github.com/aws/aws-lambda-go v1.55.1
	github.com/aws/aws-sdk-go-v2 v1.48.0
	github.com/aws/aws-sdk-go-v2/service/sqs v1.53.0
	github.com/aws/smithy-go v1.28.9
	github.com/seed-5ff3c98e/retry v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/aws/aws-sdk-go-v2/internal/configsources v1.5.12 // indirect
	github.com/aws/aws-sdk-go-v2/internal/endpoints/v2 v2.8.12 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
