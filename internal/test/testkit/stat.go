package testkit

import "math"

// ChiSquare returns Pearson's statistic for counts that are expected to be
// equal: the sum of (count-mean)²/mean. It is 0 if there are no counts, or if
// nothing was counted.
func ChiSquare(counts []int) float64 {
	total := 0
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	mean := float64(total) / float64(len(counts))
	sum := 0.0
	for _, n := range counts {
		d := float64(n) - mean
		sum += d * d / mean
	}
	return sum
}

// PValue returns the probability that counts which really are uniform are at
// least as uneven as these. A small one means that they are not uniform.
func PValue(counts []int) float64 {
	return UpperTail(ChiSquare(counts), len(counts)-1)
}

// UpperTail returns the probability of a value of at least x in the chi-square
// distribution of so many degrees of freedom: the regularized upper incomplete
// gamma function Q(degrees/2, x/2).
//
// See https://dlmf.nist.gov/8.11#E4 for the series and
// https://dlmf.nist.gov/8.9#E2 for the continued fraction.
func UpperTail(x float64, degrees int) float64 {
	if degrees < 1 || x <= 0 {
		return 1
	}
	a, z := float64(degrees)/2, x/2
	logGamma, _ := math.Lgamma(a)
	scale := math.Exp(a*math.Log(z) - z - logGamma)
	if z < a+1 { // each form converges fast on its side
		return 1 - scale*lowerSeries(a, z)
	}
	return scale * upperFraction(a, z)
}

const (
	maxTerms = 10_000
	accuracy = 1e-15
)

// lowerSeries returns the sum of z^n / (a(a+1)…(a+n)) over n.
func lowerSeries(a, z float64) float64 {
	term := 1 / a
	sum := term
	for n := 1; n < maxTerms && term > sum*accuracy; n++ {
		term *= z / (a + float64(n))
		sum += term
	}
	return sum
}

// upperFraction returns the continued fraction of Γ(a, z)·e^z·z^-a by the
// method of Lentz.
func upperFraction(a, z float64) float64 {
	b := z + 1 - a
	c, d := math.Inf(1), 1/b
	fraction := d
	for n := 1; n < maxTerms; n++ {
		numerator := float64(n) * (a - float64(n))
		b += 2
		d = 1 / (b + numerator*d)
		c = b + numerator/c
		fraction *= c * d
		if math.Abs(c*d-1) < accuracy {
			break
		}
	}
	return fraction
}
