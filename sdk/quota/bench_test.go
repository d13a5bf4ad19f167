package quota

import "testing"

func BenchmarkCheck(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Check()
	}
}
