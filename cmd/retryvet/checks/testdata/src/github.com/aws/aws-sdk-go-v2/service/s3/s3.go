// Package s3 is a stub.
package s3

import "context"

type (
	Client          struct{}
	PutObjectInput  struct{}
	PutObjectOutput struct{}
)

func (*Client) PutObject(context.Context, *PutObjectInput) (*PutObjectOutput, error) { return nil, nil }
