//go:build !plan9

package service

import "syscall"

var errRefused error = syscall.ECONNREFUSED
