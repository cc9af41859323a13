package main

import (
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/seed-5ff3c98e/retry/benchmarks/storm/contention"
)

// repetitions is how often the article's simulator runs everything.
const repetitions = 100

var contenders = []int{10, 20, 50, 100, 150, 190, 500, 1000}

// What an independent port of the article's simulator found, in the order of
// contention.Strategies and contenders; 0 was not run.
var independent = [2][][]float64{
	calls: {
		{51, 151, 686, 2426, 5137, 8000, 0, 0},
		{51, 152, 618, 1851, 3558, 5162, 24332, 74313},
		{42, 108, 348, 811, 1324, 1758, 5818, 14747},
		{39, 100, 332, 797, 1318, 1771, 6264, 17013},
		{38, 101, 377, 1003, 1764, 2425, 9073, 23416},
		{44, 110, 358, 838, 1368, 1819, 5915, 14304},
		{44, 110, 358, 838, 1368, 1819, 5915, 14304},
	},
	completion: {
		{383, 596, 1137, 2030, 2870, 3532, 0, 0},
		{3503, 14777, 35911, 63003, 86199, 100786, 194186, 305869},
		{724, 1582, 4257, 6616, 8262, 9341, 16545, 27088},
		{460, 991, 2841, 5026, 6412, 7471, 14158, 24434},
		{457, 798, 2196, 4616, 6426, 8030, 15820, 26490},
		{977, 2270, 5952, 9368, 11553, 13169, 21901, 32005},
		{977, 2270, 5952, 9368, 11553, 13169, 21901, 32005},
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

// away returns how far got is from want.
func away(got, want float64) string {
	if percent := math.Round(100 * (got/want - 1)); percent != 0 {
		return fmt.Sprintf("%+.0f %%", percent)
	}
	return "0 %"
}
