//go:build unix

package pace

import (
	"math"
	"testing"
	"time"

	"github.com/whylate/whylate/sdk/quota"
)

func TestWhatWasUsedBeforeThereWasAQuotaIsNotHeldAgainstTheBackground(t *testing.T) {
	var s steering
	s.init(&Pacer{})
	for processCPU() < int64(time.Second/2) {
	}
	s.quota = quota.Report{CPUs: 4}
	if room := s.room(int64(period), false); !math.IsInf(room, 1) {
		t.Errorf("without a quota there are %v cores", room)
	}
	s.quota.Groups = []quota.Group{{Path: "/late", Cores: 2}}
	// What the process has used since then is next to nothing.
	if room := s.room(int64(period), false); room < 0.9 {
		t.Errorf("of 2 cores %v are left", room)
	}
}
