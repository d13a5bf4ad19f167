package breaker

import (
	"testing"

	"github.com/whylate/whylate/sdk/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m, "sdk/breaker.") }
