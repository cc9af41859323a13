// Package retry is a stub.
package retry

type Option func()

func Do(func() error, ...Option) error { return nil }
func Unrecoverable(err error) error    { return err }
