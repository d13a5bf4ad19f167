package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
)

// results has the phases of all rounds for each setting.
type results map[string][]phaseResult

func load(file string) results {
	all := make(results)
	if file == "" {
		return all
	}
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return all
	}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		log.Fatal(err)
	}
	return all
}

func save(file string, all results) {
	if file == "" {
		return
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func roundsOf(all results) (most int) {
	for name := range all {
		most = max(most, len(all.values(name, "over", func(phaseResult) float64 { return 0 })))
	}
	return most
}

// values are those of a setting in the phases of a name, sorted.
func (all results) values(name, phase string, of func(phaseResult) float64) (v []float64) {
	for _, r := range all[name] {
		if r.Phase == phase {
			v = append(v, of(r))
		}
	}
	slices.Sort(v)
	return v
}

func (all results) median(name, phase string, of func(phaseResult) float64) float64 {
	v := all.values(name, phase, of)
	if len(v) == 0 {
		return 0
	}
	return v[(len(v)-1)/2]
}

// least is the least of all rounds: what else runs on a machine only adds to CPU time.
func (all results) least(name, phase string, of func(phaseResult) float64) float64 {
	v := all.values(name, phase, of)
	if len(v) == 0 {
		return 0
	}
	return v[0]
}

func (all results) most(name string, of func(phaseResult) float64, phases ...string) (most float64) {
	for _, p := range phases {
		if v := all.values(name, p, of); len(v) > 0 {
			most = max(most, v[len(v)-1])
		}
	}
	return most
}

func gcOf(r phaseResult) float64     { return r.GC }
func assistOf(r phaseResult) float64 { return r.Assist / max(r.GC, 1e-9) }
func shareOf(r phaseResult) float64  { return r.Share }
func rateOf(r phaseResult) float64   { return r.Rate }
func peakOf(r phaseResult) float64   { return r.Peak }
func settleOf(r phaseResult) float64 { return float64(r.Settle) }

// inBudget are the phases whose live heap fits the budget.
var inBudget = []string{"30 MB", "to 110 MB", "110 MB", "to 30 MB again", "30 MB again", "varying"}

// kept reports whether a setting's peaks were within the budget where that can be, in the median.
func (all results) kept(name string) bool {
	for _, p := range inBudget {
		if all.median(name, p, peakOf) > budget/mb {
			return false
		}
	}
	return true
}

// statistic makes one number of the rounds.
type statistic func(name, phase string, of func(phaseResult) float64) float64

// best is the least GC CPU per request of the peers that fair admits.
func (all results) best(phase string, stat statistic, fair func(peer string) bool) (best float64) {
	for _, s := range settings {
		v := stat(s.name, phase, gcOf)
		if s.own || v == 0 || !fair(s.name) {
			continue
		}
		if best == 0 || v < best {
			best = v
		}
	}
	return best
}

// fairTo returns which peers may be compared with a setting in a phase: those that keep to the budget; where that cannot be kept, those
// whose peak is no more than a tenth above the setting's.
func (all results) fairTo(name, phase string) func(peer string) bool {
	if phase != "over" {
		return all.kept
	}
	return func(peer string) bool { return all.overPeak(peer) <= 1.1*all.overPeak(name) }
}

func (all results) overPeak(name string) float64 { return all.most(name, peakOf, "to over", "over") }

func (all results) print() {
	phases := []string{"30 MB", "110 MB", "30 MB again", "varying", "over"}
	fmt.Printf("\nCPU time of the collector per request, µs: least / median of the rounds, and the ratios of both to the best peer that\n")
	fmt.Printf("keeps to the budget (over: whose peak is no larger)\n\n")
	fmt.Printf("| setting | %s |\n|---|%s\n", strings.Join(phases, " | "), strings.Repeat("---|", len(phases)))
	for _, s := range settings {
		if len(all[s.name]) == 0 {
			continue
		}
		fmt.Printf("| %s |", bold(s.own, s.name))
		for _, p := range phases {
			if s.over && p != "over" {
				fmt.Print(" |")
				continue
			}
			fair := all.fairTo(s.name, p)
			least, median := all.least(s.name, p, gcOf), all.median(s.name, p, gcOf)
			fmt.Printf(" %.1f / %.1f (%.2f / %.2f) |", least, median, least/all.best(p, all.least, fair), median/all.best(p, all.median, fair))
		}
		fmt.Println()
	}
	fmt.Printf("\nMemory and throughput\n\n")
	fmt.Printf("| setting | peak MB of %d: step, varying | over: peak MB | requests/s | of GOMEMLIMIT=90 %% | GC share of CPU | assist share of it | cycles to settle: 110 MB, over |\n|---|---|---|---|---|---|---|---|\n", budget/mb)
	base := all.median(limited, "over", rateOf)
	for _, s := range settings {
		if len(all[s.name]) == 0 {
			continue
		}
		fmt.Printf("| %s |", bold(s.own, s.name))
		if s.over {
			fmt.Print(" |")
		} else {
			fmt.Printf(" %.0f, %.0f |", all.most(s.name, peakOf, inBudget[:5]...), all.most(s.name, peakOf, "varying"))
		}
		rate := all.median(s.name, "over", rateOf)
		fmt.Printf(" %.0f | %.0f | %.1f | %.2f | %.2f | %.0f, %.0f |\n", all.overPeak(s.name), rate, rate/base,
			all.median(s.name, "over", shareOf), all.median(s.name, "over", assistOf),
			all.median(s.name, "110 MB", settleOf), all.median(s.name, "over", settleOf))
	}
}

func bold(yes bool, s string) string {
	if yes {
		return "**" + s + "**"
	}
	return s
}
