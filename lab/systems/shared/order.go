package shared

import "slices"

// Order returns IDs in an order in which each comes after all that it needs. If there is none, it
// returns a cycle: each ID in it needs the next, and the last one is the first again.
func Order(ids []string, needs map[string][]string) (order, cycle []string) {
	const entered, left = 1, 2
	state := map[string]int{}
	var visit func(path []string) (cycle []string)
	visit = func(path []string) []string {
		id := path[len(path)-1]
		switch state[id] {
		case left:
			return nil
		case entered:
			return path[slices.Index(path, id):]
		}
		state[id] = entered
		for _, need := range needs[id] {
			if cycle := visit(append(path, need)); cycle != nil {
				return cycle
			}
		}
		state[id] = left
		order = append(order, id)
		return nil
	}
	for _, id := range ids {
		if cycle := visit([]string{id}); cycle != nil {
			return order, cycle
		}
	}
	return order, nil
}
