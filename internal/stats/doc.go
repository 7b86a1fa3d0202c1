// Package stats turns interleaved measurements into ratios, intervals and
// verdicts. It is pure: numbers in, numbers out, nothing read, nothing of ours
// imported, the same answer for the same input and seed.
//
// The design is a randomised block experiment in two levels. A round runs
// every arm once, so the ratio of two arms inside a round is free of the slow
// drift of a shared machine. A series is many rounds on one set of sockets,
// and differences between sets of sockets (hash of the addresses, placement of
// memory) only show between series. So a series gives one estimate, the median
// of its log-ratios, and the interval is over the estimates of the series.
//
// # Why Student's t over the series
//
// With few series the assumption-free answer is the exact signed-rank test,
// but with 6 series it cannot give a p-value below 2/64 = 0.031, so no verdict
// could survive a correction for more than one comparison. Student's t can. It
// assumes that the estimates of the series are independent and roughly normal;
// each is a median over a dozen rounds, which is what makes that tolerable,
// and with heavier tails the t interval errs to the wide side. The simulations
// beside this package hold it to its nominal coverage under normal,
// heavy-tailed, contaminated and autocorrelated noise. The signed-rank test
// and the Hodges-Lehmann interval are computed as well, and a strong
// disagreement is a warning.
//
// # How the interval, Holm and the looks go together
//
// The interval of a row is that row's own 95 % interval. A verdict of faster
// or slower needs two things: the row's interval excludes 1, and the row's
// p-value survives Holm's correction over all tests of the table, so that a
// sweep over twenty sizes does not cry wolf once by design. "Same" is not
// corrected: it claims that a difference is small, and claiming it wrongly
// takes an interval that misses the truth. A run that may stop early at one of
// K looks has its intervals widened to 1 - 0.05/K at every look, and its
// p-values multiplied by K (Bonferroni), the last look included.
package stats
