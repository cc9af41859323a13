// Package retryjob makes the attempts at jobs whose State is kept elsewhere: in the queue of an
// engine, or in a row of a table. Any worker of any process may make the next attempt.
//
// [Stored] is one attempt. retrytable and the adapters to engines are loops over it;
// docs/engines.md says how to write one for an engine of your own.
package retryjob
