// Package shared is what the systems beside it have in common: the shape of their
// commands, how to open their database, and how a main ends. It is no part of the library.
//
// A program is NAME COMMAND [flags]: serve, or work, until it is interrupted, on the database
// of -dsn; migrate, which prepares a table that exists; demo, which plays in a database of its
// own; and what else the program is for.
//
//	func main() { shared.Main(program.Run) }
//
//	var program = shared.Program{Name: "runs", About: "replays recorded requests.", Commands: []shared.Command{
//		{"serve", "works until it is interrupted", serve},
//		{"demo", "plays a demonstration", demo},
//	}}
//
//	func serve(flags *flag.FlagSet) shared.Action {
//		dsn := shared.DSN(flags)
//		poll := flags.Duration("poll", time.Second, "the pause when there is nothing to do")
//		return func(ctx context.Context, out io.Writer) (err error) {
//			if err := shared.Positive(flags); err != nil {
//				return err
//			}
//			db, err := shared.Open(ctx, *dsn)
//			if err != nil {
//				return err
//			}
//			defer func() { err = errors.Join(err, db.Close()) }()
//			…
//		}
//	}
package shared
