package gctune_test

import (
	"fmt"

	"github.com/whylate/whylate/sdk/gctune"
)

func ExampleNew() {
	// Without Budget it is the lowest memory limit of the control groups.
	t, err := gctune.New(gctune.Options{Budget: 512 << 20, Reserve: 32 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := t.State()
	fmt.Println(s.Mode, s.GOGC, s.Limit>>20)
	fmt.Println(s.Why)
	t.Stop()
	fmt.Println(t.State().Why)
	// Output:
	// within 800 450
	// begins: the memory limit leads, GOGC is at its ceiling
	// stops: what was set before is in force again
}

func ExampleTuner_Metrics() {
	t, err := gctune.New(gctune.Options{
		Budget:  512 << 20,
		Ceiling: 768 << 20, // where the budget is too small
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Stop()
	t.Metrics(func(name string, value float64) {
		if name == "gctune_budget_bytes" {
			fmt.Println(name, value)
		}
	})
	// Output:
	// gctune_budget_bytes 5.36870912e+08
}
