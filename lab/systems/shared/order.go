package shared

import "slices"

// Order returns IDs in an order in which each comes after all that it needs. If there is none, it
// returns a cycle: each ID in it needs the next, and the last one is the first again.
func Order(ids []string, needs map[string][]string) (order, cycle []string) {
	const entered, left = 1, 2
	state := map[string]int{}
	var visit func(path, ids []string) (cycle []string)
	visit = func(path, ids []string) []string {
		for _, id := range ids {
			here := append(path, id)
			switch state[id] {
			case left:
				continue
			case entered:
				return here[slices.Index(here, id):]
			}
			state[id] = entered
			if cycle := visit(here, needs[id]); cycle != nil {
				return cycle
			}
			state[id] = left
			order = append(order, id)
		}
		return nil
	}
	cycle = visit(nil, ids)
	return order, cycle
}
