package main

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/seed-5ff3c98e/retry/lab/storm/contention"
)

// repetitions is how often the article's simulator runs everything.
const repetitions = 100

var contenders = []int{10, 50, 150, 500, 1000}

// What an independent port of the article's simulator found, in the order of
// contention.Strategies and contenders; 0 was not run.
var independent = [2][][]float64{
	calls: {
		{51, 686, 5137, 0, 0},
		{51, 618, 3558, 24332, 74313},
		{42, 348, 1324, 5818, 14747},
		{39, 332, 1318, 6264, 17013},
		{38, 377, 1764, 9073, 23416},
		{44, 358, 1368, 5915, 14304},
		{44, 358, 1368, 5915, 14304},
	},
	completion: {
		{383, 1137, 2870, 0, 0},
		{3503, 35911, 86199, 194186, 305869},
		{724, 4257, 8262, 16545, 27088},
		{460, 2841, 6412, 14158, 24434},
		{457, 2196, 6426, 15820, 26490},
		{977, 5952, 11553, 21901, 32005},
		{977, 5952, 11553, 21901, 32005},
	},
}

// figure is what a table of the contention is about.
type figure int

const (
	calls figure = iota
	completion
)

func (f figure) of(o contention.Outcome) float64 {
	if f == calls {
		return o.Calls
	}
	return float64(o.Completion.Milliseconds())
}

// outcomes are those of all strategies and contenders that the independent port
// has. Both tables need them.
var outcomes = sync.OnceValue(func() [][]contention.Outcome {
	strategies := contention.Strategies()
	all := make([][]contention.Outcome, len(strategies))
	var wg sync.WaitGroup
	for i, s := range strategies {
		all[i] = make([]contention.Outcome, len(contenders))
		wg.Go(func() {
			for j, n := range contenders {
				if independent[calls][i][j] > 0 {
					all[i][j] = contention.Mean(n, s, 1, repetitions)
				}
			}
		})
	}
	wg.Wait()
	return all
})

// contentionTable has our figures, and in parentheses how far they are from the
// independent ones.
func contentionTable(f figure) string {
	var m markdown
	head := []string{"clients"}
	for _, n := range contenders {
		head = append(head, strconv.Itoa(n))
	}
	m.head(head...)
	for i, s := range contention.Strategies() {
		cells := []string{s.Name}
		for j := range contenders {
			cell := "–"
			if want := independent[f][i][j]; want > 0 {
				got := f.of(outcomes()[i][j])
				cell = fmt.Sprintf("%.0f (%s)", got, away(got, want))
			}
			cells = append(cells, cell)
		}
		m.row(cells...)
	}
	return m.String()
}

// away returns how far got is from want, in percent.
func away(got, want float64) string {
	if percent := math.Round(100 * (got/want - 1)); percent != 0 {
		return fmt.Sprintf("%+.0f", percent)
	}
	return "0"
}
