package rounds

import (
	"cmp"
	"maps"
	"slices"
)

// Row is one contestant in one workload.
type Row struct {
	By string

	// Ratio is the median of the metric compared with that of the loop by hand in
	// the same round, Least and Largest are the extremes. They are 0 if there is no
	// loop by hand.
	Ratio, Least, Largest float64

	Medians map[string]float64 // by unit
}

// Rows returns the contestants of a workload, the best first, or nil if there is no
// such workload.
func (d *Data) Rows(workload string) []Row {
	for _, w := range d.workloads {
		if w.name == workload {
			return w.rows(d.metric)
		}
	}
	return nil
}

// rows returns the contestants, the best first.
func (w *workload) rows(metric string) []Row {
	var rows []Row
	for _, by := range slices.Sorted(maps.Keys(w.peers)) {
		results := w.peers[by]
		r := Row{By: by, Medians: medians(results)}
		if hand := w.peers[byHand]; hand != nil {
			ratios := make([]float64, len(results))
			for round := range results {
				ratios[round] = results[round][metric] / hand[round][metric]
			}
			r.Ratio, r.Least, r.Largest = median(ratios), slices.Min(ratios), slices.Max(ratios)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.Ratio, b.Ratio) })
	return rows
}

func medians(results []result) result {
	all := map[string][]float64{}
	for _, r := range results {
		for unit, v := range r {
			all[unit] = append(all[unit], v)
		}
	}
	m := result{}
	for unit, values := range all {
		m[unit] = median(values)
	}
	return m
}

// median returns the middle value, or the mean of the two in the middle.
func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
