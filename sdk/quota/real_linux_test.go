package quota

import (
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whylate/whylate/sdk/internal/quotatest"
)

const child = "WHYLATE_QUOTA_CHILD"

// A child in a real group, below one that has a real quota, finds that and is throttled.
func TestARealQuotaIsFoundAndThrottles(t *testing.T) {
	if quotatest.InGroup(child) {
		beThrottled()
		return
	}
	parent, procs := quotatest.Group(t, 20_000)
	out := quotatest.Child(t, procs, child)
	var got struct {
		Cores      float64
		Group      string
		Text       string
		Throttling Throttling
	}
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err, out)
	}
	if got.Cores != 0.2 || got.Group != parent {
		t.Errorf("%v cores by %q, want 0.2 by %q", got.Cores, got.Group, parent)
	}
	if got.Throttling.Path != parent || got.Throttling.Throttled < 3 || got.Throttling.Stopped <= 0 {
		t.Errorf("%+v", got.Throttling)
	}
	t.Log(got.Text)
}

func beThrottled() {
	before := Check()
	var stop atomic.Bool
	for i := 0; i < 2; i++ {
		go func() {
			for !stop.Load() {
			}
		}()
	}
	now := before
	for start := time.Now(); now.Since(before).Throttled < 3 && time.Since(start) < 30*time.Second; {
		time.Sleep(10 * time.Millisecond)
		now = Check()
	}
	stop.Store(true)
	cores, group := now.Cores()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"Cores": cores, "Group": group, "Throttling": now.Since(before), "Text": now.String()})
}
