// Package tablepage is a web page about tables of jobs: what waits, runs and died, and why, with
// buttons that try jobs again, end them, give them back and put them off. It is one
// [http.Handler], without JavaScript if the browser has none, and works at any path:
//
//	mux.Handle("/jobs", &tablepage.Page{Tables: []tablepage.Table{tablepage.Of(worker)}})
//
// Which workers are alive no table tells: a row has when its lease ends, and not whose it is.
//
// Whoever reaches the page sees the columns of the jobs, so let your program ask who that is. Secrets
// in texts are hidden as far as they are recognized.
package tablepage
