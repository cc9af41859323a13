// Package promises has a test for each defect of other retry libraries that this one
// promises not to have. Each test is named by the promise; the number of the defect is in
// its comment.
package promises
