// Package shared is what the example systems beside it have in common: how to
// open their database, and how a main ends. It is no part of the library.
//
//	func main() { shared.Main(run) }
//
//	func run(ctx context.Context, args []string, out io.Writer) (err error) {
//		flags := flag.NewFlagSet("runs", flag.ContinueOnError)
//		dsn := shared.DSN(flags)
//		serve := shared.Serve(flags)
//		poll := flags.Duration("poll", time.Second, "the pause when there is nothing to do")
//		if err := shared.Parse(flags, args); err != nil {
//			return err
//		}
//		if err := shared.Positive(flags); err != nil {
//			return err
//		}
//		open := shared.Temporary // for the demonstration
//		if *serve {
//			open = shared.Open
//		}
//		db, err := open(ctx, *dsn)
//		if err != nil {
//			return err
//		}
//		defer func() { err = errors.Join(err, db.Close()) }()
//		if err := db.Create(ctx, "runs", schema); err != nil {
//			return err
//		}
//		…
//	}
package shared
