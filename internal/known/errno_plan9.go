package known

import "syscall"

// Errno is the type of the errors of the operating system.
type Errno = syscall.ErrorString

// OfErrno abstains: on Plan 9 an error of the system is a text.
func OfErrno(Errno) Fact { return Fact{} }
