// Package shared is what the systems beside it have in common: the shape of their
// commands, how to open their database, and how a main ends. It is no part of the library.
//
// A program is NAME COMMAND [flags]: serve, or work, until it is interrupted, on the database
// of -dsn; migrate, which prepares a table that exists; and what else the program is for.
//
//	func main() { shared.Main(program.Run) }
//
//	var program = shared.Program{Name: "runs", About: "replays recorded requests.", Commands: []shared.Command{
//		{"serve", "works until it is interrupted", serve},
//	}}
//
//	func serve(flags *flag.FlagSet) shared.Action {
//		poll := flags.Duration("poll", time.Second, "the pause when there is nothing to do")
//		return shared.On(flags, shared.OpenExisting, func(ctx context.Context, db *shared.DB, out io.Writer) error {
//			if err := shared.Positive(flags); err != nil {
//				return err
//			}
//			…
//		})
//	}
package shared
